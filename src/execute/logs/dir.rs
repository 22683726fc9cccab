//! An open directory beneath a log root.
//!
//! Every operation is relative to a file descriptor and one name. So replacing a directory with a symlink between two
//! steps has no effect: the descriptor still refers to the directory that was checked, or the open fails.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use nix::dir::Dir as RawDir;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, openat, renameat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat, mkdirat};
use nix::unistd::{UnlinkatFlags, geteuid, linkat};

use super::{LogError, RemovedStats};
use crate::model::{EntryKind, MOST_LOG_FILES};

/// The unit of `st_blocks`, for every block size of the file system.
const BLOCK_BYTES: u64 = 512;

/// An open directory.
#[derive(Debug)]
pub struct Dir {
    handle: RawDir,
    /// The kernel's mount id. Device numbers do not reveal a bind mount of the same file system.
    mount: u64,
    path: PathBuf,
}

/// The entry that a name refers to; symlinks are not followed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DirEntry {
    pub kind: EntryKind,
    /// The bytes that its removal reclaims.
    pub bytes: u64,
    /// Its bytes on the disk.
    pub size: u64,
    /// Its length in bytes.
    pub length: u64,
    /// The number of its names.
    pub names: u64,
    /// Its inode.
    pub inode: u64,
    /// When it was last written: seconds since 1970, and nanoseconds.
    modified: (i64, i64),
}

// === impl Dir ===

impl Dir {
    /// Opens a root by its resolved path. `None` = it does not exist. If a symlink replaced it since, the symlink is
    /// not followed.
    pub fn open(path: &Path) -> Result<Option<Self>, LogError> {
        Self::opened(RawDir::open(path, flags(), Mode::empty()), path.to_owned())
    }

    /// Opens a directory in this one, on the same mount. `None` = it does not exist.
    pub fn enter(&self, name: &OsStr) -> Result<Option<Self>, LogError> {
        let path = self.path.join(name);
        let Some(dir) = Self::opened(RawDir::openat(&self.handle, name, flags(), Mode::empty()), path)? else {
            return Ok(None);
        };
        if dir.mount != self.mount {
            return Err(LogError::foreign(dir.path, "another file system is mounted there"));
        }
        Ok(Some(dir))
    }

    fn opened(dir: nix::Result<RawDir>, path: PathBuf) -> Result<Option<Self>, LogError> {
        match dir {
            Ok(dir) => {
                let mount = mount_of(&dir).map_err(|error| LogError::io("determine the mount of", &path, error))?;
                Ok(Some(Self { handle: dir, mount, path }))
            }
            Err(Errno::ENOENT) => Ok(None),
            Err(Errno::ELOOP | Errno::ENOTDIR) => Err(LogError::foreign(path, "it is not a directory")),
            Err(error) => Err(LogError::io("open", &path, error)),
        }
    }

    /// Returns the path of a name in this directory, for messages.
    pub fn path_of(&self, name: &OsStr) -> PathBuf {
        self.path.join(name)
    }

