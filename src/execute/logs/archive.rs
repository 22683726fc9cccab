//! The archive: each log file of a pod has a second name there, so that it outlives the pod at no cost until then.
//!
//! A file is known by its inode. The kubelet rotates a log by renaming it, so the name in the archive follows; and it replaces a
//! rotated file by a compressed one, so does the archive. What is empty gets no name. A file that has a name elsewhere already gets none:
//! it may be any file that a pod with a hostPath linked there.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use flate2::read::GzDecoder;

use super::archived_pods::{is_document, remove_empty_pods, remove_if_empty};
use super::dir::{Dir, DirEntry};
use super::roots::{enter_all, names_beneath};
use super::{LogError, LogRoots, RemovedStats};
use crate::model::{
    EntryKind, LogFileName, attempt_of_log, container_log_dir, is_current_log, pod_of_dir, rotated_log,
};
use crate::plan::ARCHIVE;

/// The most directories of pods that are looked at.
const MOST_PODS: usize = 100_000;
/// What a compressed file ends with, and the bytes of the length of its content at its end (RFC 1952).
const COMPRESSED: &str = ".gz";
const LENGTH_BYTES: i64 = 4;

/// Log files of a container, by name.
type Files = BTreeMap<String, DirEntry>;

/// What a look at all log files did.
#[derive(Debug, Default)]
pub struct Archived {
    /// The number of files that got a name in the archive.
    pub linked: u64,
    /// Files that got none, and why.
    pub refused: Vec<LogError>,
}

/// The directories of a container's logs: that of the kubelet, and that in the archive.
struct Pair {
    logs: Dir,
    archive: Dir,
    logged: Files,
    archived: Files,
}

// === impl LogRoots ===

impl LogRoots {
    /// Gives each log file of a pod a name in the archive, and follows the rotations since the last look. `only` has the names of the
    /// pods' directories; `None` = all. Pods of the namespaces in `full` are left out.
    ///
    /// # Errors
    /// The archive cannot be used: it is on another mount, or of another user.
    pub fn archive_logs(&self, only: Option<BTreeSet<String>>, full: &BTreeSet<String>) -> Result<Archived, LogError> {
        let mut done = Archived::default();
        let Some(mut pods) = self.open(&self.policy.pods_root)? else { return Ok(done) };
        let mut archive = self.archive_root(&pods)?;
        let names = if let Some(only) = only {
            only.into_iter().map(OsString::from).collect()
        } else {
            remove_empty_pods(&mut archive, &pods)?;
            pods.names(MOST_PODS, |name| name.to_str().and_then(pod_of_dir).is_some())?
        };
        for name in names {
            let Some(pod) = name.to_str().and_then(pod_of_dir).filter(|pod| !full.contains(&pod.namespace)) else {
                continue;
            };
            let is_container = |name: &OsStr| {
                !is_document(name) && name.to_str().and_then(|name| container_log_dir(&pod, name)).is_some()
            };
            let looked = pods.enter(&name).and_then(|logs| {
                let Some(mut logs) = logs else { return Ok(()) };
                for container in logs.all_names()?.into_iter().filter(|name| is_container(name)) {
                    done.container(&logs, &archive, &name, &container);
                }
                Ok(())
            });
            done.refused.extend(looked.err());
        }
        Ok(done)
    }

    /// Removes a file from the archive that has no other name any more, and directories that are empty then. A missing file is success.
    pub fn remove_archived(&self, path: &Path) -> Result<RemovedStats, LogError> {
        let root = self.policy.archive_root();
        let names = names_beneath(&root, path)?;
        let [pod, container, name] = &*names else { return Err(LogError::foreign(path, "it is no archived log file")) };
        let Some(archive) = self.open(&root)? else { return Ok(RemovedStats::default()) };
        let Some(of_pod) = archive.enter(pod)? else { return Ok(RemovedStats::default()) };
        let Some(files) = of_pod.enter(container)? else { return Ok(RemovedStats::default()) };
        let Some(entry) = files.entry(name)? else { return Ok(RemovedStats::default()) };
        if entry.kind != EntryKind::File || entry.names != 1 {
            return Err(LogError::foreign(path, "it has another name too: its pod may have it"));
        }
        let removed = files.unlink(name, entry)?;
        // A directory with other files stays.
        let _ = of_pod.unlink_dir(container).and_then(|_| remove_if_empty(&archive, pod, of_pod));
        Ok(removed)
    }

