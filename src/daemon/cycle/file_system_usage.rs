//! The file systems whose use is recorded and shown.

use std::path::Path;

use crate::metrics::UsageOf;
use crate::model::FileSystem;
use crate::observe::Disks;

/// Returns the file system of the images, and those of other directories that are not on it. One that cannot be measured
/// is left out: the pass reports that.
pub(super) async fn file_systems(
    images: Option<&FileSystem>,
    disks: &dyn Disks,
    others: [(UsageOf, &Path); 2],
) -> Vec<(UsageOf, FileSystem)> {
    let mut found: Vec<_> = images.into_iter().map(|disk| (UsageOf::Images, disk.clone())).collect();
    for (of, path) in others {
        if let Ok(disk) = disks.measure(path).await
            && !found.iter().any(|(_, known)| known.is_same_disk(&disk))
        {
            found.push((of, FileSystem { mountpoint: path.to_owned(), ..disk }));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::ObserveError;

    /// Disks of one size. The directory decides which one it is.
    struct TwoDisks;

    #[async_trait::async_trait]
    impl Disks for TwoDisks {
        async fn measure(&self, path: &Path) -> Result<FileSystem, ObserveError> {
            Ok(disk(if path.starts_with("/data") { 1 } else { 2 }))
        }
    }

    fn disk(fsid: u64) -> FileSystem {
        FileSystem { capacity_bytes: 100, inodes: Some(9), fsid: Some(fsid), ..FileSystem::default() }
    }

    #[tokio::test]
    async fn file_systems_of_the_same_size_are_both_shown() {
        let of = async |logs: &str| {
            let others = [(UsageOf::Logs, Path::new(logs)), (UsageOf::Kubelet, Path::new("/data/kubelet"))];
            let found = file_systems(Some(&disk(1)), &TwoDisks, others).await;
            found.into_iter().map(|(of, disk)| (of, disk.mountpoint)).collect::<Vec<_>>()
        };
        assert_eq!(of("/data/logs").await, [(UsageOf::Images, "".into())]);
        assert_eq!(of("/var/log").await, [(UsageOf::Images, "".into()), (UsageOf::Logs, "/var/log".into())]);
    }
}
