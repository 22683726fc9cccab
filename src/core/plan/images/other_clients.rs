//! The images that containers of other clients of the runtime use: nerdctl, `ctr`, Docker, podman. No list of the CRI has those
//! containers, and some of them use images that it lists.
//!
//! A client names its image by name or id. An image of another namespace is the same if its manifest has the same digest.

use std::collections::{HashMap, HashSet};

use crate::model::{
    CRI_NAMESPACE, HolderKind, Image, RuntimeStore, Snapshot, StoreHolder, canonical_image_id, full_image_name,
};

/// The containers of other clients, by what names their images.
#[derive(Default)]
pub struct OtherClients<'a> {
    by_name: HashMap<String, &'a StoreHolder>,
    by_digest: HashMap<&'a str, &'a StoreHolder>,
    /// The digests of the images of the CRI by name.
    digests: HashMap<&'a str, Vec<&'a str>>,
}

// === impl OtherClients ===

impl<'a> OtherClients<'a> {
    /// Collects the containers of a snapshot. Without the store of the runtime none is known.
    pub fn new(snapshot: &'a Snapshot) -> Self {
        let Some(store) = snapshot.store.as_ref() else { return Self::default() };
        let records = store.holders.iter().filter(|holder| holder.kind == HolderKind::Image);
        let records: HashMap<_, _> =
            records.map(|record| ((record.namespace.as_str(), record.name.as_str()), digests(store, record))).collect();
        let (mut by_name, mut by_digest) = (HashMap::new(), HashMap::new());
        for container in containers(snapshot, store) {
            let Some(name) = &container.image else { continue };
            by_name.insert(full_image_name(name).into_owned(), container);
            by_name.insert(canonical_image_id(name).into_owned(), container);
            let known = records.get(&(container.namespace.as_str(), name.as_str()));
            by_digest.extend(known.into_iter().flatten().map(|digest| (*digest, container)));
        }
        let of_cri = records.into_iter().filter(|((namespace, _), _)| *namespace == CRI_NAMESPACE);
        Self { by_name, by_digest, digests: of_cri.map(|((_, name), digests)| (name, digests)).collect() }
    }

    /// Returns a container of another client that uses an image.
    pub fn user(&self, image: &Image) -> Option<&'a StoreHolder> {
        let mut names = image.names();
        let by_digest = |name: &str| self.digests.get(name)?.iter().find_map(|digest| self.by_digest.get(digest));
        names.find_map(|name| self.by_name.get(name.as_ref()).or_else(|| by_digest(&name))).copied()
    }
}

/// Returns the containers that the CRI does not list. Without its lists, those of its namespace cannot be distinguished.
fn containers<'a>(snapshot: &'a Snapshot, store: &'a RuntimeStore) -> impl Iterator<Item = &'a StoreHolder> {
    let (containers, sandboxes) = (snapshot.containers.as_ref(), snapshot.sandboxes.as_ref());
    let are_listed = containers.is_some() && sandboxes.is_some();
    let containers = containers.into_iter().flatten().map(|container| container.id.as_str());
    let sandboxes = sandboxes.into_iter().flatten().map(|sandbox| sandbox.id.as_str());
    let listed: HashSet<_> = containers.chain(sandboxes).collect();
    let is_other = move |holder: &&StoreHolder| {
        holder.namespace != CRI_NAMESPACE || are_listed && !listed.contains(holder.name.as_str())
    };
    store.holders.iter().filter(|holder| holder.kind == HolderKind::Container).filter(is_other)
}

fn digests<'a>(store: &'a RuntimeStore, record: &StoreHolder) -> Vec<&'a str> {
    record.refs.iter().filter_map(|part| store.parts.get(*part)).map(|part| part.name.as_str()).collect()
}

#[cfg(test)]
mod tests;
