//! The store of CRI-O: the files of containers/storage beside the directory that `ImageFsInfo` names,
//! `<root>/<driver>-images`.
//!
//! CRI-O replaces these files whole, one after the other, so they need not agree: a layer whose parent no file has is
//! incomplete. The sizes of layers are those of their contents, without what the file system adds.

use std::collections::HashMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::host_path::{HostFs, Resolved};
use crate::model::{CRI_NAMESPACE, HolderKind, PartKind, RuntimeStore, Seen, StoreHolder, StorePart};

/// The largest file that is read. One entry has about 1 KiB.
const MOST_BYTES: u64 = 64 << 20;

/// An entry of `layers.json`.
#[derive(Deserialize)]
struct Layer {
    id: String,
    #[serde(default)]
    parent: String,
    #[serde(default)]
    created: Option<Timestamp>,
    /// Bytes of the contents; missing for the layer of a container.
    #[serde(default, rename = "diff-size")]
    diff_size: Option<i64>,
}

/// An entry of `images.json`.
#[derive(Deserialize)]
struct Image {
    id: String,
    /// The topmost layer.
    #[serde(default)]
    layer: String,
    /// Other topmost layers of the same image, for other ranges of user ids.
    #[serde(default, rename = "mapped-layers")]
    mapped_layers: Vec<String>,
    #[serde(default)]
    created: Option<Timestamp>,
    /// The bytes of manifests and configuration.
    #[serde(default, rename = "big-data-sizes")]
    big_data_sizes: HashMap<String, i64>,
}

/// An entry of `containers.json`.
#[derive(Deserialize)]
struct Container {
    id: String,
    #[serde(default)]
    image: String,
    #[serde(default)]
    layer: String,
    #[serde(default)]
    created: Option<Timestamp>,
}

/// Reads the store. `images` is the directory of images that the runtime names.
pub(super) async fn read(host: &HostFs, images: &Path) -> Seen<RuntimeStore> {
    let Some((root, driver)) = storage(images) else {
        return Seen::NotSeen(format!("{} is no directory of containers/storage", images.display()));
    };
    let read = host.run(&root.clone(), move |host| Files { host, root: &root, driver: &driver }.read()).await;
    match read {
        Ok(store) => store.map_err(|error| error.to_string()).into(),
        Err(error) => Seen::NotSeen(error.to_string()),
    }
}

/// Returns the root of the storage and the name of its driver: `/var/lib/containers/storage` and `overlay`.
fn storage(images: &Path) -> Option<(PathBuf, String)> {
    let driver = images.file_name()?.to_str()?.strip_suffix("-images")?;
    Some((images.parent()?.to_owned(), driver.to_owned()))
}

/// The files of a storage.
struct Files<'a> {
    host: &'a HostFs,
    root: &'a Path,
    driver: &'a str,
}

// === impl Files ===

impl Files<'_> {
    fn read(&self) -> io::Result<RuntimeStore> {
        // Containers before images before layers: what is created meanwhile refers to what is read later.
        let mut containers: Vec<Container> = self.list("containers", "containers")?;
        containers.extend(self.list("containers", "volatile-containers")?);
        let images = self.list("images", "images")?;
        let mut layers: Vec<Layer> = self.list("layers", "layers")?;
        layers.extend(self.list("layers", "volatile-layers")?);
        Ok(store(layers, images, containers))
    }

    /// Reads a list; a file that does not exist is an empty one.
    fn list<T: DeserializeOwned>(&self, directory: &str, name: &str) -> io::Result<Vec<T>> {
        let path = self.root.join(format!("{}-{directory}/{name}.json", self.driver));
        let failed = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let at = match self.host.resolve(&path).map_err(failed)? {
            Resolved::Exists(at) => at,
            Resolved::Missing(_) => return Ok(Vec::new()),
        };
        let mut text = Vec::new();
        std::fs::File::open(at).map_err(failed)?.take(MOST_BYTES + 1).read_to_end(&mut text).map_err(failed)?;
        if text.len() as u64 > MOST_BYTES {
            return Err(failed(io::Error::other(format!("larger than {MOST_BYTES} bytes"))));
        }
        serde_json::from_slice(&text).map_err(|error| failed(error.into()))
    }
}

