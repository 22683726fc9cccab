//! Measures the usage of the image file system.
//!
//! The numbers are the same as the kubelet's (1.36, from cAdvisor): blocks in units of `f_frsize`, and `f_bavail`, the blocks
//! available to an ordinary user. So the blocks reserved for root count as used.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use nix::sys::statvfs::statvfs;

use super::ObserveError;
use crate::host_path::HostFs;
use crate::model::FileSystem;

/// The longest wait for statvfs, as in cAdvisor.
const GUARD: Duration = Duration::from_secs(2);

/// Measures file systems. It is a trait because a simulated node has its own disk.
#[async_trait]
pub trait Disks: Send + Sync {
    /// Measures the file system of a directory that the runtime names.
    async fn measure(&self, mountpoint: &Path) -> Result<FileSystem, ObserveError>;

    /// Returns the percentage of the last ten seconds in which all tasks waited for I/O; `None` = the kernel does not report it.
    async fn io_pressure(&self) -> Option<f64> {
        None
    }
}

/// The file systems of this host.
#[derive(Clone)]
pub struct HostDisks {
    host: HostFs,
    probe: Probe,
}

/// The disk of a simulated node, the same for every directory.
pub struct DiskFn<F>(pub F);

type Probe = Arc<dyn Fn(&Path) -> io::Result<FileSystem> + Send + Sync>;

// === impl HostDisks ===

impl HostDisks {
    /// Creates a measurement of the host whose root is mounted at `host_root`.
    pub fn new(host_root: impl Into<PathBuf>) -> Self {
        Self::with_probe(host_root.into(), GUARD, Arc::new(probe))
    }

    fn with_probe(host_root: PathBuf, guard: Duration, probe: Probe) -> Self {
        Self { host: HostFs::new(host_root).with_limit(guard), probe }
    }

    async fn probe(&self, mountpoint: &Path) -> Result<FileSystem, ObserveError> {
        let (path, probe) = (mountpoint.to_owned(), Arc::clone(&self.probe));
        let call = move |host: &HostFs| probe(&host.resolve(&path)?.into_path());
        let measured = self.host.run(mountpoint, call).await?;
        let measured = measured.map_err(|source| ObserveError::Measure { path: mountpoint.to_owned(), source })?;
        Ok(FileSystem { mountpoint: mountpoint.to_owned(), ..measured })
    }
}

#[async_trait]
impl<F: Fn() -> FileSystem + Send + Sync> Disks for DiskFn<F> {
    async fn measure(&self, _: &Path) -> Result<FileSystem, ObserveError> {
        Ok((self.0)())
    }
}

#[async_trait]
impl Disks for HostDisks {
    async fn measure(&self, mountpoint: &Path) -> Result<FileSystem, ObserveError> {
        self.probe(mountpoint).await
    }

    /// Reads `/proc/pressure/io` (PSI, Linux 4.20). It is of the whole machine in every container.
    async fn io_pressure(&self) -> Option<f64> {
        full_avg10(&std::fs::read_to_string("/proc/pressure/io").ok()?)
    }
}

/// Reads `full avg10=1.53 avg60=…`.
fn full_avg10(text: &str) -> Option<f64> {
    let full = text.lines().find_map(|line| line.strip_prefix("full "))?;
    full.split_whitespace().find_map(|field| field.strip_prefix("avg10="))?.parse().ok()
}

fn probe(path: &Path) -> io::Result<FileSystem> {
    let numbers = statvfs(path)?;
    let unit = numbers.fragment_size();
    // A file system that creates inodes on demand, such as btrfs, reports 0.
    let counts_inodes = numbers.files() > 0;
    Ok(FileSystem {
        mountpoint: path.to_owned(),
        capacity_bytes: numbers.blocks().saturating_mul(unit),
        available_bytes: numbers.blocks_available().saturating_mul(unit),
        free_bytes: Some(numbers.blocks_free().saturating_mul(unit)),
        inodes: counts_inodes.then(|| numbers.files()),
        inodes_free: counts_inodes.then(|| numbers.files_free()),
        fsid: Some(numbers.filesystem_id()).filter(|fsid| *fsid != 0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host_path::CallError;

    #[tokio::test]
    async fn a_measured_host_directory_keeps_the_runtimes_path() {
        let host = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(host.path().join("var/lib/containerd")).unwrap();
        let disks = HostDisks::new(host.path());
        let measured = disks.measure("/var/lib/containerd".as_ref()).await.unwrap();
        assert_eq!(measured.mountpoint, Path::new("/var/lib/containerd"));
        assert!(measured.capacity_bytes > 0 && measured.available_bytes <= measured.capacity_bytes, "{measured:?}");
        assert!(measured.inodes_free <= measured.inodes, "{measured:?}");
    }

    #[test]
    fn the_pressure_is_that_of_all_tasks_together() {
        let text = "some avg10=61.20 avg60=9.00 avg300=1.00 total=1\nfull avg10=12.50 avg60=8.00 avg300=0.90 total=1\n";
        assert_eq!(full_avg10(text), Some(12.5));
        assert_eq!(["", "some avg10=1.00", "full avg60=1.00", "full avg10=x"].map(full_avg10), [None; 4]);
    }

    #[tokio::test]
    async fn a_missing_directory_is_not_an_empty_disk() {
        let host = tempfile::tempdir().unwrap();
        let error = HostDisks::new(host.path()).measure("/absent".as_ref()).await.unwrap_err();
        assert!(matches!(error, ObserveError::Measure { .. }), "{error}");
    }

    /// It would be the disk of the agent's root.
    #[tokio::test]
    async fn a_path_that_is_not_absolute_is_an_error() {
        for path in ["", "var/lib/containerd", "."] {
            let error = HostDisks::new("/").measure(path.as_ref()).await.unwrap_err();
            assert!(matches!(error, ObserveError::Measure { .. }), "{path}: {error}");
        }
    }

    #[tokio::test]
    async fn a_file_system_without_inodes_says_none() {
        let proc = probe(Path::new("/proc")).unwrap();
        assert_eq!((proc.inodes, proc.inodes_free), (None, None));
    }

    #[tokio::test]
    async fn a_hanging_disk_is_an_error_within_the_limit() {
        let (release, held) = std::sync::mpsc::channel::<()>();
        let held = std::sync::Mutex::new(held);
        let hangs: Probe = Arc::new(move |_| {
            held.lock().unwrap().recv().unwrap();
            Err(io::Error::other("released"))
        });
        let disks = HostDisks::with_probe("/".into(), Duration::from_millis(50), hangs);
        let bound = Duration::from_secs(10);
        let error = tokio::time::timeout(bound, disks.measure("/".as_ref())).await.unwrap().unwrap_err();
        assert!(matches!(error, ObserveError::Access(CallError::TimedOut { .. })), "{error}");
        let error = disks.measure("/".as_ref()).await.unwrap_err();
        assert!(matches!(error, ObserveError::Access(CallError::StillBlocked { .. })), "{error}");
        release.send(()).unwrap();
    }
}
