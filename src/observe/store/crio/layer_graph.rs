//! The layers, images and containers of the files of CRI-O as one graph, and where they are on the disk.

use std::collections::HashMap;
use std::path::PathBuf;

use super::sizes::PartFiles;
use super::{Container, Image, Layer, Root, holder, is_id};
use crate::model::{CRI_NAMESPACE, HolderKind, PartKind, RuntimeStore, StoreHolder, StorePart};

/// The store in the making, and where its parts are.
pub(super) struct Graph<'a> {
    pub roots: &'a [Root],
    pub store: RuntimeStore,
    pub files: Vec<PartFiles>,
    /// The positions of the layers.
    layers: HashMap<String, usize>,
}

// === impl Graph ===

impl<'a> Graph<'a> {
    pub fn new(roots: &'a [Root], layers: Vec<(&'a Root, Layer)>) -> Self {
        let ids = layers.iter().enumerate().map(|(position, (_, layer))| (layer.id.clone(), position));
        let mut graph = Self { roots, store: RuntimeStore::default(), files: Vec::new(), layers: ids.collect() };
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
                self.files.push(PartFiles { part: self.store.parts.len(), path, beside });
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

    pub fn add_images(&mut self, images: Vec<(&'a Root, Image)>) {
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
            self.files.push(PartFiles { part: self.store.parts.len(), path, beside: None });
        }
        self.store.parts.push(StorePart {
            namespace: CRI_NAMESPACE.to_owned(),
            name: image.id.clone(),
            created_at: image.created,
            incomplete: !image.layer.is_empty() && !self.layers.contains_key(&image.layer),
            ..StorePart::default()
        });
    }

    pub fn add_containers(&mut self, containers: Vec<(&'a Root, Container)>) {
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
