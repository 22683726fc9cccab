//! The space of directories on their disk: the blocks of their files, and not their lengths. A file of 100 bytes takes a block of
//! 4 KiB, and one with holes takes less than its length.
//!
//! What is in a directory is a tenant's. Its names only lead from one directory to the next, and no limit depends on them: a
//! walk has a time, a depth, and a fixed memory for each level. It follows no link, enters no mount and wakes none, and changes no
//! access time that it may keep.

mod deleted_files;
mod disk_content;
mod node_walk;
pub(super) mod pod_usage;
mod turns;

use std::collections::HashSet;
use std::ffi::CStr;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::{io, thread};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, RawDir, Statx, StatxAttributes, StatxFlags, fstat, openat, statx,
};
use rustix::io::Errno;
use rustix::path::Arg;
use rustix::process::setpriority_process;
use tokio::time::Instant;

use crate::model::{DirUsage, PathUsage};
pub(super) use turns::in_turns;
pub use turns::turn;

/// The bytes of a block in `st_blocks`, whatever the file system has (stat(2)).
pub(super) const BLOCK: u64 = 512;
/// The directories below one another. Each takes a file descriptor and [`BUFFER`] while the walk is in it.
const DEPTH: u32 = 128;
/// The memory for the entries of a directory, in bytes.
const BUFFER: usize = 8 << 10;
/// Files with several names that are remembered. Of further ones each name counts for its part of the file.
const LINKED: usize = 1 << 15;
/// The most names that are read of a directory at once.
pub(super) const MOST_NAMES: usize = 10_000;
/// A low priority, which is one for reads of a disk too (`ioprio_set(2)`). With the lowest, a walk on a busy node waits for the processor
/// for many times as long as it may take.
const NICE: i32 = 5;

/// The numbers of a device.
type Device = (u32, u32);

/// A walk over directories of one device. A file that has names in several of them counts once.
pub(super) struct Walk {
    until: Instant,
    /// The end of the whole walk, if directories have parts of the time that are longer together.
    end: Instant,
    /// Whether the time of a directory was over.
    ended_early: bool,
    device: Device,
    linked: HashSet<u64>,
    /// The inodes of directories that do not count.
    skipped: HashSet<u64>,
    /// The levels of directories in which each entry has its part of the time, so that a full one does not hide the others.
    fair_levels: u32,
    largest: Largest,
}

