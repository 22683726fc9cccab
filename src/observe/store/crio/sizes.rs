//! The sizes of layers on the disk. CRI-O records only the sizes of their archives, and measures the layers of running
//! containers only.
//!
//! A layer of an image never changes, so it is measured once, as long as it is listed. One that no image has yet may still be
//! pulled, or become that of a container. One that takes too long is the last of the next read: a tenant with millions of files
//! must not hide the sizes of the others.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::host_path::{HostFs, Resolved};
use crate::model::{DirUsage, HolderKind, PartKind, RuntimeStore};
use crate::observe::walk::measure;

/// The longest time to measure one layer, some hundred thousand files.
const LAYER: Duration = Duration::from_secs(5);

/// The sizes so far. Clones share them.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Sizes(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    /// The sizes of what never changes, by its first path.
    sizes: HashMap<PathBuf, DirUsage>,
    /// What took too long.
    slow: HashSet<PathBuf>,
    /// The positions of the parts that images have.
    of_images: HashSet<usize>,
}

/// The files of a part, as paths of the host.
pub(super) struct PartFiles {
    /// The position of the part.
    pub part: usize,
    pub path: PathBuf,
    /// A file beside it that may be missing.
    pub beside: Option<PathBuf>,
}

// === impl Sizes ===

impl Sizes {
    /// Adds the sizes of the parts with these files, until a time.
    pub(super) fn fill(&self, host: &HostFs, store: &mut RuntimeStore, mut files: Vec<PartFiles>, until: Instant) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.keep(&files, store);
        files.sort_by_key(|part_files| (known.slow.contains(&part_files.path), part_files.is_writable(store)));
        let (all, mut failed, mut cause) = (files.len(), 0, None);
        for part_files in files {
            match known.size(host, &part_files, until) {
                Ok(size) => known.learn(store, &part_files, size),
                Err(error) => {
                    failed += 1;
                    cause.get_or_insert_with(|| format!("{}: {error}", part_files.path.display()));
                }
            }
        }
        store.missing_sizes.extend(cause.map(|cause| format!("sizes of {failed} of {all} layers: {cause}")));
    }
}

// === impl Known ===

impl Known {
    /// Forgets what is not listed, and sizes of what no image has.
    fn keep(&mut self, files: &[PartFiles], store: &RuntimeStore) {
        let listed: HashSet<_> = files.iter().map(|part_files| &part_files.path).collect();
        self.slow.retain(|path| listed.contains(path));
        let images = store.holders.iter().filter(|holder| holder.kind == HolderKind::Image);
        self.of_images = images.flat_map(|image| store.held_by(image)).collect();
        let of_images = files.iter().filter(|part_files| self.of_images.contains(&part_files.part));
        let of_images: HashSet<_> = of_images.map(|part_files| &part_files.path).collect();
        self.sizes.retain(|path, _| of_images.contains(path));
    }

    /// Returns the size of a part, from before or measured now.
    fn size(&mut self, host: &HostFs, part_files: &PartFiles, until: Instant) -> io::Result<DirUsage> {
        if let Some(size) = self.sizes.get(&part_files.path) {
            return Ok(*size);
        }
        let begun = Instant::now();
        let size = part_files.measure(host, until.min(begun + LAYER));
        let is_slow = size.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::TimedOut);
        // One for which no time was left is not slow.
        if is_slow && begun + LAYER <= until {
            self.slow.insert(part_files.path.clone());
        }
        size
    }

    fn learn(&mut self, store: &mut RuntimeStore, part_files: &PartFiles, size: DirUsage) {
        let Some(part) = store.parts.get_mut(part_files.part) else { return };
        (part.bytes, part.inodes) = (Some(size.bytes), Some(size.inodes));
        if self.of_images.contains(&part_files.part) {
            self.sizes.insert(part_files.path.clone(), size);
        }
    }
}

// === impl PartFiles ===

impl PartFiles {
    /// Returns whether this is the layer of a container.
    pub fn is_writable(&self, store: &RuntimeStore) -> bool {
        store.parts.get(self.part).is_some_and(|part| part.kind == PartKind::Writable)
    }

    fn measure(&self, host: &HostFs, until: Instant) -> io::Result<DirUsage> {
        let size = measure(&host.resolve(&self.path)?.into_path(), until)?;
        let beside = self.beside.as_ref().map(|path| host.resolve(path)).transpose()?.and_then(Resolved::existing);
        let beside = beside.map(|path| measure(&path, until)).transpose()?.unwrap_or_default();
        Ok(size.and(beside))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{StoreHolder, StorePart};

    fn later() -> Instant {
        Instant::now() + Duration::from_mins(10)
    }

    #[test]
    fn a_layer_of_an_image_is_measured_once_and_others_each_time() {
        let (dir, host, sizes) = (tempfile::tempdir().unwrap(), HostFs::default(), Sizes::default());
        let path = |part: usize| dir.path().join(part.to_string());
        let image = StoreHolder { refs: vec![0], ..StoreHolder::default() };
        let parts = vec![StorePart::default(); 2];
        let mut store = RuntimeStore { parts, holders: vec![image], ..RuntimeStore::default() };
        let mut inodes = || {
            let files = [0, 1].map(|part| PartFiles { part, path: path(part), beside: None });
            sizes.fill(&host, &mut store, files.into(), later());
            [0, 1].map(|part: usize| store.parts[part].inodes)
        };
        for part in [0, 1] {
            std::fs::create_dir(path(part)).unwrap();
        }
        assert_eq!(inodes(), [Some(1), Some(1)]);
        for part in [0, 1] {
            std::fs::write(path(part).join("file"), "1").unwrap();
        }
        assert_eq!(inodes(), [Some(1), Some(2)], "the second may be of a pull, or of a container");
    }

    #[test]
    fn a_layer_that_cannot_be_measured_has_no_size_and_a_cause() {
        let (dir, host, sizes) = (tempfile::tempdir().unwrap(), HostFs::default(), Sizes::default());
        let mut store = RuntimeStore { parts: vec![StorePart::default(); 2], ..RuntimeStore::default() };
        let part_files = |part, path| PartFiles { part, path, beside: Some(dir.path().join("missing")) };
        let missing = dir.path().join("missing");
        let files = vec![part_files(0, missing.clone()), part_files(1, dir.path().to_owned())];
        sizes.fill(&host, &mut store, files, later());
        assert_eq!((store.parts[0].bytes, store.parts[1].inodes), (None, Some(1)));
        let cause = format!("sizes of 1 of 2 layers: {}: No such file or directory (os error 2)", missing.display());
        assert_eq!(store.missing_sizes, [cause]);
    }
}
