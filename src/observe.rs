//! Builds one [`Snapshot`] per pass: reads every source once, in an order that misses nothing.
//!
//! It reads only and decides nothing. A source that fails is `NotSeen` with its cause, never an empty list (I2). All
//! file system calls run outside the async threads and within a limit, so that a blocked mount costs one time-out, not
//! the pass.

mod clock_skew;
mod disk;
mod error;
mod image_names;
mod log_sizes;
mod logs;
mod pods;
mod status;

pub use disk::{DiskFn, Disks, HostDisks};
pub use error::ObserveError;
pub use image_names::ImageNames;
pub use logs::link_target;
pub use pods::{NoPods, PodSource, PodSourceOptions, RuntimePods};
pub use status::StatusFor;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::cri::{CriError, List, RuntimeReader};
use crate::host_path::{HostFs, Resolved};
use crate::model::{
    Container, FileSystem, Image, ListBytes, ListReceipt, LogDir, Memory, Partial, PodUid, Runtime, Sandbox, Seen,
    Snapshot, SnapshotKind,
};
use clock_skew::ClockSkew;
use pods::PodDirs;
use status::Statuses;

/// The most calls of one method that may time out in one observation (I14).
const MOST_UNANSWERED: u32 = 2;

/// A list for the pod sources.
type Shown<'a, T> = Cow<'a, Seen<Vec<T>>>;

/// Paths on the host, and what must exist there.
#[derive(Clone, Debug, PartialEq)]
pub struct Places {
    /// The host. Default: the agent's own root is the host's.
    pub host: HostFs,
    /// The kubelet's directory. Default `/var/lib/kubelet`.
    pub kubelet_root: PathBuf,
    /// The kubelet's directory must contain a directory of pods if the pods come from a kubelet. Default true.
    pub require_kubelet_dirs: bool,
    /// The pod log root. Default `/var/log/pods`.
    pub pod_logs: PathBuf,
    /// The container log root. Default `/var/log/containers`.
    pub container_logs: PathBuf,
    /// Where no other runtime may be. Default none.
    pub other_sockets: Vec<PathBuf>,
}

/// Observes one node. It caches the statuses of containers, which never change, so one observer serves all passes.
pub struct Observer {
    reader: RuntimeReader,
    places: Places,
    node: String,
    pods: Arc<dyn PodSource>,
    disks: Arc<dyn Disks>,
    statuses: Statuses,
    clock_skew: ClockSkew,
    image_names: Arc<ImageNames>,
}

/// Everything that was read from the runtime in one pass.
struct RuntimeState {
    runtime: Seen<Runtime>,
    listening_since: Seen<Option<Timestamp>>,
    sandbox_image: Seen<Option<String>>,
    images: Seen<Vec<Image>>,
    sandboxes: Seen<Vec<Sandbox>>,
    containers: Seen<Vec<Container>>,
    image_filesystem: Seen<FileSystem>,
    list_bytes: ListBytes,
    partial: Partial,
}

// === impl Places ===

impl Default for Places {
    fn default() -> Self {
        Self {
            host: HostFs::default(),
            kubelet_root: "/var/lib/kubelet".into(),
            require_kubelet_dirs: true,
            pod_logs: "/var/log/pods".into(),
            container_logs: "/var/log/containers".into(),
            other_sockets: Vec::new(),
        }
    }
}

// === impl Observer ===

impl Observer {
    /// Creates an observer of the runtime behind `reader`. Opens nothing yet.
    pub fn new(
        reader: RuntimeReader,
        places: Places,
        node: impl Into<String>,
        pods: Arc<dyn PodSource>,
        disks: Arc<dyn Disks>,
    ) -> Self {
        let (statuses, clock_skew) = (Statuses::default(), ClockSkew::default());
        let image_names = Arc::default();
        Self { reader, places, node: node.into(), pods, disks, statuses, clock_skew, image_names }
    }

    /// Returns the image names that were resolved so far. Callers may resolve more names.
    pub fn image_names(&self) -> Arc<ImageNames> {
        Arc::clone(&self.image_names)
    }

    /// Returns the reader of the runtime.
    pub fn reader(&self) -> &RuntimeReader {
        &self.reader
    }

