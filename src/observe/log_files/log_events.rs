//! The changes below the pod log root, as the kernel reports them (inotify(7)).
//!
//! What a tenant writes there can make any number of events and names. So there is a limit on the watches and on the events that are read
//! at once, and what is not watched is left to the passes.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::CWD;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::{Errno, retry_on_intr};

use super::archived_logs::texts;
use crate::host_path::HostFs;
use crate::model::{is_current_log, pod_of_dir};
use crate::observe::walk::{open_directory, stat};

/// The most directories and files that are watched: those of some thousand pods.
const MOST_WATCHES: usize = if cfg!(test) { 20 } else { 20_000 };
/// The most events that are read at once. The kernel keeps 16,384 unless its settings say otherwise.
const MOST_EVENTS: usize = 20_000;
const BUFFER: usize = 8 << 10;
/// What is new in a directory.
const NEW: WatchFlags = WatchFlags::CREATE.union(WatchFlags::MOVED_TO).union(WatchFlags::ONLYDIR);
/// The first line in an empty file.
const FIRST_LINE: WatchFlags = WatchFlags::MODIFY.union(WatchFlags::ONESHOT).union(WatchFlags::DONT_FOLLOW);

/// A watch of the directories of all pods.
#[derive(Debug)]
pub struct LogEvents {
    descriptor: Arc<OwnedFd>,
    root: OwnedFd,
    watched: HashMap<i32, Watched>,
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
        let root = open_directory(CWD, &*host.resolve(root)?.into_path())?;
        let descriptor = Arc::new(inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?);
        let mut events = Self { descriptor, root, watched: HashMap::new(), is_full: false };
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
            changed.extend(self.changed(event.wd(), name).map(|pod| pod.to_string()));
            if event.events().contains(ReadFlags::IGNORED) {
                self.watched.remove(&event.wd());
            }
        }
        Ok(Some(changed))
    }

    /// Watches what is new under a name. Returns the pod that has it.
    fn changed(&mut self, at: i32, name: &str) -> Option<Arc<str>> {
        match self.watched.get(&at).cloned()? {
            Watched::Root => self.enter_pod(name),
            Watched::Pod(pod) => {
                let root = open_directory(self.root.as_fd(), &*pod).ok()?;
                self.enter_container(&pod, &root, name);
                Some(pod)
            }
            Watched::Container(pod, container) => {
                let of_pod = open_directory(self.root.as_fd(), &*pod).ok()?;
                let files = open_directory(of_pod.as_fd(), &*container).ok()?;
                self.enter_file(&pod, &files, name);
                Some(pod)
            }
            Watched::File(pod) => Some(pod),
        }
    }

    fn enter_root(&mut self) {
        for name in texts(&self.root) {
            self.enter_pod(&name);
        }
    }

    fn enter_pod(&mut self, name: &str) -> Option<Arc<str>> {
        pod_of_dir(name)?;
        let (of_pod, pod) = (open_directory(self.root.as_fd(), name).ok()?, Arc::<str>::from(name));
        self.add(path_of(&of_pod, ""), NEW, Watched::Pod(Arc::clone(&pod)));
        // What was made before the watch.
        for container in texts(&of_pod) {
            self.enter_container(&pod, &of_pod, &container);
        }
        Some(pod)
    }

    fn enter_container(&mut self, pod: &Arc<str>, of_pod: &OwnedFd, name: &str) {
        let Ok(files) = open_directory(of_pod.as_fd(), name) else { return };
        self.add(path_of(&files, ""), NEW, Watched::Container(Arc::clone(pod), name.into()));
        for file in texts(&files) {
            self.enter_file(pod, &files, &file);
        }
    }

    /// Watches a file that has no line yet: it gets no name in the archive before.
    fn enter_file(&mut self, pod: &Arc<str>, files: &OwnedFd, name: &str) {
        if is_current_log(name) && stat(files.as_fd(), name).is_ok_and(|found| found.stx_size == 0) {
            self.add(path_of(files, name), FIRST_LINE, Watched::File(Arc::clone(pod)));
        }
    }

    fn add(&mut self, path: String, events: WatchFlags, watched: Watched) {
        let added = if self.watched.len() < MOST_WATCHES {
            inotify::add_watch(&*self.descriptor, path, events)
        } else {
            Err(Errno::NOSPC)
        };
        match added {
            Ok(at) => drop(self.watched.insert(at, watched)),
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

/// Returns the path of a name in an open directory.
fn path_of(directory: &OwnedFd, name: &str) -> String {
    format!("/proc/self/fd/{}/{name}", directory.as_raw_fd())
}

#[cfg(test)]
mod tests;
