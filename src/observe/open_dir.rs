//! An open directory beneath a log root, and its entries.
//!
//! Every call is relative to a file descriptor and one name. So replacing a directory with a symlink between two steps has no effect: the
//! descriptor still refers to the directory that was checked, or the open fails.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Statx, StatxFlags, StatxTimestamp, statx};
use rustix::io::Errno;

use super::walk::{BLOCK, open_directory, open_file};
use crate::model::EntryKind;

/// An open directory, and its path for messages.
#[derive(Debug)]
pub struct OpenDir {
    fd: OwnedFd,
    path: PathBuf,
}

/// The entry that a name refers to; symlinks are not followed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DirEntry {
    pub kind: EntryKind,
    /// Its bytes on the disk: the blocks. A sparse file has fewer than its length, and one whose space was allocated ahead has more.
    pub size: u64,
    /// Its length in bytes.
    pub length: u64,
    /// The number of its names.
    pub names: u64,
    pub inode: u64,
    /// When it was last written; `None` = no time that a document can have.
    pub modified_at: Option<Timestamp>,
    /// When its inode was last changed, as by the removal of a name.
    pub changed_at: Option<Timestamp>,
}

// === impl OpenDir ===

impl OpenDir {
    /// Opens a root by its resolved path. A symlink is not followed.
    ///
    /// # Errors
    /// As in the system.
    pub fn open(path: &Path) -> Result<Self, Errno> {
        Ok(Self { fd: open_directory(CWD, path)?, path: path.to_owned() })
    }

    /// Opens a directory in this one.
    ///
    /// # Errors
    /// As in the system.
    pub fn enter(&self, name: impl AsRef<OsStr>) -> Result<Self, Errno> {
        let name = name.as_ref();
        Ok(Self { fd: open_directory(self.as_fd(), name)?, path: self.path.join(name) })
    }

    /// Opens a directory beneath this one, by the names that lead to it. `None` = one is not a directory, or does not exist (any more).
    ///
    /// # Errors
    /// As in the system.
    pub fn find(&self, path: &Path) -> Result<Option<Self>, Errno> {
        let mut found = None;
        for name in path {
            found = match found.as_ref().unwrap_or(self).enter(name) {
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
                entered => Some(entered?),
            };
        }
        Ok(found)
    }

    /// Returns its path, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of a name in this directory, for messages.
    pub fn path_of(&self, name: impl AsRef<OsStr>) -> PathBuf {
        self.path.join(name.as_ref())
    }

    /// Returns the entry that a name refers to; `None` = no entry.
    ///
    /// # Errors
    /// As in the system.
    pub fn entry(&self, name: impl AsRef<OsStr>) -> Result<Option<DirEntry>, Errno> {
        match statx(self, name.as_ref(), AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT, StatxFlags::BASIC_STATS) {
            Ok(found) => Ok(Some(DirEntry::from(&found))),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Opens a regular file to read it; nothing else is opened, not even for a moment.
    ///
    /// # Errors
    /// As in the system, and for what is no regular file.
    pub fn open_file(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        open_file(self.as_fd(), name.as_ref())
    }

    /// Returns the names in it, from the start of the directory on.
    ///
    /// # Errors
    /// As in the system.
    pub fn all(&self) -> Result<impl Iterator<Item = Result<OsString, Errno>> + use<>, Errno> {
        let names =
            Dir::read_from(&self.fd)?.map(|entry| Ok(OsStr::from_bytes(entry?.file_name().to_bytes()).to_owned()));
        Ok(names.filter(|name| name.as_ref().map_or(true, |name| name != "." && name != "..")))
    }

    /// Returns the first names that match, at most `most`.
    ///
    /// # Errors
    /// As in the system.
    pub fn names(&self, most: usize, wanted: impl Fn(&OsStr) -> bool) -> Result<Vec<OsString>, Errno> {
        self.all()?.filter(|name| name.as_ref().map_or(true, |name| wanted(name))).take(most).collect()
    }

    /// Returns the names in it as text, sorted; at most `most`, and none if it cannot be read. One that is no text is that of no file.
    pub fn texts(&self, most: usize) -> Vec<String> {
        let names = self.names(most, |_| true).unwrap_or_default();
        let mut names: Vec<_> = names.into_iter().map(|name| name.to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

impl AsFd for OpenDir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

// === impl DirEntry ===

impl DirEntry {
    /// Returns the entry of an open descriptor.
    ///
    /// # Errors
    /// As in the system.
    pub fn of(fd: impl AsFd) -> Result<Self, Errno> {
        statx(fd, "", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS).map(|found| Self::from(&found))
    }

    /// Returns the bytes that the removal of a name reclaims.
    pub fn reclaims(&self) -> u64 {
        if self.names == 1 { self.size } else { 0 }
    }

    /// Returns whether it was last written before a time.
    pub fn is_older(&self, than: Timestamp) -> bool {
        self.modified_at.is_some_and(|at| at < than)
    }
}

impl From<&Statx> for DirEntry {
    fn from(found: &Statx) -> Self {
        let kind = match FileType::from_raw_mode(found.stx_mode.into()) {
            FileType::Directory => EntryKind::Directory,
            FileType::RegularFile => EntryKind::File,
            FileType::Symlink => EntryKind::Symlink,
            _ => EntryKind::Other,
        };
        let time = |at: &StatxTimestamp| Timestamp::new(at.tv_sec, i32::try_from(at.tv_nsec).ok()?).ok();
        Self {
            kind,
            size: found.stx_blocks.saturating_mul(BLOCK),
            length: found.stx_size,
            names: found.stx_nlink.into(),
            inode: found.stx_ino,
            modified_at: time(&found.stx_mtime),
            changed_at: time(&found.stx_ctime),
        }
    }
}