    /// Takes one snapshot. The order matters: an object that is compared with a later list
    /// is listed before that list. So an object that is created in between appears in the list that protects it. Log
    /// entries come first, then pulls and images before the containers that use them, sandboxes before the containers
    /// in them, and pods last.
    pub async fn observe(&self, taken_at: Timestamp, memory: Memory) -> Snapshot {
        let log_dirs = self.look(&self.places.pod_logs, |_, at| logs::dirs(at)).await;
        let log_links = self.look(&self.places.container_logs, logs::links).await;
        let pulls = self.look(&self.places.kubelet_root.join("image_manager/pulling"), |_, at| pods::pulls(at)).await;
        let runtime_state = self.ask_runtime(taken_at, &pods_that_may_be_here(&log_dirs, &memory)).await;
        let (containers, sandboxes) = runtime_state.for_pods();
        let pod_dirs = self.pod_dirs(&containers, &sandboxes).await;
        let pods = self.pods.list(&containers, &sandboxes).await;
        drop((containers, sandboxes));
        let (pulling, image_uses) = split(pulls);
        let mut snapshot = Snapshot {
            kind: SnapshotKind::Snapshot,
            version: 1,
            taken_at,
            node: self.node.clone(),
            runtime: runtime_state.runtime,
            listening_since: runtime_state.listening_since,
            sandbox_image: runtime_state.sandbox_image,
            containers: runtime_state.containers,
            sandboxes: runtime_state.sandboxes,
            images: runtime_state.images,
            image_filesystem: runtime_state.image_filesystem,
            log_dirs,
            log_links,
            pods,
            pod_dirs,
            pulling,
            resolved_images: BTreeMap::new(),
            image_uses,
            list_bytes: runtime_state.list_bytes,
            partial: runtime_state.partial,
            memory,
        };
        self.clock_skew.correct(&mut snapshot);
        snapshot
    }

    /// Adds to each container the fields that only its own status contains. This is separate from [`Self::observe`]
    /// because it may need a call for each container. A first plan shows whether the statuses can matter at all.
    pub async fn fill_statuses(&self, snapshot: &mut Snapshot, what: StatusFor) {
        self.statuses.fill(&self.reader.limited(MOST_UNANSWERED), snapshot, what).await;
    }

    /// Adds the images that the names in pods resolve to. Separate from [`Self::observe`] because only an image pass
    /// needs it.
    pub async fn resolve_image_names(&self, snapshot: &mut Snapshot) {
        self.image_names.resolve(&self.reader.limited(MOST_UNANSWERED), snapshot).await;
    }

    /// Measures the log directories, for display, in their order and until `limit` has passed. The sizes of the others
    /// stay unknown. Separate from [`Self::observe`] because no pass needs them.
    pub async fn measure_logs(&self, snapshot: &mut Snapshot, limit: Duration) {
        let dirs = snapshot.log_dirs.as_ref().into_iter().flatten();
        let names: Vec<_> = dirs.map(|dir| dir.name.clone()).collect();
        let mut measured = HashMap::new();
        let measure = async {
            for name in names {
                let directory = self.places.pod_logs.join(&name);
                let sizes = self.look(&directory, |_, at| Ok(log_sizes::measure(at))).await;
                if let Seen::Seen(sizes) = sizes {
                    measured.insert(name, sizes);
                }
            }
        };
        // Sizes that took too long are missing, and the output shows it.
        let _ = tokio::time::timeout(limit, measure).await;
        log_sizes::add(snapshot, &measured);
    }

    /// Reads everything from the runtime. An unreachable runtime gets one call: each further call would only wait for
    /// the same error. `pods` helps to list what is too large for one message.
    async fn ask_runtime(&self, now: Timestamp, pods: &[PodUid]) -> RuntimeState {
        let reader = self.reader.limited(MOST_UNANSWERED);
        if let Err(error) = reader.check_alone(&self.places.host, &self.places.other_sockets).await {
            return RuntimeState::nothing(&error);
        }
        let runtime = match reader.runtime().await {
            Err(error) if error.is_unreachable() => return RuntimeState::nothing(&error),
            answer => Seen::from(answer),
        };
        let sandbox_image = Seen::from(reader.sandbox_image().await);
        let (mut list_bytes, mut partial) = (ListBytes::default(), Partial::default());
        let images = received(reader.image_list().await, &mut list_bytes.images, &mut None);
        let sandboxes = reader.sandbox_list(pods).await;
        let sandboxes = received(sandboxes, &mut list_bytes.sandboxes, &mut partial.sandboxes);
        let listed = sandboxes.as_ref().or(partial.sandboxes.as_ref()).into_iter().flatten();
        let pods: Vec<_> = listed.filter_map(|sandbox| sandbox.pod_uid()).chain(pods).cloned().collect();
        let containers = reader.container_list(&pods).await;
        let containers = received(containers, &mut list_bytes.containers, &mut partial.containers);
        // Checked after the lists too: a restart between them may have made one incomplete (I12).
        let listening_since = self.listening_since(now).await;
        let image_filesystem = self.image_filesystem(&reader).await;
        RuntimeState {
            runtime,
            listening_since,
            sandbox_image,
            images,
            sandboxes,
            containers,
            image_filesystem,
            list_bytes,
            partial,
        }
    }

    /// Returns since when the runtime listens: the time of its socket, or of the last reconnect if that is later. A
    /// socket that the service manager owns does not change when the runtime restarts.
    async fn listening_since(&self, now: Timestamp) -> Seen<Option<Timestamp>> {
        let reconnected = self.reader.reconnected_at().map(|moment| self.clock_skew.date(moment, now));
        Seen::from(self.reader.listening_since().await).map(|since| Some(reconnected.map_or(since, |at| at.max(since))))
    }

