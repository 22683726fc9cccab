//! The file systems whose use is recorded.

use std::path::Path;

use crate::model::{FileSystem, Snapshot};
use crate::observe::Disks;

/// Returns the file system of the images, and those of other directories that are not on it. One that cannot be measured
/// is left out: the pass reports that.
pub(super) async fn file_systems(snapshot: &Snapshot, disks: &dyn Disks, others: [&Path; 2]) -> Vec<FileSystem> {
    let mut found: Vec<_> = snapshot.image_filesystem.as_ref().cloned().into_iter().collect();
    for path in others {
        if let Ok(disk) = disks.measure(path).await
            && !found.iter().any(|known| is_same(known, &disk))
        {
            found.push(FileSystem { mountpoint: path.to_owned(), ..disk });
        }
    }
    found
}

/// Two directories of one file system show the same capacity and the same number of inodes.
fn is_same(a: &FileSystem, b: &FileSystem) -> bool {
    (a.capacity_bytes, a.inodes) == (b.capacity_bytes, b.inodes)
}
