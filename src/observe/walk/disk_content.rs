//! Looks at everything else on a disk: the kubelet's own files, the largest directories and files of others, and deleted files that
//! are still open.

use std::cmp::Reverse;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use procfs::FromRead as _;
use procfs::process::{MountInfo, MountInfos};
use rustix::fs::CWD;
use tokio::time::Instant;

use super::{Device, Largest, Walk, deleted_files, device, in_background, is_mount, stat, turn};
use crate::host_path::{HostFs, Resolved};
use crate::model::{DiskContent, DiskUse, PathUsage};

/// A directory or file is listed if it takes one in so many of the used bytes.
const SHARE: u64 = 200;
/// The directories and files that are listed of each disk.
const MOST: usize = 50;

/// The levels in which each directory has its part of the time, as `/var/lib`.
const FAIR_LEVELS: u32 = 2;

/// How much longer the parts of a walk are than those of the walk before.
const GROWTH: u32 = 4;

/// A disk to look at.
pub(super) struct Disk {
    pub of: DiskUse,
    /// Directories on it.
    pub directories: Vec<PathBuf>,
    pub used_bytes: u64,
}

/// The directories of the host with a meaning of their own.
#[derive(Default)]
pub(super) struct Known {
    /// The kubelet's.
    pub kubelet_root: PathBuf,
    /// Those that others measure: of pods, of logs and of the runtime.
    pub measured: Vec<PathBuf>,
    /// The runtime's.
    pub runtime: Option<PathBuf>,
    /// Those beneath it that have its store.
    pub store: Vec<PathBuf>,
}

/// Looks at disks of the host, within a time. What was not reached by then has at least its size.
pub(super) fn look(host: &HostFs, disks: Vec<Disk>, known: &Known, time: Duration) -> Vec<DiskContent> {
    let end = Instant::now() + time;
    let all = disks.len();
    let content = |(disk, left): (Disk, usize)| {
        let mut content = DiskContent::of(disk.of);
        let looked = in_background(|| Look::new(host, &disk, known, turn(end, left))?.at_all(&mut content));
        content.missing.extend(looked.err().map(|error| format!("disk of {}: {error}", disk.of.phrase())));
        content
    };
    disks.into_iter().zip((1..=all).rev()).map(content).collect()
}

/// One disk, as it is looked at.
struct Look<'a> {
    host: &'a HostFs,
    known: &'a Known,
    at: PathBuf,
    device: Device,
    /// The bytes from which a directory or file is listed.
    large: u64,
    until: Instant,
}

// === impl Look ===

impl<'a> Look<'a> {
    fn new(host: &'a HostFs, disk: &Disk, known: &'a Known, until: Instant) -> io::Result<Self> {
        let found = disk.directories.iter().map(|directory| existing(host, directory));
        let missing = || io::Error::new(io::ErrorKind::NotFound, "none of its directories exists");
        let at = found.reduce(Result::or).ok_or_else(missing)??;
        let device = device(&stat(CWD, &at)?);
        Ok(Self { host, known, at, device, large: (disk.used_bytes / SHARE).max(1), until })
    }

    fn at_all(&self, content: &mut DiskContent) -> io::Result<()> {
        let mounts = MountInfos::from_file("/proc/thread-self/mountinfo").map_err(io::Error::other)?.0;
        if self.host.is_agents() {
            deleted_files::add(content, self.device, &mounts, self.until).map_err(io::Error::other)?;
        } else {
            content.missing.push("deleted files that are open: the processes of the host cannot be seen".to_owned());
        }
        self.kubelet(content)?;
        self.runtime(content)?;
        match self.top(&mounts)? {
            Some(top) => self.others(content, &top)?,
            None => content.missing.push("files of other programs: only parts of the disk are mounted here".to_owned()),
        }
        self.runtime_store(content)?;
        content.largest.sort_by_key(|found| Reverse(found.usage.bytes));
        content.largest.truncate(MOST);
        Ok(())
    }

    /// Measures the files of the kubelet that are on this disk.
    fn kubelet(&self, content: &mut DiskContent) -> io::Result<()> {
        let Some(root) = self.here(&self.known.kubelet_root) else { return Ok(()) };
        let mut walk = self.walk(&root, self.known.measured.iter())?;
        content.kubelet = walk.measure(CWD, &*root)?;
        let largest = walk.into_largest().into_iter().map(|found| PathUsage { is_kubelets: true, ..found });
        content.largest.extend(largest);
        Ok(())
    }