    async fn pod_dirs(&self, containers: &Seen<Vec<Container>>, sandboxes: &Seen<Vec<Sandbox>>) -> Seen<Vec<PodUid>> {
        let Places { host, kubelet_root, require_kubelet_dirs, .. } = self.places.clone();
        let directory = kubelet_root.join("pods");
        let listed = host.run(&directory, move |host| PodDirs::list(host, &kubelet_root)).await;
        match listed.map_err(ObserveError::from).flatten() {
            Err(error) => Seen::NotSeen(error.to_string()),
            Ok(dirs) if self.pods.has_kubelet() => dirs.of_running(require_kubelet_dirs, containers, sandboxes),
            Ok(dirs) => Seen::Seen(dirs.uids),
        }
    }

    async fn image_filesystem(&self, reader: &RuntimeReader) -> Seen<FileSystem> {
        match reader.image_filesystem().await {
            Ok(Some(mountpoint)) => self.disks.measure(&mountpoint).await.into(),
            Ok(None) => Seen::NotSeen(ObserveError::NoImageFilesystem.to_string()),
            Err(error) => Seen::NotSeen(error.to_string()),
        }
    }

    /// Reads a directory of the host. A missing directory counts as empty, as on a host without a kubelet.
    async fn look<T, F>(&self, directory: &Path, list: F) -> Seen<T>
    where
        T: Default + Send + 'static,
        F: FnOnce(&HostFs, &Path) -> Result<T, ObserveError> + Send + 'static,
    {
        let path = directory.to_owned();
        let look = move |host: &HostFs| match host.resolve(&path) {
            Ok(Resolved::Exists(at)) => list(host, &at),
            Ok(Resolved::Missing(_)) => Ok(T::default()),
            Err(source) => Err(ObserveError::List { path, source }),
        };
        self.places.host.run(directory, look).await.map_err(ObserveError::from).flatten().into()
    }
}

// === impl RuntimeState ===

impl RuntimeState {
    fn nothing(error: &CriError) -> Self {
        let cause = error.to_string();
        Self {
            runtime: Seen::NotSeen(cause.clone()),
            listening_since: Seen::NotSeen(cause.clone()),
            sandbox_image: Seen::NotSeen(cause.clone()),
            images: Seen::NotSeen(cause.clone()),
            sandboxes: Seen::NotSeen(cause.clone()),
            containers: Seen::NotSeen(cause.clone()),
            image_filesystem: Seen::NotSeen(cause),
            list_bytes: ListBytes::default(),
            partial: Partial::default(),
        }
    }

    /// Returns the lists for the pod sources. These use running objects only, so an incomplete list that shows all
    /// running objects is sufficient.
    fn for_pods(&self) -> (Shown<'_, Container>, Shown<'_, Sandbox>) {
        let Self { containers, sandboxes, partial, .. } = self;
        let shown = self.list_bytes.shows_all_that_runs();
        (running(containers, partial.containers.as_ref(), shown), running(sandboxes, partial.sandboxes.as_ref(), shown))
    }
}

/// Returns the list, or its received part if that contains all running objects.
fn running<'a, T: Clone>(list: &'a Seen<Vec<T>>, partial: Option<&Vec<T>>, shown: bool) -> Shown<'a, T> {
    match partial {
        Some(partial) if shown => Cow::Owned(Seen::Seen(partial.clone())),
        _ => Cow::Borrowed(list),
    }
}

/// Records how a list was received. The objects of an incomplete list are stored apart: such a list is not seen (I2).
fn received<T>(
    answer: Result<List<T>, CriError>,
    receipt: &mut Option<ListReceipt>,
    partial: &mut Option<Vec<T>>,
) -> Seen<Vec<T>> {
    let list = match answer {
        Ok(list) => list,
        Err(error) => return Seen::NotSeen(error.to_string()),
    };
    let incomplete = list.incomplete();
    *receipt = Some(list.receipt);
    match incomplete {
        None => Seen::Seen(list.items),
        Some(error) => {
            *partial = Some(list.items);
            Seen::NotSeen(error.to_string())
        }
    }
}

/// Returns the pods that may have sandboxes here: those with a log directory, whose name ends with the uid, and those
/// that were missing in earlier passes. A wrong one costs only a call.
fn pods_that_may_be_here(log_dirs: &Seen<Vec<LogDir>>, memory: &Memory) -> Vec<PodUid> {
    let names = log_dirs.as_ref().into_iter().flatten().map(|dir| dir.name.as_str());
    let of_dirs = names.filter_map(|name| Some(PodUid::from(name.rsplit_once('_')?.1)));
    of_dirs.chain(memory.absent_since.iter().map(|absence| absence.uid.clone())).collect()
}

/// Splits the images that are being pulled from whether they are all known.
fn split(pulls: Seen<Vec<String>>) -> (Vec<String>, Seen<()>) {
    match pulls {
        Seen::Seen(images) => (images, Seen::Seen(())),
        Seen::NotSeen(cause) => (Vec::new(), Seen::NotSeen(cause)),
    }
}

#[cfg(test)]
mod tests;
