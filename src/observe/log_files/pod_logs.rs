//! The log files of pods below log roots, in the order of their lines.
//!
//! A tenant may have a hostPath below a log root, and put anything there. So each directory and file is opened from the descriptor of
//! the directory above it, no link below a root is followed, and what has no name of the kubelet is left out.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Display;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use jiff::Timestamp;
use rustix::fs::fstat;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};

use super::archived_logs;
use super::log_tree::{LogFiles, MOST_LOG_FILES};
use super::sparse::Sparse;
use crate::host_path::{HostFs, Resolved};
use crate::model::{ArchivedPod, LogFileName, PodRef, pod_of_dir};
use crate::observe::ObserveError;
use crate::observe::open_dir::OpenDir;
use crate::observe::walk::MOST_NAMES;

/// The most bytes that are read of a compressed file after decompression, and that are copied of all files together. A file of some KiB
/// could fill a disk, or keep a command busy for days. The kubelet rotates a file at 10 MiB, unless its settings say otherwise.
pub const MOST_BYTES: u64 = if cfg!(test) { 8 << 20 } else { 4 << 30 };
/// The time between two looks at files that cannot be watched.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// An open directory below the pod log root or in the archive.
#[derive(Debug)]
pub(super) struct Folder {
    dir: OpenDir,
    pub(super) is_archive: bool,
}

/// A pod that has a log directory below one or more roots.
#[derive(Clone, Debug)]
pub struct PodLogs {
    /// The pod in the name of the directory.
    pub pod: PodRef,
    /// The name of the directory.
    pub dir: String,
    roots: Vec<Rc<Folder>>,
    /// The archive, if it has a directory of the pod.
    archive: Option<Rc<Folder>>,
}

/// The log files of a container of a pod.
#[derive(Debug)]
pub struct LoggedContainer {
    pub name: String,
    /// Its files in the order of their lines.
    pub files: Vec<LogFile>,
    folders: Vec<Rc<Folder>>,
}

/// A log file of an instance, as it was listed. Whether it is a regular file is known when it is opened.
#[derive(Clone, Debug)]
pub struct LogFile {
    pub name: LogFileName,
    pub bytes: u64,
    /// When it was last written.
    pub modified_at: Option<Timestamp>,
    file_name: String,
    pub(super) inode: u64,
    pub(super) folder: Rc<Folder>,
}

/// Waits until a file of a pod changes.
#[derive(Debug)]
pub struct LogWatch(Option<OwnedFd>);

/// A reader that fails instead of reading more than [`MOST_BYTES`].
pub(super) struct Limited<R> {
    inner: R,
    left: u64,
}

// === impl PodLogs ===