    /// Returns the name that the archive has of a file of a container, and its directory.
    pub(super) fn archived(
        &self,
        folders: &[OsString],
        name: &OsStr,
        entry: DirEntry,
    ) -> Result<Option<(Dir, OsString)>, LogError> {
        let Some(mut dir) = enter_all(self.open(&self.policy.archive_root())?, folders)? else { return Ok(None) };
        let is_it = |archived: &DirEntry| archived.inode == entry.inode;
        if dir.entry(name)?.as_ref().is_some_and(is_it) {
            return Ok(Some((dir, name.to_owned())));
        }
        let found = files_of(&mut dir)?.into_iter().find(|(_, archived)| is_it(archived));
        Ok(found.map(|(name, _)| (dir, name.into())))
    }

    /// Opens the directory of the archive, and creates it. It must be on the mount of the pod log root.
    fn archive_root(&self, pods: &Dir) -> Result<Dir, LogError> {
        let parent = self.policy.pods_root.parent().unwrap_or(Path::new("/"));
        let missing = || LogError::io("open", parent, std::io::Error::from(std::io::ErrorKind::NotFound));
        let mut dir = self.open(parent)?.ok_or_else(missing)?;
        if !dir.is_on_mount_of(pods) {
            let what = "it is on another mount than the pod log root, and a file has names on one only";
            return Err(LogError::foreign(self.policy.archive_root(), what));
        }
        for name in ARCHIVE {
            dir = dir.enter_or_create(OsStr::new(name))?;
            if !dir.is_private()? {
                return Err(LogError::foreign(dir.path_of(OsStr::new("")), "another user can write to it"));
            }
        }
        Ok(dir)
    }
}

// === impl Archived ===

impl Archived {
    /// Looks at a container.
    fn container(&mut self, logs: &Dir, archive: &Dir, pod: &OsStr, container: &OsStr) {
        let looked = (|| {
            let Some(mut pair) = Pair::open(logs, archive, pod, container)? else { return Ok(()) };
            pair.follow()?;
            self.linked += pair.link_all(|name| !is_current_log(name), &mut self.refused);
            pair.settle()?;
            self.linked += pair.link_all(is_current_log, &mut self.refused);
            pair.drop_uncompressed()
        })();
        self.refused.extend(looked.err());
    }
}

// === impl Pair ===

impl Pair {
    /// Opens both directories; `None` = there is no log file that would get a name.
    fn open(logs: &Dir, archive: &Dir, pod: &OsStr, container: &OsStr) -> Result<Option<Self>, LogError> {
        let Some(mut logs) = logs.enter(container)? else { return Ok(None) };
        let logged = files_of(&mut logs)?;
        if logged.values().all(|entry| entry.length == 0) {
            return Ok(None);
        }
        let mut archive = archive.enter_or_create(pod)?.enter_or_create(container)?;
        let archived = files_of(&mut archive)?;
        Ok(Some(Self { logs, archive, logged, archived }))
    }

    /// Gives the files in the archive the names that they have now. A name that another file has meanwhile is free then.
    fn follow(&mut self) -> Result<(), LogError> {
        let known: HashMap<_, _> =
            self.archived.iter().map(|(name, entry)| (entry.inode, (name.clone(), *entry))).collect();
        for (name, entry) in self.logged.iter().rev() {
            let Some((old, entry)) = known.get(&entry.inode).filter(|(old, _)| old != name) else { continue };
            if !self.archived.contains_key(name) {
                self.archive.rename(old.as_ref(), name.as_ref())?;
                self.archived.remove(old);
                self.archived.insert(name.clone(), *entry);
            }
        }
        Ok(())
    }

    /// Gives a name to each of these files that has none. Returns how many got one.
    fn link_all(&mut self, wanted: impl Fn(&str) -> bool, refused: &mut Vec<LogError>) -> u64 {
        let known = inodes(&self.archived);
        let is_new = |entry: &DirEntry| entry.length > 0 && !known.contains(&entry.inode);
        let new = self.logged.iter().filter(|(name, entry)| wanted(name) && is_new(entry));
        let new: Vec<_> = new.map(|(name, entry)| (name.clone(), *entry)).collect();
        let results: Vec<_> = new.into_iter().map(|(name, entry)| self.link(&name, entry)).collect();
        let linked = results.iter().filter(|result| result.is_ok()).count() as u64;
        refused.extend(results.into_iter().filter_map(Result::err));
        linked
    }

