//! The archive: each log file of a pod has a second name there, so that it outlives the pod at no cost until then.
//!
//! A file is known by its inode. The kubelet rotates a log by renaming it, so the name in the archive follows; and it replaces a
//! rotated file by a compressed one of its name, so does the archive. Contents are not compared: of a file that was rotated and compressed
//! between two looks the archive keeps both, and who reads them knows them by their first line. What is empty gets no name. A file that has
//! a name elsewhere already gets none: it may be any file that a pod with a hostPath linked there.
//!
//! Each pod has a share of the time of a look, of the entries that are read and of the files in the archive (I22).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::Duration;

use jiff::SignedDuration;
use tokio::time::Instant;

use super::archived_pods::{is_document, remove_empty_pods, remove_if_empty};
use super::dir::Dir;
use super::roots::{enter_all, names_beneath};
use super::{LogError, LogRoots, RemovedStats};
use crate::model::{EntryKind, PodRef, container_log_dir, is_current_log, pod_of_dir, rotated_log};
use crate::observe::{DirEntry, MOST_LOG_FILES, turn};
use crate::plan::ARCHIVE;

/// The most directories of pods that are looked at.
const MOST_PODS: usize = 100_000;
/// What the name of a compressed file ends with.
const COMPRESSED: &str = ".gz";
/// The longest time of a look, of which each pod has the same part, and the time from which a pod takes long.
const LOOK: Duration = Duration::from_secs(10);
const LONG: Duration = Duration::from_millis(10);

/// Log files of a container, by name.
type Files = BTreeMap<String, DirEntry>;

/// What a look at all log files did.
#[derive(Debug, Default)]
pub struct Archived {
    /// The number of files that got a name in the archive.
    pub linked: u64,
    /// Files that got none, and why.
    pub refused: Vec<LogError>,
    /// The directories of pods that took long, and how long.
    pub slow: BTreeMap<String, Duration>,
}

/// What a pod may take of a look.
struct Share {
    until: Instant,
    /// The entries that may be read of its containers.
    entries: usize,
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
        let Some(pods) = self.open(&self.policy.pods_root)? else { return Ok(done) };
        let archive = self.archive_root(&pods)?;
        let names = if let Some(only) = only {
            only.into_iter().map(OsString::from).collect()
        } else {
            remove_empty_pods(&archive, &pods)?;
            pods.names(MOST_PODS, |name| name.to_str().and_then(pod_of_dir).is_some())?
        };
        let (end, all) = (Instant::now() + LOOK, names.len());
        for (name, left) in names.into_iter().zip((1..=all).rev()) {
            let pod = name.to_str().and_then(pod_of_dir);
            if let Some(pod) = pod.filter(|pod| !full.contains(&pod.namespace)) {
                done.pod((&pods, &archive), &name, &pod, turn(end, left));
            }
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
        let _ = of_pod.unlink_dir(container).and_then(|_| remove_if_empty(&archive, pod, &of_pod));
        Ok(removed)
    }

