//! The OCI artifacts of CRI-O: an OCI image layout in the directory `artifacts` of the storage. The runtime lists them as images,
//! each with the digits of its manifest as its id.
//!
//! A tenant chooses what is pulled, so a digest of a manifest is a file name only if it is one of SHA-256.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::layer_graph::Graph;
use super::sizes::PartFiles;
use super::{Entry, holder, is_id, text};
use crate::host_path::HostFs;
use crate::model::{CRI_NAMESPACE, HolderKind, StoreHolder, StorePart};

/// The largest manifest that is read, as in the registries' own limit.
const MOST_BYTES: u64 = 4 << 20;

/// `index.json`, or the part of a manifest that names its blobs.
#[derive(Default, Deserialize)]
struct Manifest {
    manifests: Option<Vec<Entry<Descriptor>>>,
    config: Option<Entry<Descriptor>>,
    layers: Option<Vec<Entry<Descriptor>>>,
}

#[derive(Deserialize)]
struct Descriptor {
    digest: String,
}

/// The artifacts in the making.
struct Artifacts<'g, 'a> {
    graph: &'g mut Graph<'a>,
    host: &'g HostFs,
    blobs: PathBuf,
    /// The positions of the blobs, by their digits.
    known: HashMap<String, usize>,
}

/// Adds the artifacts. They are in the store of containers.
pub(super) fn add(graph: &mut Graph, host: &HostFs) {
    let Some(root) = graph.roots.last() else { return };
    let directory = root.path.join("artifacts");
    let index = match read(host, &directory.join("index.json"), super::MOST_BYTES) {
        Ok(index) => index,
        Err(error) => return graph.store.missing.push(format!("artifacts: {error}")),
    };
    let mut artifacts = Artifacts { graph, host, blobs: directory.join("blobs/sha256"), known: HashMap::new() };
    for id in index.manifests.unwrap_or_default().into_iter().filter_map(digits) {
        artifacts.add(&id);
    }
}

// === impl Artifacts ===

impl Artifacts<'_, '_> {
    /// Adds an artifact: its manifest, and the blobs that the manifest names.
    fn add(&mut self, id: &str) {
        let manifest =
            read(self.host, &self.blobs.join(id), MOST_BYTES).ok().filter(|manifest| manifest.layers.is_some());
        let is_unknown = manifest.is_none();
        let Manifest { config, layers, .. } = manifest.unwrap_or_default();
        let blobs: Vec<_> = config.into_iter().chain(layers.into_iter().flatten()).collect();
        let (all, own) = (blobs.len(), self.blob(id));
        let refs: Vec<_> = blobs.into_iter().filter_map(digits).map(|blob| self.blob(&blob)).collect();
        if let Some(part) = self.graph.store.parts.get_mut(own) {
            part.incomplete = is_unknown || refs.len() < all;
            part.refs = refs;
        }
        let holder = holder(HolderKind::Image, id.to_owned());
        self.graph.store.holders.push(StoreHolder { refs: vec![own], ..holder });
    }

    /// Returns the position of a blob.
    fn blob(&mut self, id: &str) -> usize {
        if let Some(position) = self.known.get(id) {
            return *position;
        }
        let (part, path) = (self.graph.store.parts.len(), self.blobs.join(id));
        self.graph.files.push(PartFiles { part, path, beside: None });
        let (namespace, name) = (CRI_NAMESPACE.to_owned(), format!("sha256:{id}"));
        self.graph.store.parts.push(StorePart { namespace, name, ..StorePart::default() });
        self.known.insert(id.to_owned(), part);
        part
    }
}

/// Returns the digits of a digest of SHA-256.
fn digits(descriptor: Entry<Descriptor>) -> Option<String> {
    let digest = descriptor.read()?.digest;
    digest.strip_prefix("sha256:").filter(|digits| is_id(digits)).map(str::to_owned)
}

/// Reads an index or a manifest. A file that does not exist is an empty one.
fn read(host: &HostFs, path: &Path, most: u64) -> std::io::Result<Manifest> {
    let failed = |error: std::io::Error| std::io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    let Some(text) = text(host, path, most).map_err(failed)? else { return Ok(Manifest::default()) };
    serde_json::from_slice(&text).map_err(|error| failed(error.into()))
}

#[cfg(test)]
mod tests {
    use super::super::Root;
    use super::*;

    fn named(digit: &str) -> String {
        format!(r#"{{ "digest": "sha256:{}" }}"#, digit.repeat(64))
    }

    /// Returns the artifacts of an index and manifests, each with the number of blobs that it holds and whether these are all.
    fn artifacts(index: &str, manifests: &[(&str, String)]) -> Vec<(usize, bool)> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("artifacts/blobs/sha256")).unwrap();
        std::fs::write(dir.path().join("artifacts/index.json"), index).unwrap();
        for (digit, manifest) in manifests {
            std::fs::write(dir.path().join("artifacts/blobs/sha256").join(digit.repeat(64)), manifest).unwrap();
        }
        let roots = [Root { path: dir.path().to_owned(), driver: "overlay".to_owned() }];
        let mut graph = Graph::new(&roots, Vec::new());
        add(&mut graph, &HostFs::default());
        let store = graph.store;
        let blobs = |holder| store.held_by(holder);
        let is_whole = |holder| blobs(holder).iter().all(|part| !store.parts[*part].incomplete);
        store.holders.iter().map(|holder| (blobs(holder).len(), is_whole(holder))).collect()
    }

    #[test]
    fn an_artifact_holds_its_manifest_and_what_that_names() {
        let index = format!(r#"{{ "manifests": [{}, {}] }}"#, named("a"), named("b"));
        let manifest = |layer: &str| format!(r#"{{ "config": {}, "layers": [{}] }}"#, named("e"), named(layer));
        assert_eq!(artifacts(&index, &[("a", manifest("1")), ("b", manifest("2"))]), [(3, true), (3, true)]);
        assert_eq!(artifacts(r#"{ "manifests": null }"#, &[]), [], "CRI-O writes this when there is none");
    }

    #[test]
    fn what_cannot_be_read_is_unknown_and_affects_only_itself() {
        let bad = [r#"{ "digest": 7 }"#, r#"{ "digest": "sha256:../../../etc/passwd" }"#, r#"{ "digest": "md5:1" }"#];
        let index = format!(r#"{{ "manifests": [{}, {}, {}] }}"#, bad.join(", "), named("a"), named("b"));
        let escapes = format!(r#"{{ "layers": [{}, {}] }}"#, bad[1], named("1"));
        assert_eq!(artifacts(&index, &[("a", escapes), ("b", "{".to_owned())]), [(2, false), (1, false)]);
    }
}
