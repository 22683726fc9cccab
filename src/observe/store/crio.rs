//! The store of CRI-O: the files of containers/storage beside the directories that `ImageFsInfo` names,
//! `<root>/<driver>-images` and, if containers are in a store of their own (`imagestore`), `<root>/<driver>-containers`.
//!
//! CRI-O replaces these files whole, one after the other, so they need not agree: a layer whose parent no file has is
//! incomplete. An entry that cannot be read is missing, and the others are read all the same.

mod artifacts;
mod sizes;

use std::collections::HashMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use tokio::time::Instant;

use crate::host_path::{HostFs, Resolved};
use crate::model::{CRI_NAMESPACE, HolderKind, PartKind, RuntimeStore, Seen, StoreHolder, StorePart, known_time};
use sizes::Place;
pub(super) use sizes::Sizes;

/// The largest file that is read. One entry has about 1 KiB.
const MOST_BYTES: u64 = 64 << 20;

/// The drivers that keep each layer in a directory of its own, and the parent of these directories.
const IN_DIRECTORIES: [(&str, &str); 2] = [("overlay", "overlay"), ("vfs", "vfs/dir")];

/// An entry of `layers.json`.
#[derive(Deserialize)]
struct Layer {
    id: String,
    #[serde(default)]
    parent: String,
    #[serde(default, deserialize_with = "known_time")]
    created: Option<Timestamp>,
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
    /// When it was built, as its author says.
    #[serde(default, deserialize_with = "known_time")]
    created: Option<Timestamp>,
}

/// An entry of `containers.json`.
#[derive(Deserialize)]
struct Container {
    id: String,
    #[serde(default)]
    image: String,
    #[serde(default)]
    layer: String,
    #[serde(default, deserialize_with = "known_time")]
    created: Option<Timestamp>,
}

/// An entry of any of them.
#[derive(Deserialize)]
#[serde(untagged)]
enum Entry<T> {
    Read(T),
    Unreadable(IgnoredAny),
}

/// What to measure.
pub(super) struct Wanted {
    /// The sizes so far.
    pub sizes: Sizes,
    /// The directory of containers that the runtime names.
    pub containers: Option<PathBuf>,
    /// Whether the layers of containers are measured too.
    pub writable_layers: bool,
    /// When measuring ends.
    pub until: Instant,
}

/// Reads the store. `images` is the directory of images that the runtime names.
pub(super) async fn read(host: &HostFs, images: &Path, wanted: Wanted) -> Seen<RuntimeStore> {
    let Some(root) = Root::beside(images) else {
        return Seen::NotSeen(format!("{} is no directory of containers/storage", images.display()));
    };
    let Wanted { sizes, containers, writable_layers, until } = wanted;
    let place = root.path.clone();
    let of_containers = containers.as_deref().and_then(Root::beside).filter(|other| *other != root);
    let roots: Vec<_> = [root].into_iter().chain(of_containers).collect();
    let read = move |host: &HostFs| {
        let (mut store, mut places) = Files { host, roots: &roots, unreadable: Vec::new() }.read()?;
        places.retain(|place| writable_layers || !place.is_writable(&store));
        sizes.fill(host, &mut store, places, until);
        Ok::<_, io::Error>(store)
    };
    match host.run(&place, read).await {
        Ok(store) => store.map_err(|error| error.to_string()).into(),
        Err(error) => Seen::NotSeen(error.to_string()),
    }
}

/// The root of a storage, `/var/lib/containers/storage`, and the name of its driver.
#[derive(Clone, PartialEq)]
struct Root {
    path: PathBuf,
    driver: String,
}

// === impl Root ===

impl Root {
    /// Returns the root of the storage in which this is the directory of images, or that of containers.
    fn beside(directory: &Path) -> Option<Self> {
        let name = directory.file_name()?.to_str()?;
        let driver = name.strip_suffix("-images").or_else(|| name.strip_suffix("-containers"))?;
        Some(Self { path: directory.parent()?.to_owned(), driver: driver.to_owned() })
    }

    fn directory(&self, kind: &str) -> PathBuf {
        self.path.join(format!("{}-{kind}", self.driver))
    }

    /// Returns the directory of a layer; `None` = the driver keeps it elsewhere, or its id is no file name.
    fn layer(&self, id: &str) -> Option<PathBuf> {
        let (_, parent) = IN_DIRECTORIES.iter().find(|(driver, _)| *driver == self.driver)?;
        is_id(id).then(|| self.path.join(parent).join(id))
    }
}

/// The files of a storage.
struct Files<'a> {
    host: &'a HostFs,
    /// The store of images, and that of containers if it is another.
    roots: &'a [Root],
    /// The entries that cannot be read.
    unreadable: Vec<String>,
}

// === impl Files ===

