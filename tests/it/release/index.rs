//! The image for all architectures: `scripts/index.sh` joins those of `scripts/image.sh`. `containerd_image` imports it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::{Value, json};

use super::run;
use crate::rig::hex;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// Makes an image with a small program, and returns its path. The image of an architecture may have a program of another.
pub fn small_image(dir: &Path, arch: &str, name: &str) -> PathBuf {
    let file = dir.join(format!("{arch}.tar"));
    let args = ["--arch", arch, "--binary", "/bin/true", "--name", name, file.to_str().unwrap()];
    let made = run(Path::new(ROOT), "scripts/image.sh", &args);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    file
}

/// Joins images in a file.
pub fn join(file: &Path, images: &[&Path]) {
    let joined = ran(file, images);
    assert!(joined.status.success(), "{}", String::from_utf8_lossy(&joined.stderr));
}

/// Returns why images are refused.
fn refusal(file: &Path, images: &[&Path]) -> String {
    let refused = ran(file, images);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    String::from_utf8(refused.stderr).unwrap()
}

fn ran(file: &Path, images: &[&Path]) -> Output {
    let args: Vec<_> = std::iter::once(&file).chain(images).map(|path| path.to_str().unwrap()).collect();
    run(Path::new(ROOT), "scripts/index.sh", &args)
}

/// The files of an OCI layout.
struct Layout {
    files: BTreeMap<String, Vec<u8>>,
    reached: BTreeSet<String>,
}

// === impl Layout ===

impl Layout {
    fn read(archive: &Path) -> Self {
        let mut archive = tar::Archive::new(std::fs::File::open(archive).unwrap());
        let mut files = BTreeMap::new();
        for mut entry in archive.entries().unwrap().map(Result::unwrap) {
            let (path, mut data) = (entry.path().unwrap().to_str().unwrap().to_owned(), Vec::new());
            entry.read_to_end(&mut data).unwrap();
            if entry.header().entry_type().is_file() {
                assert!(files.insert(path, data).is_none(), "a file is there twice");
            }
        }
        Self { files, reached: BTreeSet::new() }
    }

    /// Returns the content that a descriptor refers to. Digest and size must be those of the content.
    fn blob(&mut self, descriptor: &Value) -> &[u8] {
        let digest = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
        let path = format!("blobs/sha256/{digest}");
        let data = self.files.get(&path).unwrap_or_else(|| panic!("no {path}"));
        assert_eq!((hex(data).as_str(), json!(data.len())), (digest, descriptor["size"].clone()), "{descriptor}");
        self.reached.insert(path);
        data
    }

    fn document(&mut self, descriptor: &Value) -> Value {
        let document: Value = serde_json::from_slice(self.blob(descriptor)).unwrap();
        if let Some(kind) = document.get("mediaType") {
            assert_eq!(*kind, descriptor["mediaType"]);
        }
        document
    }

    /// Returns the index that `index.json` refers to. The only entry there has the name.
    fn index(&mut self, name: &str) -> Value {
        assert_eq!(self.files["oci-layout"], br#"{"imageLayoutVersion":"1.0.0"}"#);
        let top: Value = serde_json::from_slice(&self.files["index.json"]).unwrap();
        assert_eq!(top["mediaType"], INDEX);
        let [entry] = &top["manifests"].as_array().unwrap()[..] else { panic!("not one entry: {top}") };
        let tag = name.rsplit(':').next().unwrap();
        let named = json!({ "io.containerd.image.name": name, "org.opencontainers.image.ref.name": tag });
        assert_eq!((&entry["mediaType"], &entry["annotations"]), (&INDEX.into(), &named));
        self.document(entry)
    }

    /// Returns the platform of each manifest. Its configuration must have the same, and all its blobs must exist.
    fn platforms(&mut self, index: &Value) -> Vec<Value> {
        let mut platforms = Vec::new();
        for descriptor in index["manifests"].as_array().unwrap() {
            assert!(descriptor.get("annotations").is_none(), "containerd would name the manifest too: {descriptor}");
            let manifest = self.document(descriptor);
            let config = self.document(&manifest["config"]);
            let platform = &descriptor["platform"];
            assert_eq!((&config["architecture"], &config["os"]), (&platform["architecture"], &platform["os"]));
            assert_eq!(config.get("variant"), platform.get("variant"));
            for layer in manifest["layers"].as_array().unwrap() {
                self.blob(layer);
            }
            platforms.push(platform.clone());
        }
        let blobs: BTreeSet<_> = self.files.keys().filter(|path| path.starts_with("blobs/")).cloned().collect();
        assert_eq!(self.reached, blobs, "no blob without use");
        platforms
    }
}

/// Returns the platforms of a joined image with a name, and checks all of its blobs.
pub fn platforms(archive: &Path, name: &str) -> Vec<Value> {
    let mut layout = Layout::read(archive);
    let index = layout.index(name);
    layout.platforms(&index)
}

#[test]
fn an_index_has_the_manifest_of_each_architecture() {
    let (dir, name) = (tempfile::tempdir().unwrap(), "registry.example.com/kubegc:1");
    let [amd64, arm64] = ["amd64", "arm64"].map(|arch| small_image(dir.path(), arch, name));
    let [both, again, one] = ["both", "again", "one"].map(|name| dir.path().join(name));
    join(&both, &[&amd64, &arm64]);
    let platform = |arch| json!({ "architecture": arch, "os": "linux" });
    assert_eq!(platforms(&both, name), [platform("amd64"), platform("arm64")]);
    join(&again, &[&amd64, &arm64]);
    assert!(std::fs::read(&both).unwrap() == std::fs::read(again).unwrap(), "the bytes are the same");
    join(&one, &[&arm64]);
    assert_eq!(platforms(&one, name), [platform("arm64")], "a release may have one architecture only");
}

#[test]
fn an_index_refuses_images_that_are_not_parts_of_one() {
    let dir = tempfile::tempdir().unwrap();
    let [file, other] = ["file", "other"].map(|name| dir.path().join(name));
    let one = small_image(dir.path(), "amd64", "registry.example.com/kubegc:1");
    let two = small_image(dir.path(), "arm64", "registry.example.com/kubegc:2");
    let refused = refusal(&file, &[&one, &two]);
    assert!(refused.contains("arm64.tar\" has another name than"), "{refused}");
    join(&other, &[&one]);
    let refused = refusal(&file, &[&other, &one]);
    assert!(refused.contains("/other\" is not an image of scripts/image.sh"), "{refused}");
    assert!(!file.exists(), "nothing is written");
}