    /// Returns the entry that a name refers to; `None` = no entry.
    pub fn entry(&self, name: &OsStr) -> Result<Option<DirEntry>, LogError> {
        match fstatat(&self.handle, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(DirEntry::from(&stat))),
            Err(Errno::ENOENT) => Ok(None),
            Err(error) => Err(LogError::io("read", &self.path_of(name), error)),
        }
    }

    /// Opens a file to read it. A symlink is not followed.
    pub fn open_file(&self, name: &OsStr) -> Result<File, LogError> {
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let file = openat(&self.handle, name, flags, Mode::empty());
        file.map(File::from).map_err(|error| LogError::io("open", &self.path_of(name), error))
    }

    /// Replaces a file of this directory by one with this content, which is written under another name first. Only the owner can read it.
    pub fn replace(&self, name: &OsStr, new: &OsStr, content: &[u8]) -> Result<(), LogError> {
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_TRUNC | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let file = openat(&self.handle, new, flags, Mode::S_IRUSR | Mode::S_IWUSR).map_err(std::io::Error::from);
        let written = file.and_then(|file| File::from(file).write_all(content));
        written.map_err(|error| LogError::io("write", &self.path_of(new), error))?;
        self.rename(new, name)
    }

    /// Enters a directory in this one, and creates it if it does not exist. Only the owner can read one that is created.
    pub fn enter_or_create(&self, name: &OsStr) -> Result<Self, LogError> {
        match mkdirat(&self.handle, name, Mode::S_IRWXU) {
            Ok(()) | Err(Errno::EEXIST) => {}
            Err(error) => return Err(LogError::io("create", &self.path_of(name), error)),
        }
        let missing = || LogError::io("open", &self.path_of(name), Errno::ENOENT);
        self.enter(name)?.ok_or_else(missing)
    }

    /// Returns whether it is a directory of this process's user, which no other user can write to.
    pub fn is_private(&self) -> Result<bool, LogError> {
        let stat = fstat(&self.handle).map_err(|error| LogError::io("read", &self.path, error))?;
        let others = Mode::S_IWGRP | Mode::S_IWOTH;
        Ok(stat.st_uid == geteuid().as_raw() && !Mode::from_bits_truncate(stat.st_mode).intersects(others))
    }

    /// Returns whether a file can have a name in both directories.
    pub fn is_on_mount_of(&self, other: &Self) -> bool {
        self.mount == other.mount
    }

    /// Gives a file of this directory a name in another one. The name is that of an open descriptor, so it is of the `known` file
    /// whatever has its old name by then.
    pub fn link(&self, name: &OsStr, known: DirEntry, into: &Self) -> Result<(), LogError> {
        let failed = |error| LogError::io("link", &self.path_of(name), error);
        let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let file = openat(&self.handle, name, flags, Mode::empty()).map_err(failed)?;
        let found = DirEntry::from(&fstat(&file).map_err(failed)?);
        if (found.inode, found.kind) != (known.inode, EntryKind::File) {
            return Err(LogError::foreign(self.path_of(name), "it changed a moment ago"));
        }
        let opened = format!("/proc/self/fd/{}", file.as_raw_fd());
        linkat(AT_FDCWD, &*opened, &into.handle, name, AtFlags::AT_SYMLINK_FOLLOW).map_err(failed)
    }

    /// Gives an entry of this directory another name.
    pub fn rename(&self, from: &OsStr, to: &OsStr) -> Result<(), LogError> {
        let renamed = renameat(&self.handle, from, &self.handle, to);
        renamed.map_err(|error| LogError::io("rename", &self.path_of(from), error))
    }

    /// Returns the first names that match, at most `limit`. Each call begins at the start of the directory.
    pub fn names(&mut self, limit: usize, wanted: impl Fn(&OsStr) -> bool) -> Result<Vec<OsString>, LogError> {
        let Self { handle: dir, path, .. } = self;
        let entries = dir.iter().filter(|entry| match entry {
            Ok(entry) => {
                let name = OsStr::from_bytes(entry.file_name().to_bytes());
                name != "." && name != ".." && wanted(name)
            }
            Err(_) => true,
        });
        let names = entries.take(limit).map(|entry| Ok(OsStr::from_bytes(entry?.file_name().to_bytes()).to_owned()));
        names.collect::<nix::Result<_>>().map_err(|error| LogError::io("list", path, error))
    }

    /// Returns all names. A directory with more than [`MOST_LOG_FILES`] is foreign.
    pub fn all_names(&mut self) -> Result<Vec<OsString>, LogError> {
        let names = self.names(MOST_LOG_FILES + 1, |_| true)?;
        if names.len() > MOST_LOG_FILES {
            return Err(LogError::foreign(&self.path, "it has more than 10,000 entries"));
        }
        Ok(names)
    }

    /// Removes an entry that is not a directory. For a symlink, only the symlink is removed and its target is kept.
    pub fn unlink(&self, name: &OsStr, entry: DirEntry) -> Result<RemovedStats, LogError> {
        self.unlink_as(name, UnlinkatFlags::NoRemoveDir, entry.bytes)
    }

    /// Removes an empty directory.
    pub fn unlink_dir(&self, name: &OsStr) -> Result<RemovedStats, LogError> {
        self.unlink_as(name, UnlinkatFlags::RemoveDir, 0)
    }

    #[expect(clippy::disallowed_methods, reason = "the one place where files go: a single name in an open directory")]
    fn unlink_as(&self, name: &OsStr, flag: UnlinkatFlags, bytes: u64) -> Result<RemovedStats, LogError> {
        match nix::unistd::unlinkat(&self.handle, name, flag) {
            Ok(()) => Ok(RemovedStats { entries: 1, bytes }),
            Err(Errno::ENOENT) => Ok(RemovedStats::default()),
            Err(error) => Err(LogError::io("remove", &self.path_of(name), error)),
        }
    }
}

// === impl DirEntry ===

impl DirEntry {
    /// Returns when it was last written, and so many seconds later, as the kubelet writes the time of a rotation, in UTC.
    pub fn modified_text(&self, later: i64) -> String {
        let at = Timestamp::from_second(self.modified.0.saturating_add(later)).unwrap_or_default();
        at.strftime("%Y%m%d-%H%M%S").to_string()
    }

    /// Returns whether it was last written before a time.
    pub fn is_older(&self, than: Timestamp) -> bool {
        let (seconds, nanos) = self.modified;
        (seconds, nanos) < (than.as_second(), than.subsec_nanosecond().into())
    }
}

impl From<&FileStat> for DirEntry {
    fn from(stat: &FileStat) -> Self {
        let kind = match SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT {
            SFlag::S_IFDIR => EntryKind::Directory,
            SFlag::S_IFREG => EntryKind::File,
            SFlag::S_IFLNK => EntryKind::Symlink,
            _ => EntryKind::Other,
        };
        let blocks = u64::try_from(stat.st_blocks).unwrap_or_default();
        let bytes = if stat.st_nlink == 1 { blocks * BLOCK_BYTES } else { 0 };
        #[allow(clippy::useless_conversion, reason = "it has half as many bits on arm64")]
        let names = u64::from(stat.st_nlink);
        Self {
            kind,
            bytes,
            size: blocks * BLOCK_BYTES,
            length: u64::try_from(stat.st_size).unwrap_or_default(),
            names,
            inode: stat.st_ino,
            modified: (stat.st_mtime, stat.st_mtime_nsec),
        }
    }
}

fn flags() -> OFlag {
    OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC
}

/// Returns the id of the mount of an open directory. Any kernel has it in `fdinfo`; `statx` has it only from 5.8 on.
fn mount_of(dir: &RawDir) -> std::io::Result<u64> {
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", dir.as_fd().as_raw_fd()))?;
    let number = info.lines().find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse().ok());
    number.ok_or_else(|| std::io::Error::other("no mnt_id in /proc/self/fdinfo"))
}