impl<'a> Files<'a> {
    fn read(mut self) -> io::Result<(RuntimeStore, Vec<Place>)> {
        // Containers before images before layers: what is created meanwhile refers to what is read later.
        let containers = self.lists("containers", &["containers", "volatile-containers"])?;
        let images = self.lists("images", &["images"])?;
        let mut graph = Graph::new(self.roots, self.lists("layers", &["layers", "volatile-layers"])?);
        graph.add_images(images);
        graph.add_containers(containers);
        artifacts::add(&mut graph, self.host);
        graph.store.missing.extend(self.unreadable);
        Ok((graph.store, graph.places))
    }

    /// Reads lists of all stores. Each entry has its store.
    fn lists<T: DeserializeOwned>(&mut self, directory: &str, names: &[&str]) -> io::Result<Vec<(&'a Root, T)>> {
        let mut all = Vec::new();
        for root in self.roots {
            for name in names {
                let path = root.directory(directory).join(format!("{name}.json"));
                all.extend(self.list(&path)?.into_iter().map(|entry| (root, entry)));
            }
        }
        Ok(all)
    }

    /// Reads a list; a file that does not exist is an empty one.
    fn list<T: DeserializeOwned>(&mut self, path: &Path) -> io::Result<Vec<T>> {
        let failed = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let Some(text) = text(self.host, path, MOST_BYTES).map_err(failed)? else { return Ok(Vec::new()) };
        let entries: Vec<Entry<T>> = serde_json::from_slice(&text).map_err(|error| failed(error.into()))?;
        let all = entries.len();
        let read: Vec<_> = entries.into_iter().filter_map(Entry::read).collect();
        if read.len() < all {
            self.unreadable.push(format!(
                "{} of {all} entries of {}: not as expected",
                all - read.len(),
                path.display()
            ));
        }
        Ok(read)
    }
}

impl<T> Entry<T> {
    fn read(self) -> Option<T> {
        match self {
            Self::Read(entry) => Some(entry),
            Self::Unreadable(_) => None,
        }
    }
}

/// Reads a file of at most so many bytes, if it exists.
fn text(host: &HostFs, path: &Path, most: u64) -> io::Result<Option<Vec<u8>>> {
    let Resolved::Exists(at) = host.resolve(path)? else { return Ok(None) };
    let mut text = Vec::new();
    std::fs::File::open(at)?.take(most + 1).read_to_end(&mut text)?;
    if text.len() as u64 > most {
        return Err(io::Error::other(format!("larger than {most} bytes")));
    }
    Ok(Some(text))
}

/// The store in the making, and where its parts are.
struct Graph<'a> {
    roots: &'a [Root],
    store: RuntimeStore,
    places: Vec<Place>,
    /// The positions of the layers.
    layers: HashMap<String, usize>,
}

// === impl Graph ===