    fn link(&mut self, name: &str, entry: DirEntry) -> Result<(), LogError> {
        let other = |what| LogError::foreign(self.logs.path_of(name.as_ref()), what);
        if entry.names != 1 {
            return Err(other("it has another name too"));
        }
        if self.archived.contains_key(name) {
            return Err(other("the archive has another file of this name"));
        }
        self.logs.link(name.as_ref(), entry, &self.archive)?;
        self.archived.insert(name.to_owned(), entry);
        Ok(())
    }

    /// Frees the names of files that were rotated and are gone or compressed since the last look: the content is in a compressed file,
    /// or it gets the name of a rotated one.
    fn settle(&mut self) -> Result<(), LogError> {
        let known = inodes(&self.logged);
        let is_lost = |(name, entry): &(&String, &DirEntry)| {
            is_current_log(name) && self.logged.contains_key(*name) && !known.contains(&entry.inode)
        };
        let lost: Vec<_> = self.archived.iter().filter(is_lost).map(|(name, entry)| (name.clone(), *entry)).collect();
        for (name, entry) in lost {
            let mut compressed = self
                .archived
                .keys()
                .filter(|other| other.ends_with(COMPRESSED) && attempt_of_log(other) == attempt_of_log(&name));
            if compressed.any(|other| self.is_same(other, &name).unwrap_or(false)) {
                self.archive.unlink(name.as_ref(), entry)?;
            } else {
                let mut rotated = (0..).map(|later| format!("{name}.{}", entry.modified_text(later)));
                let rotated = rotated.find(|rotated| !self.archived.contains_key(rotated)).unwrap_or_default();
                self.archive.rename(name.as_ref(), rotated.as_ref())?;
                self.archived.insert(rotated, entry);
            }
            self.archived.remove(&name);
        }
        Ok(())
    }

    /// Returns whether a compressed file has the content of another one.
    fn is_same(&self, compressed: &str, plain: &str) -> std::io::Result<bool> {
        let open = |name: &str| self.archive.open_file(name.as_ref()).map_err(std::io::Error::other);
        let plain = open(plain)?;
        let length = plain.metadata()?.len();
        if self.content_length(compressed) != Some(length) {
            return Ok(false);
        }
        // It may have more than its end says.
        let mut one = BufReader::new(GzDecoder::new(open(compressed)?).take(length.saturating_add(1)));
        let mut other = BufReader::new(plain);
        loop {
            let (left, right) = (one.fill_buf()?, other.fill_buf()?);
            let count = left.len().min(right.len());
            if left.get(..count) != right.get(..count) || count == 0 {
                return Ok(left.is_empty() && right.is_empty());
            }
            one.consume(count);
            other.consume(count);
        }
    }

    /// Returns the length of the content of a compressed file, modulo 2^32.
    fn content_length(&self, name: &str) -> Option<u64> {
        let mut file = self.archive.open_file(name.as_ref()).ok()?;
        let mut length = [0; 4];
        file.seek(SeekFrom::End(-LENGTH_BYTES)).ok()?;
        file.read_exact(&mut length).ok()?;
        Some(u32::from_le_bytes(length).into())
    }

    /// Removes rotated files that the kubelet has replaced by compressed ones.
    fn drop_uncompressed(&mut self) -> Result<(), LogError> {
        let compressed =
            self.logged.keys().filter(|name| name.ends_with(COMPRESSED) && self.archived.contains_key(*name));
        for rotated in compressed.filter_map(|name| rotated_log(name)).filter(|name| !self.logged.contains_key(*name)) {
            let entry = self.archived.get(rotated).copied();
            let content = entry.and_then(|_| self.content_length(&format!("{rotated}{COMPRESSED}")));
            if let Some(entry) = entry.filter(|entry| content == Some(entry.length)) {
                self.archive.unlink(rotated.as_ref(), entry)?;
            }
        }
        Ok(())
    }
}

/// Returns the regular files with names of the kubelet, but none that it is compressing.
fn files_of(dir: &mut Dir) -> Result<Files, LogError> {
    let is_log = |name: &OsStr| name.to_str().and_then(LogFileName::parse).is_some();
    let mut files = Files::new();
    for name in dir.all_names()?.into_iter().filter(|name| is_log(name)) {
        let entry = dir.entry(&name)?.filter(|entry| entry.kind == EntryKind::File);
        files.extend(name.into_string().ok().zip(entry));
    }
    Ok(files)
}

fn inodes(files: &Files) -> HashSet<u64> {
    files.values().map(|file| file.inode).collect()
}