    /// Measures the directory of the runtime without its store, in half of the time.
    fn runtime(&self, content: &mut DiskContent) -> io::Result<()> {
        let Some(root) = self.runtime_root(content.disk) else { return Ok(()) };
        let mut walk = self.walk(&root, self.known.measured.iter().chain(&self.known.store))?;
        walk.until = turn(self.until, 2);
        content.runtime = walk.measure(CWD, &*root)?;
        let largest = walk.into_largest().into_iter().map(|found| PathUsage { is_runtimes: true, ..found });
        content.largest.extend(largest);
        Ok(())
    }

    /// Measures the store of the runtime in the time that is left: it has the most files.
    fn runtime_store(&self, content: &mut DiskContent) -> io::Result<()> {
        let there = self.runtime_root(content.disk).map(|_| &self.known.store);
        for path in there.into_iter().flatten().filter_map(|path| self.here(path)) {
            let usage = Walk::new(&path, self.until)?.measure(CWD, &*path)?;
            content.runtime_store = content.runtime_store.and(usage);
        }
        Ok(())
    }

    /// Returns the directory of the runtime if it is on this disk, and this is the disk of its images.
    fn runtime_root(&self, disk: DiskUse) -> Option<PathBuf> {
        self.here(self.known.runtime.as_ref().filter(|_| disk == DiskUse::Images)?)
    }

    /// Measures everything else. While there is time it begins again with more of it for each directory: a full one does not hide
    /// the others, and takes the time that they leave.
    fn others(&self, content: &mut DiskContent, top: &Path) -> io::Result<()> {
        let mut largest = Vec::new();
        for round in 0.. {
            let begun = Instant::now();
            let mut walk = self.walk(top, self.known.measured.iter().chain([&self.known.kubelet_root]))?;
            walk.fair_levels = FAIR_LEVELS;
            walk.until = begun + self.until.saturating_duration_since(begun) * GROWTH.saturating_pow(round);
            let found = walk.measure(CWD, top)?;
            let (ended_early, taken) = (walk.ended_early, begun.elapsed());
            if found.bytes >= content.other.bytes {
                (content.other, largest) = (found, walk.into_largest());
            }
            if !ended_early || begun + taken * 3 > self.until {
                break;
            }
        }
        content.largest.extend(largest);
        Ok(())
    }

    fn walk<'b>(&self, from: &Path, but: impl Iterator<Item = &'b PathBuf>) -> io::Result<Walk> {
        let skipped = but.filter_map(|path| Some(stat(CWD, &*self.here(path)?).ok()?.stx_ino));
        let on_host = from.strip_prefix(self.host.root()).unwrap_or(from);
        let largest = Largest::of(self.large, &Path::new("/").join(on_host));
        Ok(Walk { skipped: skipped.collect(), largest, ..Walk::new(from, self.until)? })
    }

    /// Returns a directory of the host if it is on this disk.
    fn here(&self, path: &Path) -> Option<PathBuf> {
        let at = existing(self.host, path).ok()?;
        (device(&stat(CWD, &at).ok()?) == self.device).then_some(at)
    }

    /// Returns where the whole disk is mounted; `None` = only directories of it are.
    fn top(&self, mounts: &[MountInfo]) -> io::Result<Option<PathBuf>> {
        let mut top = self.at.as_path();
        while !is_mount(&stat(CWD, top)?) {
            let Some(parent) = top.parent() else { break };
            if device(&stat(CWD, parent)?) != self.device {
                break;
            }
            top = parent;
        }
        // A subvolume of btrfs has a root of its own.
        let is_whole = |mount: &MountInfo| mount.root == "/" || mount.fs_type == "btrfs";
        let last = mounts.iter().rfind(|mount| mount.mount_point == top);
        Ok(last.filter(|mount| is_whole(mount)).map(|_| top.to_owned()))
    }
}

fn existing(host: &HostFs, path: &Path) -> io::Result<PathBuf> {
    match host.resolve(path)? {
        Resolved::Exists(at) => Ok(at),
        Resolved::Missing(at) => Err(io::Error::new(io::ErrorKind::NotFound, format!("{} is missing", at.display()))),
    }
}

#[cfg(test)]
mod tests;