impl<'a> Graph<'a> {
    fn new(roots: &'a [Root], layers: Vec<(&'a Root, Layer)>) -> Self {
        let ids = layers.iter().enumerate().map(|(position, (_, layer))| (layer.id.clone(), position));
        let mut graph = Self { roots, store: RuntimeStore::default(), places: Vec::new(), layers: ids.collect() };
        for (root, layer) in layers {
            graph.add_layer(root, layer);
        }
        graph
    }

    fn add_layer(&mut self, root: &Root, layer: Layer) {
        let parent = self.layers.get(&layer.parent).copied();
        match root.layer(&layer.id) {
            Some(path) => {
                let beside = self.archive(&layer.id);
                self.places.push(Place { part: self.store.parts.len(), path, beside });
            }
            None => self.add_unmeasured(root, &layer.id),
        }
        self.store.parts.push(StorePart {
            namespace: CRI_NAMESPACE.to_owned(),
            created_at: layer.created,
            incomplete: parent.is_none() && !layer.parent.is_empty(),
            name: layer.id,
            refs: parent.into_iter().collect(),
            ..StorePart::default()
        });
    }

    /// Returns the file with the order of the files in the archive of a layer. It is with the containers.
    fn archive(&self, layer: &str) -> Option<PathBuf> {
        Some(self.roots.last()?.directory("layers").join(format!("{layer}.tar-split.gz")))
    }

    /// Notes a layer that has no directory of its own.
    fn add_unmeasured(&mut self, root: &Root, id: &str) {
        let cause = if is_id(id) {
            format!("sizes of driver {}: it does not keep layers in directories", root.driver)
        } else {
            "sizes of layers whose id is not one of containers/storage".to_owned()
        };
        if !self.store.missing_sizes.contains(&cause) {
            self.store.missing_sizes.push(cause);
        }
    }

    fn add_images(&mut self, images: Vec<(&'a Root, Image)>) {
        for (root, image) in images {
            let tops = image.mapped_layers.iter().chain([&image.layer]);
            let layers = tops.filter_map(|layer| self.layers.get(layer).copied());
            let refs = layers.chain([self.store.parts.len()]).collect();
            self.add_metadata(root, &image);
            let created_at = image.created;
            self.store.holders.push(StoreHolder { created_at, refs, ..holder(HolderKind::Image, image.id) });
        }
    }

    /// Adds the manifests and the configuration of an image. They are no compressed blobs.
    fn add_metadata(&mut self, root: &Root, image: &Image) {
        if is_id(&image.id) {
            let path = root.directory("images").join(&image.id);
            self.places.push(Place { part: self.store.parts.len(), path, beside: None });
        }
        self.store.parts.push(StorePart {
            namespace: CRI_NAMESPACE.to_owned(),
            name: image.id.clone(),
            created_at: image.created,
            incomplete: !image.layer.is_empty() && !self.layers.contains_key(&image.layer),
            ..StorePart::default()
        });
    }

    fn add_containers(&mut self, containers: Vec<(&'a Root, Container)>) {
        for (_, container) in containers {
            let layer = self.layers.get(&container.layer).copied();
            if let Some(part) = layer.and_then(|layer| self.store.parts.get_mut(layer)) {
                part.kind = PartKind::Writable;
            }
            let image = Some(container.image).filter(|image| !image.is_empty());
            let (created_at, refs) = (container.created, layer.into_iter().collect());
            let of = holder(HolderKind::Container, container.id);
            self.store.holders.push(StoreHolder { image, created_at, refs, ..of });
        }
    }
}

fn holder(kind: HolderKind, name: String) -> StoreHolder {
    StoreHolder { kind, namespace: CRI_NAMESPACE.to_owned(), name, ..StoreHolder::default() }
}

/// Returns whether this is an id of containers/storage, so that it is one file name.
fn is_id(id: &str) -> bool {
    id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/crio/storage");

    /// Copies the recorded files to a storage whose layers have as many bytes as theirs had.
    fn recorded() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for name in ["overlay-layers/layers.json", "overlay-images/images.json", "overlay-containers/containers.json"] {
            let at = dir.path().join(name);
            std::fs::create_dir_all(at.parent().unwrap()).unwrap();
            std::fs::copy(Path::new(RECORDED).join(name), at).unwrap();
        }
        let write = |path: PathBuf, bytes: u64| {
            std::fs::create_dir_all(&path).unwrap();
            std::fs::write(path.join("file"), vec![7; usize::try_from(bytes).unwrap()]).unwrap();
        };
        let entries = |name| -> Vec<serde_json::Value> {
            serde_json::from_str(&std::fs::read_to_string(dir.path().join(name)).unwrap()).unwrap()
        };
        for layer in entries("overlay-layers/layers.json") {
            let path = dir.path().join("overlay").join(layer["id"].as_str().unwrap());
            write(path.join("diff"), layer["diff-size"].as_u64().unwrap_or(3 << 20));
        }
        for image in entries("overlay-images/images.json") {
            write(dir.path().join("overlay-images").join(image["id"].as_str().unwrap()), 3000);
        }
        dir
    }

    async fn read_all(images: &Path) -> Seen<RuntimeStore> {
        let until = Instant::now() + std::time::Duration::from_mins(10);
        read(
            &HostFs::default(),
            images,
            Wanted { sizes: Sizes::default(), containers: None, writable_layers: true, until },
        )
        .await
    }

    /// Returns the bytes that each image holds, with shared layers.
    fn bytes_of_images(store: &RuntimeStore) -> [u64; 3] {
        let images = store.holders.iter().filter(|holder| holder.kind == HolderKind::Image);
        let bytes = |holder| store.held_by(holder).iter().filter_map(|part| store.parts[*part].bytes).sum();
        images.map(bytes).collect::<Vec<_>>().try_into().unwrap()
    }

    #[tokio::test]
    async fn layers_of_crio_are_shared_as_its_files_say() {
        let dir = recorded();
        let Seen::Seen(store) = read_all(&dir.path().join("overlay-images")).await else { panic!("not read") };
        assert_eq!(store.missing_sizes, [""; 0]);
        // A directory has a block too.
        assert_eq!(bytes_of_images(&store).map(|bytes| bytes >> 20), [7, 8, 8]);
        let (_, writable) = store.writable_layers().next().unwrap();
        assert_eq!((writable.bytes.unwrap() >> 20, writable.inodes), (3, Some(3)));
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
        assert_eq!(read_all(&images).await, Seen::Seen(RuntimeStore::default()), "no file");
        write("overlay-images/images.json", r#"[{"id": "i", "layer": "top"}]"#);
        write("overlay-layers/layers.json", r#"[{"id": 7}, {"id": "top", "parent": "removed since", "created": "x"}]"#);
        let Seen::Seen(store) = read_all(&images).await else { panic!("not read") };
        assert_eq!((store.parts[0].incomplete, store.parts[0].bytes), (true, None));
        assert!(store.missing[0].starts_with("1 of 2 entries of "), "one entry affects only itself: {store:?}");
        assert_eq!(store.missing_sizes, ["sizes of layers whose id is not one of containers/storage"]);
        write("overlay-layers/layers.json", "[{");
        let error = read_all(&images).await;
        assert!(error.cause().is_some_and(|cause| cause.contains("layers.json: EOF")), "{error:?}");
        let other = read_all(Path::new("/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs")).await;
        assert!(
            other.cause().is_some_and(|cause| cause.ends_with("is no directory of containers/storage")),
            "{other:?}"
        );
    }
}