impl PodLogs {
    /// Returns the pods that have a log directory below the pod log root or in the archive, which are paths of the host, sorted by name. A
    /// root may be a link, and the archive need not exist. What has no name of a pod's log directory is added to `omitted`.
    ///
    /// # Errors
    /// The pod log root cannot be listed.
    pub fn find(host_root: &Path, roots: (&Path, &Path), omitted: &mut Vec<String>) -> Result<Vec<Self>, ObserveError> {
        let mut pods = BTreeMap::new();
        for (root, is_archive) in [(roots.0, false), (roots.1, true)] {
            let path = HostFs::new(host_root).resolve(root).map(Resolved::into_path);
            let folder = path.and_then(|path| Ok(Folder { dir: OpenDir::open(&path)?, is_archive }));
            let folder = match folder {
                Ok(folder) => Rc::new(folder),
                Err(error) if is_archive && error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) if is_archive => {
                    omitted.push(format!("{}: {error}", root.display()));
                    continue;
                }
                Err(source) => return Err(ObserveError::List { path: root.into(), source }),
            };
            for dir in folder.dir.texts(usize::MAX) {
                let Some(pod) = pod_of_dir(&dir) else {
                    folder.leave_out(&dir, "it has no name of a pod's log directory", omitted);
                    continue;
                };
                let pod = pods.entry(dir.clone()).or_insert(Self { pod, dir, roots: Vec::new(), archive: None });
                pod.roots.push(Rc::clone(&folder));
                pod.archive = is_archive.then(|| Rc::clone(&folder));
            }
        }
        Ok(pods.into_values().collect())
    }

    /// Returns its containers with their files, sorted by name. What is no log file of a kubelet is added to `omitted`.
    pub fn containers(&self, omitted: &mut Vec<String>) -> Vec<LoggedContainer> {
        let mut containers = BTreeMap::<_, Vec<_>>::new();
        for folder in self.folders(omitted) {
            for name in folder.dir.texts(MOST_NAMES).into_iter().filter(|name| !name.starts_with(ArchivedPod::FILE)) {
                match folder.enter(&name) {
                    Ok(inner) => containers.entry(name).or_default().push(Rc::new(inner)),
                    Err(error) => folder.leave_out(&name, error, omitted),
                }
            }
        }
        let containers = containers.into_iter().map(|(name, folders)| {
            let container = LoggedContainer { name, files: Vec::new(), folders };
            LoggedContainer { files: container.list(omitted), ..container }
        });
        containers.filter(|container| !container.files.is_empty()).collect()
    }

    /// Returns whether only the archive has its logs.
    pub fn is_deleted(&self) -> bool {
        self.archive.is_some() && self.roots.len() == 1
    }

    /// Returns what the archive knows of the pod. A document below the pod log root would be a tenant's.
    pub fn document(&self) -> Option<ArchivedPod> {
        let folder = self.archive.as_ref()?.enter(&self.dir).ok()?;
        archived_logs::document(&folder.dir).filter(|document| document.pod.is(&self.pod))
    }

    fn folders(&self, omitted: &mut Vec<String>) -> Vec<Folder> {
        let mut opened = Vec::new();
        for root in &self.roots {
            match root.enter(&self.dir) {
                Ok(folder) => opened.push(folder),
                Err(error) => root.leave_out(&self.dir, error, omitted),
            }
        }
        opened
    }
}

// === impl LoggedContainer ===

impl LoggedContainer {
    /// Lists its files again. Of a file that exists compressed and uncompressed only the uncompressed one is listed, and one below several
    /// roots once. Another file of the same name is that of an earlier pod of the same uid, and comes first.
    pub fn list(&self, omitted: &mut Vec<String>) -> Vec<LogFile> {
        let mut files = Vec::<LogFile>::new();
        for folder in &self.folders {
            let unreadable = |error| folder.leave_out("", error, omitted);
            let found = LogFiles::of(&folder.dir, None).map_err(unreadable).unwrap_or_default();
            if found.at_least {
                folder.leave_out("", format!("only {MOST_LOG_FILES} entries are read"), omitted);
            }
            // Under such a name the kubelet compresses a file.
            for name in found.others.iter().filter(|name| name.strip_suffix(".tmp").is_none()) {
                folder.leave_out(name, "it has no name of a log file", omitted);
            }
            for (file_name, entry) in found.entries {
                let Some(name) = LogFileName::parse(&file_name) else { continue };
                let (bytes, modified_at, inode, folder) =
                    (entry.length, entry.modified_at, entry.inode, Rc::clone(folder));
                files.push(LogFile { name, bytes, modified_at, file_name, inode, folder });
            }
        }
        files.sort_by(|a, b| (&a.name, !a.folder.is_archive).cmp(&(&b.name, !b.folder.is_archive)));
        let mut known = HashSet::new();
        files.retain(|file| known.insert(file.inode));
        files.dedup_by(|later, kept| later.name.is_twin(&kept.name) && later.name != kept.name);
        files
    }

    /// Returns the attempts of its instances that have a file, in order.
    pub fn attempts(&self) -> Vec<u32> {
        let mut attempts: Vec<_> = self.files.iter().map(|file| file.name.attempt).collect();
        attempts.dedup();
        attempts
    }

    /// Returns when one of its files was last written.
    pub fn modified_at(&self) -> Option<Timestamp> {
        self.files.iter().filter_map(|file| file.modified_at).max()
    }