/// The largest directories and files of a walk. What one contains counts for itself if it is large, else for the directory.
struct Largest {
    /// The bytes from which a directory or file is listed.
    at_least: u64,
    path: Vec<u8>,
    /// The size of all that are listed so far.
    listed: DirUsage,
    found: Vec<PathUsage>,
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
        let (linked, skipped) = Default::default();
        let (end, ended_early, largest) = (until, false, Largest::none());
        Ok(Self { until, end, ended_early, device, linked, skipped, fair_levels: 0, largest })
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
        if DEPTH - depth < self.fair_levels {
            return self.enter_fairly(size, &directory, depth);
        }
        let mut buffer = Vec::with_capacity(BUFFER);
        let mut entries = RawDir::new(&directory, buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let Ok(entry) = entry else { return size.at_least = true };
            if Instant::now() >= self.until {
                self.ended_early = true;
                return size.at_least = true;
            }
            let name = entry.file_name();
            if name != c"." && name != c".." {
                self.entry(size, directory.as_fd(), name, depth);
            }
        }
    }

    fn enter_fairly(&mut self, size: &mut DirUsage, directory: &OwnedFd, depth: u32) {
        let (names, end) = (names(directory), self.until);
        size.at_least |= names.len() == MOST_NAMES;
        for (name, left) in names.iter().zip((1..=names.len()).rev()) {
            self.until = turn(end, left).min(self.end);
            self.entry(size, directory.as_fd(), name, depth);
        }
        self.until = end;
    }

    fn entry(&mut self, size: &mut DirUsage, at: BorrowedFd, name: &CStr, depth: u32) {
        let found = match stat(at, name) {
            Ok(found) => found,
            Err(error) => return size.at_least |= error != Errno::NOENT,
        };
        if device(&found) != self.device || is_mount(&found) || self.skipped.contains(&found.stx_ino) {
            return;
        }
        let (before, mut own) = (self.largest.enter(name), DirUsage::default());
        self.add(&mut own, &found);
        if is_directory(&found) {
            self.enter(&mut own, at, name, depth - 1);
        }
        self.largest.leave(before, own);
        *size = size.and(own);
    }

    fn into_largest(self) -> Vec<PathUsage> {
        self.largest.found
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

// === impl Largest ===

impl Largest {
    fn none() -> Self {
        Self::of(u64::MAX, Path::new("/"))
    }

    /// Creates an empty list for a walk that begins at a directory.
    fn of(at_least: u64, path: &Path) -> Self {
        let path = path.as_os_str().as_bytes();
        let path = path.strip_suffix(b"/").unwrap_or(path).to_owned();
        Self { at_least, path, listed: DirUsage::default(), found: Vec::new() }
    }

    /// Notes that the walk comes to a directory or file. Returns what [`Self::leave`] needs.
    fn enter(&mut self, name: &CStr) -> (usize, DirUsage) {
        let length = self.path.len();
        self.path.push(b'/');
        self.path.extend(name.to_bytes());
        (length, self.listed)
    }

    /// Notes the size of what the walk leaves. It is listed if it is large without what is listed of it.
    fn leave(&mut self, (length, before): (usize, DirUsage), size: DirUsage) {
        let bytes = size.bytes.saturating_sub(self.listed.bytes - before.bytes);
        if bytes >= self.at_least {
            let inodes = size.inodes.saturating_sub(self.listed.inodes - before.inodes);
            let usage = DirUsage { bytes, inodes, at_least: size.at_least };
            self.listed = self.listed.and(usage);
            let path = String::from_utf8_lossy(&self.path).into_owned();
            self.found.push(PathUsage { path, usage, ..PathUsage::default() });
        }
        self.path.truncate(length);
    }
}

/// Runs `work` in a thread of a low priority. A thread cannot raise its priority again, so it is one of its own.
fn in_background<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    let in_thread = || {
        // Without the permission it runs at the usual priority.
        let _ = setpriority_process(None, NICE);
        work()
    };
    thread::scope(|scope| scope.spawn(in_thread).join())
        .unwrap_or_else(|_| Err(io::Error::other("the walk ended by a defect")))
}

/// Returns the names in a directory that has few of them; of another one the first [`MOST_NAMES`].
pub(super) fn names(directory: &OwnedFd) -> Vec<Box<CStr>> {
    let entries = Dir::read_from(directory).into_iter().flatten();
    let entries = entries.filter_map(Result::ok).filter(|entry| ![c".", c".."].contains(&entry.file_name()));
    entries.take(MOST_NAMES).map(|entry| entry.file_name().into()).collect()
}

/// Opens a directory to list it. Only an owner of it or of `CAP_FOWNER` may keep its access time, and for other users it changes.
pub(super) fn open_directory(at: BorrowedFd, name: impl Arg) -> Result<OwnedFd, Errno> {
    let name = name.into_c_str()?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match openat(at, &*name, flags | OFlags::NOATIME, Mode::empty()) {
        Err(Errno::PERM) => openat(at, &*name, flags, Mode::empty()),
        opened => opened,
    }
}

/// Opens a regular file to read it. A link is not followed, and nothing else is opened, not even for a moment: a program may wait behind a
/// pipe, and a device may act when it is opened.
///
/// # Errors
/// As in the system, and for what is no regular file.
pub(super) fn open_file(at: BorrowedFd, name: impl Arg) -> io::Result<File> {
    let found = openat(at, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    if FileType::from_raw_mode(fstat(&found)?.st_mode) != FileType::RegularFile {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    File::open(format!("/proc/self/fd/{}", found.as_raw_fd()))
}

/// Returns what is known of a file without asking a file system that may hang.
pub(super) fn stat(at: BorrowedFd, name: impl Arg) -> Result<Statx, Errno> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT | AtFlags::STATX_DONT_SYNC;
    statx(at, name, flags, StatxFlags::BASIC_STATS)
}

fn device(found: &Statx) -> Device {
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
