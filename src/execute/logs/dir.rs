//! An open directory beneath a log root, and what is changed in it: by its descriptor and one name, on one mount.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, fstat, linkat, mkdirat, openat, renameat};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::{LogError, RemovedStats};
use crate::model::{EntryKind, LogFileName};
use crate::observe::{DirEntry, LogFiles, MOST_LOG_FILES, OpenDir};

/// An open directory on the mount of its root.
#[derive(Debug)]
pub struct Dir {
    open: OpenDir,
    /// The kernel's mount id. Device numbers do not reveal a bind mount of the same file system.
    mount: u64,
}

// === impl Dir ===

impl Dir {
    /// Opens a root by its resolved path. `None` = it does not exist. If a symlink replaced it since, the symlink is
    /// not followed.
    pub fn open(path: &Path) -> Result<Option<Self>, LogError> {
        Self::opened(OpenDir::open(path), path)
    }

    /// Opens a directory in this one, on the same mount. `None` = it does not exist.
    pub fn enter(&self, name: &OsStr) -> Result<Option<Self>, LogError> {
        let path = self.path_of(name);
        let Some(dir) = Self::opened(self.open.enter(name), &path)? else { return Ok(None) };
        if dir.mount != self.mount {
            return Err(LogError::foreign(path, "another file system is mounted there"));
        }
        Ok(Some(dir))
    }

    fn opened(dir: Result<OpenDir, Errno>, path: &Path) -> Result<Option<Self>, LogError> {
        match dir {
            Ok(open) => {
                let mount = mount_of(&open).map_err(|error| LogError::io("determine the mount of", path, error))?;
                Ok(Some(Self { open, mount }))
            }
            Err(Errno::NOENT) => Ok(None),
            Err(Errno::LOOP | Errno::NOTDIR) => Err(LogError::foreign(path, "it is not a directory")),
            Err(error) => Err(LogError::io("open", path, error)),
        }
    }

    /// Returns the directory, to read it.
    pub fn as_open(&self) -> &OpenDir {
        &self.open
    }

    /// Returns the path of a name in this directory, for messages.
    pub fn path_of(&self, name: &OsStr) -> PathBuf {
        self.open.path_of(name)
    }

    /// Returns the entry that a name refers to; `None` = no entry.
    pub fn entry(&self, name: &OsStr) -> Result<Option<DirEntry>, LogError> {
        self.open.entry(name).map_err(|error| LogError::io("read", &self.path_of(name), error))
    }

    /// Opens a regular file to read it.
    pub fn open_file(&self, name: &OsStr) -> Result<File, LogError> {
        self.open.open_file(name).map_err(|error| LogError::io("open", &self.path_of(name), error))
    }