    /// Returns the name that the archive has of a file of a container, and its directory.
    pub(super) fn archived(
        &self,
        folders: &[OsString],
        name: &OsStr,
        entry: DirEntry,
    ) -> Result<Option<(Dir, OsString)>, LogError> {
        let Some(dir) = enter_all(self.open(&self.policy.archive_root())?, folders)? else { return Ok(None) };
        let is_it = |archived: &DirEntry| archived.inode == entry.inode;
        if dir.entry(name)?.as_ref().is_some_and(is_it) {
            return Ok(Some((dir, name.to_owned())));
        }
        let found = dir.log_files()?.into_iter().find(|(_, archived)| is_it(archived));
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
    /// Looks at a pod until a time.
    fn pod(&mut self, (pods, archive): (&Dir, &Dir), name: &OsStr, pod: &PodRef, until: Instant) {
        let is_container = |name: &OsStr| name.to_str().and_then(|name| container_log_dir(pod, name)).is_some();
        let (begun, mut share) = (Instant::now(), Share { until, entries: MOST_LOG_FILES });
        let looked = pods.enter(name).and_then(|logs| {
            let Some(logs) = logs else { return Ok(()) };
            let containers = logs.all_names()?.into_iter().filter(|name| !is_document(name) && is_container(name));
            for container in containers {
                share.check(&logs)?;
                self.container(&logs, archive, (name, &container), &mut share);
            }
            Ok(())
        });
        self.refused.extend(looked.err());
        let took = begun.elapsed();
        self.slow.extend((took >= LONG).then(|| (name.to_string_lossy().into_owned(), took)));
    }

    /// Looks at a container.
    fn container(&mut self, logs: &Dir, archive: &Dir, (pod, container): (&OsStr, &OsStr), share: &mut Share) {
        let looked = (|| {
            let Some(mut pair) = Pair::open(logs, archive, pod, container, share)? else { return Ok(()) };
            pair.follow()?;
            self.linked += pair.link_all(|name| !is_current_log(name), &mut self.refused);
            pair.settle()?;
            self.linked += pair.link_all(is_current_log, &mut self.refused);
            pair.drop_uncompressed()
        })();
        self.refused.extend(looked.err());
    }
}

// === impl Share ===

impl Share {
    /// Returns an error if it is used up.
    fn check(&self, pod: &Dir) -> Result<(), LogError> {
        let what = match (self.entries, Instant::now() >= self.until) {
            (0, _) => "its containers have more than 10,000 log files together",
            (_, true) => "to look at it takes longer than its share of the time",
            _ => return Ok(()),
        };
        Err(LogError::foreign(pod.path_of(OsStr::new("")), what))
    }
}

// === impl Pair ===

impl Pair {
    /// Opens both directories; `None` = there is no log file that would get a name.
    fn open(
        logs: &Dir,
        archive: &Dir,
        pod: &OsStr,
        container: &OsStr,
        share: &mut Share,
    ) -> Result<Option<Self>, LogError> {
        let Some(logs) = logs.enter(container)? else { return Ok(None) };
        let logged = logs.log_files()?;
        share.entries = share.entries.saturating_sub(logged.len());
        if logged.values().all(|entry| entry.length == 0) {
            return Ok(None);
        }
        let archive = archive.enter_or_create(pod)?.enter_or_create(container)?;
        let archived = archive.log_files()?;
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
        let mut new: Vec<_> = new.map(|(name, entry)| (name.clone(), *entry)).collect();
        let room = MOST_LOG_FILES.saturating_sub(self.archived.len());
        if new.len() > room {
            let what = "the archive has 10,000 files of it, and gets no more";
            refused.push(LogError::foreign(self.logs.path_of(OsStr::new("")), what));
            new.truncate(room);
        }
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
            let is_free = |name: &String| {
                let forms = [name.clone(), format!("{name}{COMPRESSED}")];
                !forms.iter().any(|form| self.archived.contains_key(form) || self.logged.contains_key(form))
            };
            let mut rotated = (0..).map(|later| format!("{name}.{}", rotated_at(entry, later)));
            let rotated = rotated.find(is_free).unwrap_or_default();
            self.archive.rename(name.as_ref(), rotated.as_ref())?;
            self.archived.insert(rotated, entry);
            self.archived.remove(&name);
        }
        Ok(())
    }

    /// Removes rotated files that the kubelet has replaced by compressed ones.
    fn drop_uncompressed(&mut self) -> Result<(), LogError> {
        let is_replaced = |(name, entry): &(&String, &DirEntry)| {
            let is_archived = self.archived.get(*name).is_some_and(|archived| archived.inode == entry.inode);
            name.ends_with(COMPRESSED) && is_archived
        };
        let compressed = self.logged.iter().filter(is_replaced).filter_map(|(name, _)| rotated_log(name));
        for rotated in compressed.filter(|rotated| !self.logged.contains_key(*rotated)) {
            if let Some(entry) = self.archived.get(rotated) {
                self.archive.unlink(rotated.as_ref(), *entry)?;
            }
        }
        Ok(())
    }
}

/// Returns when a file was last written, and so many seconds later, as the kubelet writes the time of a rotation, in UTC.
fn rotated_at(entry: DirEntry, later: i64) -> String {
    let at = entry.modified_at.and_then(|at| at.checked_add(SignedDuration::from_secs(later)).ok());
    at.unwrap_or_default().strftime("%Y%m%d-%H%M%S").to_string()
}

fn inodes(files: &Files) -> HashSet<u64> {
    files.values().map(|file| file.inode).collect()
}
