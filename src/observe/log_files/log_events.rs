//! The changes below the pod log root, as the kernel reports them (inotify(7)).
//!
//! What a tenant writes there can make any number of events and names. So each pod has a share of the watches and of the events that are read
//! at once, and what is not watched is left to the passes. A pod with more events is not watched any more: else its events would push those
//! of others out of the kernel's queue.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::{Errno, retry_on_intr};

use crate::host_path::HostFs;
use crate::model::{container_log_dir, is_current_log, pod_of_dir};
use crate::observe::open_dir::OpenDir;
use crate::observe::walk::MOST_NAMES;

/// The most directories and files that are watched: those of some thousand pods.
const MOST_WATCHES: usize = if cfg!(test) { 20 } else { 20_000 };
/// The most events that are read at once. The kernel keeps 16,384 unless its settings say otherwise.
const MOST_EVENTS: usize = 20_000;
/// The share of a pod in both. One has a few directories, and some events for each start and rotation.
const WATCHES_OF_POD: usize = if cfg!(test) { 8 } else { 200 };
const EVENTS_OF_POD: usize = 1_000;
const BUFFER: usize = 8 << 10;
/// What is new in a directory.
const NEW: WatchFlags = WatchFlags::CREATE.union(WatchFlags::MOVED_TO).union(WatchFlags::ONLYDIR);
/// The first line in an empty file.
const FIRST_LINE: WatchFlags = WatchFlags::MODIFY.union(WatchFlags::ONESHOT).union(WatchFlags::DONT_FOLLOW);

/// A watch of the directories of all pods.
#[derive(Debug)]
pub struct LogEvents {
    descriptor: Arc<OwnedFd>,
    root: OpenDir,
    watched: HashMap<i32, Watched>,
    /// The number of watches of each pod.
    counts: HashMap<Arc<str>, usize>,
    /// The pods that had more events than their share.
    omitted: HashSet<Arc<str>>,
    is_full: bool,
}

/// What a watch is of.
#[derive(Clone, Debug)]
enum Watched {
    Root,
    Pod(Arc<str>),
    Container(Arc<str>, Arc<str>),
    /// An empty file of a pod.
    File(Arc<str>),
}

// === impl LogEvents ===

impl LogEvents {
    /// Watches the pod log root, a path of the host, and the directories of all pods.
    ///
    /// # Errors
    /// The root cannot be read, or the system permits no watch.
    pub fn watch(host: &HostFs, root: &Path) -> io::Result<Self> {
        let root = OpenDir::open(&host.resolve(root)?.into_path())?;
        let descriptor = Arc::new(inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?);
        let (watched, counts, omitted) = Default::default();
        let mut events = Self { descriptor, root, watched, counts, omitted, is_full: false };
        let at = inotify::add_watch(&*events.descriptor, path_of(&events.root, ""), NEW)?;
        events.watched.insert(at, Watched::Root);
        events.enter_root();
        Ok(events)
    }

    /// Waits until something has changed. Returns whether it has; `false` = the other end of `stop` was dropped.
    ///
    /// # Errors
    /// As in the system.
    pub fn wait(&self, stop: &UnixStream) -> io::Result<bool> {
        let mut waited = [PollFd::new(stop, PollFlags::IN), PollFd::new(&self.descriptor, PollFlags::IN)];
        retry_on_intr(|| poll(&mut waited, None))?;
        Ok(waited.first().is_some_and(|stop| stop.revents().is_empty()))
    }

    /// Returns the directories of the pods in which something has changed since the last call. `None` = in any.
    ///
    /// # Errors
    /// The kernel reports no more events.
    pub fn read(&mut self) -> io::Result<Option<BTreeSet<String>>> {
        let (descriptor, mut buffer) = (Arc::clone(&self.descriptor), [MaybeUninit::uninit(); BUFFER]);
        let (mut events, mut changed) = (Reader::new(&*descriptor, &mut buffer), BTreeSet::new());
        let mut counts = HashMap::<_, usize>::new();
        for _ in 0..MOST_EVENTS {
            let event = match events.next() {
                Err(Errno::AGAIN) => break,
                event => event?,
            };
            if event.events().contains(ReadFlags::QUEUE_OVERFLOW) {
                self.enter_root();
                return Ok(None);
            }
            let name = event.file_name().and_then(|name| name.to_str().ok()).unwrap_or_default();
            let pod = self.changed(event.wd(), name);
            if event.events().contains(ReadFlags::IGNORED) {
                self.forget(event.wd());
            }
            let Some(pod) = pod else { continue };
            changed.insert(pod.to_string());
            let count = counts.entry(Arc::clone(&pod)).or_default();
            *count += 1;
            if *count == EVENTS_OF_POD {
                self.leave_out(pod);
            }
        }
        Ok(Some(changed))
    }