    /// Returns whether no file of it changes any more: its directories were removed since they were opened, or only the archive has it.
    pub fn is_removed(&self) -> bool {
        let is_removed = |folder: &Rc<Folder>| fstat(&folder.dir).is_ok_and(|found| found.st_nlink == 0);
        self.folders.iter().all(|folder| folder.is_archive || is_removed(folder))
    }
}

// === impl LogFile ===

impl LogFile {
    /// Opens it. The kubelet may have renamed or compressed it since it was listed: the name it has now is returned too.
    ///
    /// # Errors
    /// As in the system, and if it was removed, or replaced by another file.
    pub(super) fn open(&self) -> io::Result<(File, String)> {
        let at = &self.folder.dir;
        let is_it = |name: &String| matches!(at.entry(name), Ok(Some(found)) if found.inode == self.inode);
        let listed = Some(self.file_name.clone()).filter(is_it);
        let is_log = |name: &String| LogFileName::parse(name).is_some();
        let renamed = || {
            let mut entries = LogFiles::of(at, None).ok()?.entries.into_iter();
            entries.find(|(name, entry)| entry.inode == self.inode && is_log(name)).map(|(name, _)| name)
        };
        let name = listed.or_else(renamed).or_else(|| Some(format!("{}.gz", self.file_name)).filter(is_log));
        let name = name.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        Ok((at.open_file(&name)?, name))
    }

    /// Copies the file as it is, with its holes, to a file that `create` makes for its name. `room` has the bytes that may be copied.
    ///
    /// # Errors
    /// It cannot be read or written, or has more bytes.
    pub fn copy(&self, room: &mut u64, create: impl FnOnce(&str) -> io::Result<File>) -> io::Result<()> {
        let (file, name) = self.open()?;
        let end = file.metadata()?.len();
        let (mut content, target, mut buffer) = (Sparse::new(file, 0, end), create(&name)?, vec![0; 64 << 10]);
        loop {
            let read = content.read(&mut buffer)?;
            let Some(bytes) = buffer.get(..read).filter(|_| read > 0) else { return target.set_len(end) };
            let too_large = || io::Error::other("the files have more than 4 GiB together");
            *room = room.checked_sub(read as u64).ok_or_else(too_large)?;
            target.write_all_at(bytes, content.at - read as u64)?;
        }
    }

    /// Returns the path, for messages.
    pub fn path(&self) -> PathBuf {
        self.folder.dir.path_of(&self.file_name)
    }
}

// === impl LogWatch ===

impl LogWatch {
    /// Watches the directories of a pod and of its containers. If the system permits no further watch, it looks once a second.
    pub fn new(pod: &PodLogs, containers: &[LoggedContainer]) -> Self {
        let above = pod.folders(&mut Vec::new());
        let below = containers.iter().flat_map(|container| &container.folders).map(|folder| &**folder);
        let events = WatchFlags::MODIFY | WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::DELETE;
        let watch = |inotify: OwnedFd| {
            for folder in above.iter().chain(below) {
                inotify::add_watch(&inotify, format!("/proc/self/fd/{}", folder.dir.as_fd().as_raw_fd()), events)?;
            }
            Ok(inotify)
        };
        Self(inotify::init(CreateFlags::CLOEXEC).and_then(watch).ok())
    }

    /// Waits until something has changed since the last call.
    pub fn wait(&self) {
        let mut events = [0; 4096];
        if self.0.as_ref().is_none_or(|inotify| rustix::io::read(inotify, &mut events).is_err()) {
            std::thread::sleep(LOOK_AGAIN);
        }
    }
}

// === impl Folder ===

impl Folder {
    fn enter(&self, name: &str) -> io::Result<Self> {
        Ok(Self { dir: self.dir.enter(name)?, is_archive: self.is_archive })
    }

    fn leave_out(&self, name: &str, why: impl Display, omitted: &mut Vec<String>) {
        omitted.push(format!("{}: {why}", self.dir.path_of(name).display()));
    }
}

// === impl Limited ===

impl<R> Limited<R> {
    pub(super) fn new(inner: R) -> Self {
        Self { inner, left: MOST_BYTES }
    }
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.left = self.left.checked_sub(read as u64).ok_or_else(|| io::Error::other("it has more than 4 GiB"))?;
        Ok(read)
    }
}