fn store(layers: Vec<Layer>, images: Vec<Image>, containers: Vec<Container>) -> RuntimeStore {
    let positions: HashMap<String, usize> =
        layers.iter().enumerate().map(|(position, layer)| (layer.id.clone(), position)).collect();
    let position = |id: &str| positions.get(id).copied();
    let mut parts: Vec<_> = layers.into_iter().map(|layer| part(position(&layer.parent), layer)).collect();
    for container in &containers {
        if let Some(part) = position(&container.layer).and_then(|position| parts.get_mut(position)) {
            (part.kind, part.bytes) = (PartKind::Writable, None);
        }
    }
    let mut holders = Vec::new();
    for image in images {
        let tops = image.mapped_layers.iter().chain([&image.layer]);
        let refs = tops.filter_map(|layer| position(layer)).chain([parts.len()]).collect();
        parts.push(metadata(&image));
        holders.push(StoreHolder { created_at: image.created, refs, ..holder(HolderKind::Image, image.id) });
    }
    for container in containers {
        let refs = position(&container.layer).into_iter().collect();
        let of = holder(HolderKind::Container, container.id);
        let image = Some(container.image).filter(|image| !image.is_empty());
        holders.push(StoreHolder { created_at: container.created, refs, image, ..of });
    }
    RuntimeStore { parts, holders, ..RuntimeStore::default() }
}

fn part(parent: Option<usize>, layer: Layer) -> StorePart {
    StorePart {
        namespace: CRI_NAMESPACE.to_owned(),
        bytes: layer.diff_size.and_then(|bytes| u64::try_from(bytes).ok()),
        created_at: layer.created,
        incomplete: parent.is_none() && !layer.parent.is_empty(),
        name: layer.id,
        refs: parent.into_iter().collect(),
        ..StorePart::default()
    }
}

/// Returns the manifests and the configuration of an image.
fn metadata(image: &Image) -> StorePart {
    let bytes = image.big_data_sizes.values().filter_map(|bytes| u64::try_from(*bytes).ok()).sum();
    StorePart {
        kind: PartKind::Blob,
        namespace: CRI_NAMESPACE.to_owned(),
        name: image.id.clone(),
        bytes: Some(bytes),
        inodes: Some(image.big_data_sizes.len() as u64),
        created_at: image.created,
        ..StorePart::default()
    }
}

fn holder(kind: HolderKind, name: String) -> StoreHolder {
    StoreHolder { kind, namespace: CRI_NAMESPACE.to_owned(), name, ..StoreHolder::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/crio/storage");

    /// Returns the bytes that each image holds, with shared layers.
    fn bytes_of_images(store: &RuntimeStore) -> Vec<u64> {
        let images = store.holders.iter().filter(|holder| holder.kind == HolderKind::Image);
        let bytes = |holder| store.held_by(holder).iter().filter_map(|part| store.parts[*part].bytes).sum();
        images.map(bytes).collect()
    }

    #[tokio::test]
    async fn layers_of_crio_are_shared_as_its_files_say() {
        let images = Path::new(RECORDED).join("overlay-images");
        let Seen::Seen(store) = read(&HostFs::default(), &images).await else { panic!("not read") };
        let (mib, metadata) = (1 << 20, 3000);
        assert_eq!(bytes_of_images(&store), [7, 8, 8].map(|layers| layers * mib + metadata));
        let container = store.holders.iter().find(|holder| holder.kind == HolderKind::Container).unwrap();
        assert_eq!(container.image.as_ref(), Some(&store.holders[2].name), "by the id of its image");
        let held = store.held_by(container);
        let kinds: Vec<_> = held.iter().map(|part| store.parts[*part].kind).collect();
        assert_eq!(kinds, [PartKind::Layer, PartKind::Layer, PartKind::Layer, PartKind::Writable]);
        assert_eq!(store.parts.iter().filter(|part| part.incomplete).count(), 0);
    }

    #[tokio::test]
    async fn a_store_that_changes_or_breaks_is_read_as_far_as_it_goes() {
        let dir = tempfile::tempdir().unwrap();
        let images = dir.path().join("overlay-images");
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        assert_eq!(read(&HostFs::default(), &images).await, Seen::Seen(RuntimeStore::default()), "no file");
        write("overlay-images/images.json", r#"[{"id": "i", "layer": "top"}]"#);
        write("overlay-layers/layers.json", r#"[{"id": "top", "parent": "removed since", "diff-size": -1}]"#);
        let Seen::Seen(store) = read(&HostFs::default(), &images).await else { panic!("not read") };
        assert_eq!((store.parts[0].incomplete, store.parts[0].bytes), (true, None));
        write("overlay-layers/layers.json", "[{");
        let error = read(&HostFs::default(), &images).await;
        assert!(error.cause().is_some_and(|cause| cause.contains("layers.json: EOF")), "{error:?}");
        let other =
            read(&HostFs::default(), Path::new("/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs")).await;
        assert!(
            other.cause().is_some_and(|cause| cause.ends_with("is no directory of containers/storage")),
            "{other:?}"
        );
    }
}
