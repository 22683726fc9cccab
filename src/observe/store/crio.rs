//! The store of CRI-O: the files of containers/storage beside the directories that `ImageFsInfo` names,
//! `<root>/<driver>-images` and, if containers are in a store of their own (`imagestore`), `<root>/<driver>-containers`.
//!
//! CRI-O replaces these files whole, one after the other, so they need not agree: a layer whose parent no file has is
//! incomplete. An entry that cannot be read is missing, and the others are read all the same.

mod artifacts;
mod layer_graph;
mod sizes;

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use tokio::time::Instant;

use crate::host_path::{HostFs, Resolved};
use crate::model::{CRI_NAMESPACE, HolderKind, RuntimeStore, Seen, StoreHolder, known_time};
use layer_graph::Graph;
use sizes::PartFiles;
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
        return Seen::NotSeen(format!("{} is not a directory of containers/storage", images.display()));
    };
    let Wanted { sizes, containers, writable_layers, until } = wanted;
    let place = root.path.clone();
    let of_containers = containers.as_deref().and_then(Root::beside).filter(|other| *other != root);
    let roots: Vec<_> = [root].into_iter().chain(of_containers).collect();
    let read = move |host: &HostFs| {
        let (mut store, mut files) = Files { host, roots: &roots, unreadable: Vec::new() }.read()?;
        files.retain(|part| writable_layers || !part.is_writable(&store));
        sizes.fill(host, &mut store, files, until);
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
    fn read(mut self) -> io::Result<(RuntimeStore, Vec<PartFiles>)> {
        // Containers before images before layers: what is created meanwhile refers to what is read later.
        let containers = self.lists("containers", &["containers", "volatile-containers"])?;
        let images = self.lists("images", &["images"])?;
        let mut graph = Graph::new(self.roots, self.lists("layers", &["layers", "volatile-layers"])?);
        graph.add_images(images);
        graph.add_containers(containers);
        artifacts::add(&mut graph, self.host);
        graph.store.missing.extend(self.unreadable);
        Ok((graph.store, graph.files))
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

fn holder(kind: HolderKind, name: String) -> StoreHolder {
    StoreHolder { kind, namespace: CRI_NAMESPACE.to_owned(), name, ..StoreHolder::default() }
}

/// Returns whether this is an id of containers/storage, so that it is one file name.
fn is_id(id: &str) -> bool {
    id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

#[cfg(test)]
mod tests;