    /// Watches what is new under a name. Returns the pod that has it.
    fn changed(&mut self, at: i32, name: &str) -> Option<Arc<str>> {
        match self.watched.get(&at).cloned()? {
            Watched::Root => self.enter_pod(name),
            Watched::Pod(pod) => {
                let root = self.root.enter(&*pod).ok()?;
                self.enter_container(&pod, &root, name);
                Some(pod)
            }
            Watched::Container(pod, container) => {
                let of_pod = self.root.enter(&*pod).ok()?;
                let files = of_pod.enter(&*container).ok()?;
                self.enter_file(&pod, &files, name);
                Some(pod)
            }
            Watched::File(pod) => Some(pod),
        }
    }

    /// Watches a pod no more. What the kernel still has of it changes nothing.
    fn leave_out(&mut self, pod: Arc<str>) {
        let of_pod = self.watched.iter().filter(|(_, watched)| watched.pod() == Some(&pod)).map(|(at, _)| *at);
        for at in of_pod.collect::<Vec<_>>() {
            let _ = inotify::remove_watch(&*self.descriptor, at);
            self.forget(at);
        }
        tracing::warn!("the logs of {pod} change too often to be watched; each pass looks at them");
        if self.omitted.len() == MOST_WATCHES {
            self.omitted.clear();
        }
        self.omitted.insert(pod);
    }

    fn forget(&mut self, at: i32) {
        let Some(watched) = self.watched.remove(&at) else { return };
        let Some(pod) = watched.pod() else { return };
        let count = self.counts.get_mut(pod).map_or(0, |count| {
            *count -= 1;
            *count
        });
        if count == 0 {
            self.counts.remove(pod);
        }
    }

    /// Returns whether a pod may have another watch.
    fn has_room(&self, pod: &Arc<str>) -> bool {
        !self.omitted.contains(pod) && self.counts.get(pod).is_none_or(|count| *count < WATCHES_OF_POD)
    }

    fn enter_root(&mut self) {
        for name in self.root.texts(MOST_NAMES) {
            self.enter_pod(&name);
        }
    }

    fn enter_pod(&mut self, name: &str) -> Option<Arc<str>> {
        pod_of_dir(name)?;
        let (of_pod, pod) = (self.root.enter(name).ok()?, Arc::<str>::from(name));
        self.add(path_of(&of_pod, ""), NEW, Watched::Pod(Arc::clone(&pod)));
        // What was made before the watch.
        for container in of_pod.texts(MOST_NAMES) {
            self.enter_container(&pod, &of_pod, &container);
        }
        Some(pod)
    }

    fn enter_container(&mut self, pod: &Arc<str>, of_pod: &OpenDir, name: &str) {
        let is_container = || pod_of_dir(pod).and_then(|pod| container_log_dir(&pod, name)).is_some();
        if !self.has_room(pod) || !is_container() {
            return;
        }
        let Ok(files) = of_pod.enter(name) else { return };
        self.add(path_of(&files, ""), NEW, Watched::Container(Arc::clone(pod), name.into()));
        for file in files.texts(MOST_NAMES) {
            self.enter_file(pod, &files, &file);
        }
    }

    /// Watches a file that has no line yet: it gets no name in the archive before.
    fn enter_file(&mut self, pod: &Arc<str>, files: &OpenDir, name: &str) {
        if is_current_log(name) && matches!(files.entry(name), Ok(Some(entry)) if entry.length == 0) {
            self.add(path_of(files, name), FIRST_LINE, Watched::File(Arc::clone(pod)));
        }
    }

    fn add(&mut self, path: String, events: WatchFlags, watched: Watched) {
        let pod = watched.pod().cloned();
        if pod.as_ref().is_some_and(|pod| !self.has_room(pod)) {
            return;
        }
        let added = if self.watched.len() < MOST_WATCHES {
            inotify::add_watch(&*self.descriptor, path, events)
        } else {
            Err(Errno::NOSPC)
        };
        match added {
            // A watch of the same directory is not a new one.
            Ok(at) if self.watched.insert(at, watched).is_some() => {}
            Ok(_) => pod.into_iter().for_each(|pod| *self.counts.entry(pod).or_default() += 1),
            Err(Errno::NOSPC) if !self.is_full => {
                self.is_full = true;
                tracing::warn!(
                    watched = self.watched.len(),
                    "no more log directories can be watched (fs.inotify.max_user_watches); each pass looks at the others"
                );
            }
            // It was removed meanwhile.
            Err(_) => {}
        }
    }
}

// === impl Watched ===

impl Watched {
    fn pod(&self) -> Option<&Arc<str>> {
        match self {
            Self::Root => None,
            Self::Pod(pod) | Self::Container(pod, _) | Self::File(pod) => Some(pod),
        }
    }
}

/// Returns the path of a name in an open directory.
fn path_of(directory: &OpenDir, name: &str) -> String {
    format!("/proc/self/fd/{}/{name}", directory.as_fd().as_raw_fd())
}

#[cfg(test)]
mod tests;
