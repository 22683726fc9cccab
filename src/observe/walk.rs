//! The space of directories on their disk: the blocks of their files, and not their lengths. A file of 100 bytes takes a block of
//! 4 KiB, and one with holes takes less than its length.
//!
//! What is in a directory is a tenant's. Its names only lead from one directory to the next, and no limit depends on them: a
//! walk has a time, a depth, and a fixed memory for each level. It follows no link, enters no mount and wakes none, and changes no
//! access time.

pub(super) mod pod_usage;

use std::collections::HashSet;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir, Statx, StatxAttributes, StatxFlags, openat, statx};
use rustix::io::Errno;
use rustix::path::Arg;
use tokio::time::Instant;

use crate::model::DirUsage;

/// The bytes of a block in `st_blocks`, whatever the file system has (stat(2)).
const BLOCK: u64 = 512;
/// The directories below one another. Each takes a file descriptor and [`BUFFER`] while the walk is in it.
const DEPTH: u32 = 128;
/// The memory for the entries of a directory, in bytes.
const BUFFER: usize = 8 << 10;
/// Files with several names that are remembered. Of further ones each name counts for its part of the file.
const LINKED: usize = 1 << 15;

/// A walk over directories of one device. A file that has names in several of them counts once.
pub(super) struct Walk {
    until: Instant,
    device: (u32, u32),
    linked: HashSet<u64>,
}

/// Measures a directory or file.
///
/// # Errors
/// The path does not exist, a part of it cannot be read, or the time is over.
pub(super) fn measure(path: &Path, until: Instant) -> io::Result<DirUsage> {
    let size = Walk::new(path, until)?.measure(CWD, path)?;
    if size.at_least && Instant::now() >= until {
        return Err(io::Error::new(io::ErrorKind::TimedOut, "it has too many files to count them in time"));
    }
    if size.at_least {
        return Err(io::Error::other("a part of it cannot be read"));
    }
    Ok(size)
}

// === impl Walk ===

impl Walk {
    /// Begins a walk on the device of `path`, which ends at a time.
    ///
    /// # Errors
    /// `path` cannot be read.
    pub fn new(path: &Path, until: Instant) -> io::Result<Self> {
        let device = device(&stat(CWD, path)?);
        Ok(Self { until, device, linked: HashSet::new() })
    }

    /// Returns the size of a directory or file. What is on another device, or a mount, has none.
    ///
    /// # Errors
    /// It does not exist.
    pub fn measure(&mut self, at: BorrowedFd, name: impl Arg) -> io::Result<DirUsage> {
        let name = name.into_c_str()?;
        let (found, mut size) = (stat(at, &*name)?, DirUsage::default());
        if device(&found) == self.device {
            self.add(&mut size, &found);
            if is_directory(&found) {
                self.enter(&mut size, at, &name, DEPTH);
            }
        }
        Ok(size)
    }

    fn enter(&mut self, size: &mut DirUsage, at: BorrowedFd, name: &CStr, depth: u32) {
        let directory = match open_directory(at, name) {
            Ok(directory) if depth > 0 => directory,
            Err(Errno::NOENT) => return,
            _ => return size.at_least = true,
        };
        let mut buffer = Vec::with_capacity(BUFFER);
        let mut entries = RawDir::new(&directory, buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let Ok(entry) = entry else { return size.at_least = true };
            if Instant::now() >= self.until {
                return size.at_least = true;
            }
            let name = entry.file_name();
            if name != c"." && name != c".." {
                self.entry(size, directory.as_fd(), name, depth);
            }
        }
    }

    fn entry(&mut self, size: &mut DirUsage, at: BorrowedFd, name: &CStr, depth: u32) {
        match stat(at, name) {
            Ok(found) if device(&found) != self.device || is_mount(&found) => {}
            Ok(found) => {
                self.add(size, &found);
                if is_directory(&found) {
                    self.enter(size, at, name, depth - 1);
                }
            }
            Err(Errno::NOENT) => {}
            Err(_) => size.at_least = true,
        }
    }

    fn add(&mut self, size: &mut DirUsage, found: &Statx) {
        let names = u64::from(found.stx_nlink.max(1));
        let bytes = found.stx_blocks.saturating_mul(BLOCK);
        let (bytes, inodes) = match self.is_known(found) {
            Some(true) => return,
            Some(false) => (bytes, 1),
            None => (bytes / names, 0),
        };
        size.bytes = size.bytes.saturating_add(bytes);
        size.inodes += inodes;
    }

    /// Returns whether another name of the file was counted; `None` = not known, because too many have several names.
    fn is_known(&mut self, found: &Statx) -> Option<bool> {
        if found.stx_nlink < 2 || is_directory(found) {
            return Some(false);
        }
        if self.linked.contains(&found.stx_ino) {
            return Some(true);
        }
        (self.linked.len() < LINKED).then(|| !self.linked.insert(found.stx_ino))
    }
}

/// Opens a directory to list it. Only an owner of it or of `CAP_FOWNER` may keep its access time.
pub(super) fn open_directory(at: BorrowedFd, name: impl Arg) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::NOATIME | OFlags::CLOEXEC;
    openat(at, name, flags, Mode::empty())
}

/// Returns what is known of a file without asking a file system that may hang.
fn stat(at: BorrowedFd, name: impl Arg) -> Result<Statx, Errno> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT | AtFlags::STATX_DONT_SYNC;
    statx(at, name, flags, StatxFlags::BASIC_STATS)
}

fn device(found: &Statx) -> (u32, u32) {
    (found.stx_dev_major, found.stx_dev_minor)
}

/// Returns whether a file system is mounted here, also a directory of the same device. Linux before 5.8 does not say it.
fn is_mount(found: &Statx) -> bool {
    found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT)
}

fn is_directory(found: &Statx) -> bool {
    FileType::from_raw_mode(found.stx_mode.into()) == FileType::Directory
}

#[cfg(test)]
mod tests;
