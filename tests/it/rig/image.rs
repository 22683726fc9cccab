//! Images made in memory: layers of given sizes, shared or not, packed as by `docker save`.

use std::fmt::Write as _;
use std::io::Write;
use std::sync::Arc;

use serde_json::json;
use sha2::{Digest, Sha256};

use super::versions;

/// One layer: a tar, and its digest in hexadecimal digits.
pub struct Layer {
    tar: Vec<u8>,
    digest: String,
}

/// An image. Layers are shared by cloning the `Arc`.
pub struct Image {
    tags: Vec<String>,
    layers: Vec<Arc<Layer>>,
    config: Vec<u8>,
}

// === impl Layer ===

impl Layer {
    /// Returns a layer with a shell, `sleep`, and the directories on which a runtime mounts things.
    pub fn busybox() -> Arc<Self> {
        let mut tar = tar::Builder::new(Vec::new());
        for dir in ["bin", "tmp", "etc", "proc", "sys", "dev"] {
            entry(&mut tar, tar::EntryType::Directory, dir, &[]);
        }
        entry(&mut tar, tar::EntryType::Regular, "bin/busybox", &versions::busybox());
        for name in ["bin/sh", "bin/sleep"] {
            let mut header = header(tar::EntryType::Symlink, 0);
            tar.append_link(&mut header, name, "busybox").unwrap();
        }
        Self::of(tar.into_inner().unwrap())
    }

    /// Returns a layer with one incompressible file of `mib` MiB. The content depends on the name.
    pub fn filled(name: &str, mib: usize) -> Arc<Self> {
        let mut tar = tar::Builder::new(Vec::new());
        entry(&mut tar, tar::EntryType::Regular, name, &noise(name, mib << 20));
        Self::of(tar.into_inner().unwrap())
    }

    /// Returns a layer with a directory of `count` files of `bytes` bytes each.
    pub fn small_files(dir: &str, count: usize, bytes: usize) -> Arc<Self> {
        let mut tar = tar::Builder::new(Vec::new());
        for number in 0..count {
            entry(&mut tar, tar::EntryType::Regular, &format!("{dir}/{number}"), &vec![b'x'; bytes]);
        }
        Self::of(tar.into_inner().unwrap())
    }

    fn of(tar: Vec<u8>) -> Arc<Self> {
        let digest = hex(&tar);
        Arc::new(Self { tar, digest })
    }
}

// === impl Image ===

impl Image {
    /// Creates an image with tags. By default it runs `sleep`. Its ID depends on tags and layers.
    pub fn new(tags: &[&str], layers: &[Arc<Layer>]) -> Self {
        Self::built("2020-01-01", tags, layers)
    }

    /// Creates an image that was built on a day.
    pub fn built(day: &str, tags: &[&str], layers: &[Arc<Layer>]) -> Self {
        let diff_ids: Vec<_> = layers.iter().map(|layer| format!("sha256:{}", layer.digest)).collect();
        let config = json!({
            "architecture": if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" },
            "os": "linux",
            "created": format!("{day}T00:00:00Z"),
            "config": { "Entrypoint": ["/bin/sleep", "1000000"], "Env": ["PATH=/bin"], "Labels": { "made-as": tags.join(" ") } },
            "rootfs": { "type": "layers", "diff_ids": diff_ids },
        });
        Self {
            tags: tags.iter().map(|&tag| tag.to_owned()).collect(),
            layers: layers.to_vec(),
            config: config.to_string().into_bytes(),
        }
    }

    /// Returns the ID of the image in a runtime.
    pub fn id(&self) -> String {
        format!("sha256:{}", hex(&self.config))
    }

    /// Returns its manifest in a registry (OCI), and the content of its blobs: the configuration, then the layers.
    pub fn in_registry(&self) -> (Vec<u8>, Vec<Vec<u8>>) {
        let layers = self.layers.iter().map(|layer| layer.tar.clone());
        let blobs: Vec<_> = std::iter::once(self.config.clone()).chain(layers).collect();
        let mut parts = blobs.iter().enumerate().map(|(index, blob)| {
            let kind = if index == 0 { "config.v1+json" } else { "layer.v1.tar" };
            let kind = format!("application/vnd.oci.image.{kind}");
            json!({ "mediaType": kind, "digest": format!("sha256:{}", hex(blob)), "size": blob.len() })
        });
        let (config, layers) = (parts.next(), parts.collect::<Vec<_>>());
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": config,
            "layers": layers,
        });
        (manifest.to_string().into_bytes(), blobs)
    }

    /// Returns its tags.
    pub fn tags(&self) -> &[String] {
        &self.tags
    }
}

/// Writes images as one archive, as `docker save` does.
pub fn write_archive(images: &[Image], to: impl Write) {
    let mut tar = tar::Builder::new(to);
    let mut written = Vec::new();
    for layer in images.iter().flat_map(|image| &image.layers) {
        if !written.contains(&&layer.digest) {
            entry(&mut tar, tar::EntryType::Regular, &layer_name(layer), &layer.tar);
            written.push(&layer.digest);
        }
    }
    for image in images {
        entry(&mut tar, tar::EntryType::Regular, &config_name(image), &image.config);
    }
    let manifest: Vec<_> = images.iter().map(manifest_entry).collect();
    entry(&mut tar, tar::EntryType::Regular, "manifest.json", json!(manifest).to_string().as_bytes());
    tar.finish().unwrap();
}

fn manifest_entry(image: &Image) -> serde_json::Value {
    let layers: Vec<_> = image.layers.iter().map(|layer| layer_name(layer)).collect();
    json!({ "Config": config_name(image), "RepoTags": image.tags, "Layers": layers })
}

fn layer_name(layer: &Layer) -> String {
    format!("{}.tar", layer.digest)
}

fn config_name(image: &Image) -> String {
    format!("{}.json", hex(&image.config))
}

fn entry(tar: &mut tar::Builder<impl Write>, kind: tar::EntryType, name: &str, data: &[u8]) {
    tar.append_data(&mut header(kind, data.len() as u64), name, data).unwrap();
}

fn header(kind: tar::EntryType, size: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(0o755);
    header.set_size(size);
    header
}

/// Returns the SHA-256 of data in hexadecimal digits.
pub fn hex(data: &[u8]) -> String {
    Sha256::digest(data).iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").unwrap();
        hex
    })
}

/// Returns incompressible bytes that depend on the name: one block of xorshift64, repeated.
fn noise(name: &str, len: usize) -> Vec<u8> {
    const BLOCK: usize = 1 << 20; // larger than the window of a compressor
    let mut x =
        name.bytes().fold(0x9e37_79b9_7f4a_7c15_u64, |x, byte| (x ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x.to_le_bytes()
    };
    let block: Vec<u8> = (0..BLOCK / 8).flat_map(|_| next()).collect();
    let mut noise = block.repeat(len.div_ceil(BLOCK));
    noise.truncate(len);
    noise
}