    /// Replaces a file of this directory by one with this content, which is written under another name first. Only the owner can read it.
    pub fn replace(&self, name: &OsStr, new: &OsStr, content: &[u8]) -> Result<(), LogError> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&self.open, new, flags, Mode::RUSR | Mode::WUSR).map_err(std::io::Error::from);
        let written = file.and_then(|file| File::from(file).write_all(content));
        written.map_err(|error| LogError::io("write", &self.path_of(new), error))?;
        self.rename(new, name)
    }

    /// Enters a directory in this one, and creates it if it does not exist. Only the owner can read one that is created.
    pub fn enter_or_create(&self, name: &OsStr) -> Result<Self, LogError> {
        match mkdirat(&self.open, name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(LogError::io("create", &self.path_of(name), error)),
        }
        let missing = || LogError::io("open", &self.path_of(name), Errno::NOENT);
        self.enter(name)?.ok_or_else(missing)
    }

    /// Returns whether it is a directory of this process's user, which no other user can write to.
    pub fn is_private(&self) -> Result<bool, LogError> {
        let stat = fstat(&self.open).map_err(|error| LogError::io("read", self.open.path(), error))?;
        let of_others = Mode::from_raw_mode(stat.st_mode).intersects(Mode::WGRP | Mode::WOTH);
        Ok(stat.st_uid == geteuid().as_raw() && !of_others)
    }

    /// Returns whether a file can have a name in both directories.
    pub fn is_on_mount_of(&self, other: &Self) -> bool {
        self.mount == other.mount
    }

    /// Gives a file of this directory a name in another one. The name is that of an open descriptor, so it is of the `known` file
    /// whatever has its old name by then.
    pub fn link(&self, name: &OsStr, known: DirEntry, into: &Self) -> Result<(), LogError> {
        let failed = |error| LogError::io("link", &self.path_of(name), error);
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&self.open, name, flags, Mode::empty()).map_err(failed)?;
        let found = DirEntry::of(&file).map_err(failed)?;
        if (found.inode, found.kind) != (known.inode, EntryKind::File) {
            return Err(LogError::foreign(self.path_of(name), "it changed a moment ago"));
        }
        let opened = format!("/proc/self/fd/{}", file.as_raw_fd());
        linkat(CWD, opened, &into.open, name, AtFlags::SYMLINK_FOLLOW).map_err(failed)
    }

    /// Gives an entry of this directory another name.
    pub fn rename(&self, from: &OsStr, to: &OsStr) -> Result<(), LogError> {
        let renamed = renameat(&self.open, from, &self.open, to);
        renamed.map_err(|error| LogError::io("rename", &self.path_of(from), error))
    }

    /// Returns the first names that match, at most `most`. Each call begins at the start of the directory.
    pub fn names(&self, most: usize, wanted: impl Fn(&OsStr) -> bool) -> Result<Vec<OsString>, LogError> {
        self.open.names(most, wanted).map_err(|error| LogError::io("list", self.open.path(), error))
    }

    /// Returns all names. A directory with more than [`MOST_LOG_FILES`] is foreign.
    pub fn all_names(&self) -> Result<Vec<OsString>, LogError> {
        let names = self.names(MOST_LOG_FILES + 1, |_| true)?;
        if names.len() > MOST_LOG_FILES { Err(self.too_large()) } else { Ok(names) }
    }

    /// Returns the log files in it, but none that the kubelet is compressing. A directory with more than [`MOST_LOG_FILES`] is foreign.
    pub fn log_files(&self) -> Result<BTreeMap<String, DirEntry>, LogError> {
        let found = LogFiles::of(&self.open, None);
        let found = found.map_err(|error| LogError::io("list", self.open.path(), error))?;
        if found.at_least {
            return Err(self.too_large());
        }
        Ok(found.files().filter(|(name, _)| LogFileName::parse(name).is_some()).collect())
    }

    fn too_large(&self) -> LogError {
        LogError::foreign(self.open.path(), "it has more than 10,000 entries")
    }

    /// Removes an entry that is not a directory. For a symlink, only the symlink is removed and its target is kept.
    pub fn unlink(&self, name: &OsStr, entry: DirEntry) -> Result<RemovedStats, LogError> {
        self.unlink_as(name, AtFlags::empty(), entry.reclaims())
    }

    pub fn unlink_dir(&self, name: &OsStr) -> Result<RemovedStats, LogError> {
        self.unlink_as(name, AtFlags::REMOVEDIR, 0)
    }

    #[expect(clippy::disallowed_methods, reason = "the one place where files go: a single name in an open directory")]
    fn unlink_as(&self, name: &OsStr, flags: AtFlags, bytes: u64) -> Result<RemovedStats, LogError> {
        match rustix::fs::unlinkat(&self.open, name, flags) {
            Ok(()) => Ok(RemovedStats { entries: 1, bytes }),
            Err(Errno::NOENT) => Ok(RemovedStats::default()),
            Err(error) => Err(LogError::io("remove", &self.path_of(name), error)),
        }
    }
}

/// Returns the id of the mount of an open directory. Any kernel has it in `fdinfo`; `statx` has it only from 5.8 on.
fn mount_of(dir: &OpenDir) -> std::io::Result<u64> {
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", dir.as_fd().as_raw_fd()))?;
    let number = info.lines().find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse().ok());
    number.ok_or_else(|| std::io::Error::other("no mnt_id in /proc/self/fdinfo"))
}
