//! Builds one [`Snapshot`] per pass: reads every source once, in an order that misses nothing.
//!
//! It reads only and decides nothing. A source that fails is `NotSeen` with its cause, never an empty list (I2). All
//! file system calls run outside the async threads and within a limit, so that a blocked mount costs one time-out, not
//! the pass.
//!
//! Facts about the runtime are remembered: since when its socket exists, which sandbox image it named, and when
//! kubegc first saw that socket. So a failed Version or Status call turns no guard off. A sandbox image is valid
//! until the runtime restarts. A restart behind a socket of the service manager does not change the socket: there
//! `guards.settle` counts from the connection that had to be made again, and the owner of the listening socket
//! (`SO_PEERCRED`) distinguishes the two cases.

mod clock_jumps;
mod clock_skew;
mod disk;
mod image_details;
mod image_names;
mod leftover_logs;
mod leftovers;
mod log_files;
mod log_sizes;
mod needs;
mod observe_error;
mod open_dir;
mod pods;
mod runtime_status;
mod store;
mod walk;

pub use disk::{DiskFn, Disks, HostDisks};
pub use image_names::ImageNames;
pub use leftovers::has_pull_record;
pub use leftovers::pod_directory::{Obstacle, mount_points, obstacle};
pub use log_files::{
    Archive, LogEvents, LogFile, LogFiles, LogLine, LogLines, LogQuery, LogStream, LogWatch, LoggedContainer,
    MOST_COPIED_BYTES, MOST_LOG_FILES, PodLogs, link_target, read_archived_pod,
};
pub use needs::{Needs, Part, wanted};
pub use observe_error::ObserveError;
pub use open_dir::{DirEntry, OpenDir};
pub use pods::{NoPods, PodSource, PodSourceOptions, RuntimePods};
pub use walk::turn;

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::{Instant, timeout};

use crate::cri::{CriError, List, RuntimeReader, check_alone};
use crate::host_path::{HostFs, Resolved};
use crate::model::{
    Container, DiskUse, FileSystem, ListReceipt, LogDir, Memory, NodeDisk, PodUid, Sandbox, Seen, Snapshot, Workload,
    last_part_of_name, last_parts,
};
pub use clock_jumps::{ClockJumps, ClockReading};
use clock_skew::ClockSkew;
use image_details::DetailsReader;
use pods::PodDirs;
use runtime_status::Statuses;
use store::StoreReader;

/// The most calls of one method that may time out in one observation (I14).
const MOST_UNANSWERED: u32 = 2;

/// A list for the pod sources.
type Shown<'a, T> = Cow<'a, Seen<Vec<T>>>;

/// The longest time to measure the log directories.
const MEASURING: Duration = Duration::from_secs(2);
/// The longest time to measure the kubelet's directories of pods, and that of a walk without a limit.
const WALK: Duration = Duration::from_secs(3);
const UNLIMITED: Duration = Duration::from_hours(24);

#[derive(Clone, Debug, PartialEq)]
pub struct Places {
    /// The host. Default: the agent's own root is the host's.
    pub host: HostFs,
    /// The kubelet's directory. Default `/var/lib/kubelet`.
    pub kubelet_root: PathBuf,
    /// Where host-local reserves addresses. Default `/var/lib/cni/networks`.
    pub networks: PathBuf,
    /// Where the logs of deleted pods stay. Default `/var/log/kubegc/archive`.
    pub archive: PathBuf,
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
    /// The host for what takes long, which the reads of passes do not wait for.
    walks: HostFs,
    node: String,
    pods: Arc<dyn PodSource>,
    disks: Arc<dyn Disks>,
    statuses: Statuses,
    clock_skew: ClockSkew,
    jumps: Arc<ClockJumps>,
    image_names: Arc<ImageNames>,
    store: StoreReader,
    image_details: DetailsReader,
    without_runtime: Option<String>,
}

// === impl Places ===

impl Default for Places {
    fn default() -> Self {
        Self {
            host: HostFs::default(),
            kubelet_root: "/var/lib/kubelet".into(),
            networks: "/var/lib/cni/networks".into(),
            archive: "/var/log/kubegc/archive".into(),
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
        let (image_names, image_details, store) = (Arc::default(), DetailsReader::default(), StoreReader::default());
        let (node, walks) = (node.into(), places.host.apart());
        let jumps = Arc::default();
        let without_runtime = None;
        Self {
            reader,
            places,
            walks,
            node,
            pods,
            disks,
            statuses,
            clock_skew,
            jumps,
            image_names,
            store,
            image_details,
            without_runtime,
        }
    }

    /// Does not ask the runtime, for this cause.
    #[must_use]
    pub fn without_runtime(self, cause: Option<String>) -> Self {
        Self { without_runtime: cause, ..self }
    }

    /// Uses these jumps of the clock, which others find.
    #[must_use]
    pub fn with_jumps(self, jumps: &Arc<ClockJumps>) -> Self {
        Self { jumps: Arc::clone(jumps), ..self }
    }

    /// Returns the image names that were resolved so far. Callers may resolve more names.
    pub fn image_names(&self) -> Arc<ImageNames> {
        Arc::clone(&self.image_names)
    }

    /// Returns the reader of the runtime.
    pub fn reader(&self) -> &RuntimeReader {
        &self.reader
    }

    /// Takes one snapshot of the node.
    pub async fn snapshot(&self, needs: &Needs, taken_at: Timestamp, memory: Memory) -> Snapshot {
        // In a box, or the futures of all that observe would be large.
        let mut snapshot = Box::pin(self.observe(taken_at, memory)).await;
        if !needs.contains(&Part::PodDetails) {
            forget_details(&mut snapshot);
        }
        self.fill(&mut snapshot, needs).await;
        snapshot
    }

    /// Adds parts to a snapshot.
    pub async fn fill(&self, snapshot: &mut Snapshot, needs: &Needs) {
        let reader = self.reader.limited(MOST_UNANSWERED);
        let has = |part| needs.contains(&part);
        if has(Part::Ends) || has(Part::ImageVolumes) {
            self.statuses.fill(&reader, snapshot, needs).await;
            self.clock_skew.settle_ends(snapshot, &self.jumps);
        }
        if has(Part::ImageNames) {
            self.image_names.resolve(&reader, snapshot).await;
        }
        if has(Part::Workloads) {
            snapshot.workloads = self.workloads(snapshot).await;
        }
        if has(Part::ImageDetails) {
            self.image_details.fill(&reader, snapshot).await;
        }
        if has(Part::LeftoverLogs) {
            self.find_leftover_logs(snapshot).await;
        }
        if has(Part::ArchivedLogs) {
            Box::pin(self.read_archive(snapshot, has(Part::ArchivedPods))).await;
        }
        if has(Part::ContainerLogs) {
            snapshot.container_logs = Box::pin(self.container_logs(snapshot)).await;
        }
        if has(Part::Leftovers) {
            Box::pin(self.find_leftovers(snapshot)).await;
        }
        if has(Part::LogSizes) {
            self.measure_logs(snapshot).await;
        }
        let time = if has(Part::UnlimitedWalks) { UNLIMITED } else { WALK };
        let begun = Instant::now();
        if has(Part::PodUsage) {
            let part = if has(Part::DiskContents) { time / 2 } else { time };
            snapshot.pod_usage = self.pod_usage(snapshot, part).await;
        }
        if has(Part::DiskContents) {
            let left = time.saturating_sub(begun.elapsed());
            snapshot.disk_contents = self.disk_contents(snapshot, left).await;
            Box::pin(self.find_tasks(snapshot)).await;
        }
        if has(Part::Store) {
            let layers = has(Part::WritableLayers);
            snapshot.store = self.store.read(&self.reader, &self.places, &*self.disks, snapshot, layers).await;
        }
    }

    /// Reads every source once. The order matters: an object that is compared with a later list
    /// is listed before that list. So an object that is created in between appears in the list that protects it. Log
    /// entries come first, then pulls and images before the containers that use them, sandboxes before the containers
    /// in them, and pods last.
    async fn observe(&self, taken_at: Timestamp, memory: Memory) -> Snapshot {
        let begun = Instant::now();
        let log_dirs = self.list_directory(&self.places.pod_logs, |_, at| log_files::dirs(at)).await;
        let pods_root = self.places.pod_logs.clone();
        let log_links = self
            .list_directory(&self.places.container_logs, move |host, at| log_files::links(host, at, &pods_root))
            .await;
        let pulls =
            self.list_directory(&self.places.kubelet_root.join("image_manager/pulling"), |_, at| pods::pulls(at)).await;
        let (pulling, image_uses) = split(pulls);
        let moved = |(image, since): (&String, &Option<Timestamp>)| Some((image.clone(), self.jumps.moved((*since)?)));
        let pulling_since = pulling.iter().filter_map(moved).collect();
        let mut snapshot = Snapshot {
            node: self.node.clone(),
            log_dirs,
            log_links,
            pulling: pulling.into_keys().collect(),
            pulling_since,
            image_uses,
            memory,
            ..Snapshot::unobserved(taken_at)
        };
        let observed = match &self.without_runtime {
            Some(cause) => Err(cause.clone()),
            None => self.observe_runtime(&mut snapshot).await.map_err(|error| error.to_string()),
        };
        if let Err(cause) = observed {
            not_seen(&mut snapshot, cause);
        }
        let (containers, sandboxes) = for_pods(&snapshot);
        let pod_dirs = self.pod_dirs(&containers, &sandboxes).await;
        let pods = self.pods.list(&containers, &sandboxes).await;
        drop((containers, sandboxes));
        (snapshot.pod_dirs, snapshot.pods) = (pod_dirs, pods);
        snapshot.pods_listed_at = taken_at.checked_add(begun.elapsed()).ok();
        snapshot.disks = self.node_disks(snapshot.image_filesystem.as_ref()).await;
        self.clock_skew.settle_objects(&mut snapshot, &self.jumps);
        snapshot
    }

    /// Returns the workloads that name an image of the node, or more images than are kept for them. Those of a large cluster are
    /// many, and most run elsewhere.
    async fn workloads(&self, snapshot: &Snapshot) -> Seen<Vec<Workload>> {
        let here = last_parts(snapshot.images.as_ref().into_iter().flatten());
        self.pods.workloads().await.map(|mut workloads| {
            let is_here = |workload: &Workload| {
                workload.left_out > 0 || workload.images.iter().any(|name| here.contains(&last_part_of_name(name)))
            };
            workloads.retain(is_here);
            workloads.sort();
            workloads
        })
    }

    /// Reads the logs of instances that the runtime no longer lists. An incomplete list shows none.
    async fn find_leftover_logs(&self, snapshot: &mut Snapshot) {
        let restarted = snapshot.containers.as_ref().map(|containers| leftover_logs::restarted_containers(containers));
        if let Some(restarted) = restarted.filter(|restarted| !restarted.is_empty()) {
            let find = move |_: &HostFs, root: &Path| leftover_logs::find(root, &restarted);
            snapshot.leftover_logs = self.list_directory(&self.places.pod_logs, find).await;
            self.clock_skew.settle_leftover_logs(snapshot, &self.jumps);
        }
    }

    /// Measures the log directories in one walk. The sizes of those that are not reached in time stay unknown, and the output
    /// shows it.
    async fn measure_logs(&self, snapshot: &mut Snapshot) {
        let dirs = snapshot.log_dirs.as_ref().into_iter().flatten();
        let names: Vec<_> = dirs.map(|dir| dir.name.clone()).collect();
        let until = Instant::now() + MEASURING;
        let measure = move |_: &HostFs, root: &Path| Ok(log_sizes::measure_all(root, names, until));
        let measure = self.measure(self.places.pod_logs.clone(), MEASURING, measure);
        // A disk that blocks does not end the walk.
        if let Ok(Seen::Seen(Some(measured))) = timeout(2 * MEASURING, measure).await {
            log_sizes::add(snapshot, &measured);
        }
    }

    /// Reads everything from the runtime.
    ///
    /// # Errors
    /// The runtime is unreachable. It gets one call: each further call would only wait for the same error.
    async fn observe_runtime(&self, to: &mut Snapshot) -> Result<(), CriError> {
        let reader = self.reader.limited(MOST_UNANSWERED);
        check_alone(&reader, &self.places.host, &self.places.other_sockets).await?;
        let runtime = match reader.runtime().await {
            Err(error) if error.is_unreachable() => return Err(error),
            answer => Seen::from(answer),
        };
        to.sandbox_image = Seen::from(reader.sandbox_image().await);
        to.images = received(reader.image_list().await, &mut to.list_bytes.images, &mut None);
        // They help to list what is too large for one message.
        let pods = pods_that_may_be_here(&to.log_dirs, &to.memory);
        let sandboxes = reader.sandbox_list(&pods).await;
        to.sandboxes = received(sandboxes, &mut to.list_bytes.sandboxes, &mut to.partial.sandboxes);
        let listed = to.listed_sandboxes().unwrap_or_default();
        let pods: Vec<_> = listed.iter().filter_map(|sandbox| sandbox.pod_uid()).chain(&pods).cloned().collect();
        let containers = reader.container_list(&pods).await;
        to.containers = received(containers, &mut to.list_bytes.containers, &mut to.partial.containers);
        // Checked after the lists too: a restart between them may have made one incomplete (I12).
        to.listening_since = self.listening_since(to.taken_at).await;
        to.runtime = runtime;
        to.image_filesystem = self.image_filesystem(&reader).await;
        Ok(())
    }

    /// Returns since when the runtime listens: the time of its socket, or of the last reconnect if that is later. A
    /// socket that the service manager owns does not change when the runtime restarts.
    async fn listening_since(&self, now: Timestamp) -> Seen<Option<Timestamp>> {
        let reconnected = self.reader.reconnected_at().map(|moment| self.clock_skew.date(moment, now));
        Seen::from(self.reader.listening_since().await).map(|since| Some(reconnected.map_or(since, |at| at.max(since))))
    }

    async fn pod_dirs(&self, containers: &Seen<Vec<Container>>, sandboxes: &Seen<Vec<Sandbox>>) -> Seen<Vec<PodUid>> {
        let Places { host, kubelet_root, .. } = self.places.clone();
        let directory = kubelet_root.join("pods");
        let listed = host.run(&directory, move |host| PodDirs::list(host, &kubelet_root)).await;
        match listed.map_err(ObserveError::from).flatten() {
            Err(error) => Seen::NotSeen(error.to_string()),
            Ok(dirs) if self.pods.has_kubelet() => dirs.of_running(containers, sandboxes),
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

    /// Measures the disks of the pod logs and of the kubelet's pods, beside that of the images. One that cannot be measured is
    /// left out.
    async fn node_disks(&self, images: Option<&FileSystem>) -> Vec<NodeDisk> {
        let mut found = Vec::new();
        if let Some(disk) = images {
            NodeDisk::add(&mut found, DiskUse::Images, disk.clone());
        }
        let pods = self.places.kubelet_root.join("pods");
        for (of, path) in [(DiskUse::Logs, &self.places.pod_logs), (DiskUse::Kubelet, &pods)] {
            if let Ok(disk) = self.disks.measure(path).await {
                NodeDisk::add(&mut found, of, disk);
            }
        }
        found
    }

    /// Reads a directory of the host. A missing directory counts as empty, as on a host without a kubelet.
    async fn list_directory<T, F>(&self, directory: &Path, list: F) -> Seen<T>
    where
        T: Default + Send + 'static,
        F: FnOnce(&HostFs, &Path) -> Result<T, ObserveError> + Send + 'static,
    {
        let path = directory.to_owned();
        let call = move |host: &HostFs| match host.resolve(&path) {
            Ok(Resolved::Exists(at)) => list(host, &at),
            Ok(Resolved::Missing(_)) => Ok(T::default()),
            Err(source) => Err(ObserveError::List { path, source }),
        };
        self.places.host.run(directory, call).await.map_err(ObserveError::from).flatten().into()
    }
}

/// Drops what no rule uses and others wrote: a snapshot may be shown to people.
fn forget_details(snapshot: &mut Snapshot) {
    if let Seen::Seen(list) = &mut snapshot.pods {
        list.node_labels = None;
        list.pods.iter_mut().for_each(|pod| pod.details = None);
    }
}

/// Records why nothing was read from the runtime.
fn not_seen(snapshot: &mut Snapshot, cause: String) {
    snapshot.runtime = Seen::NotSeen(cause.clone());
    snapshot.listening_since = Seen::NotSeen(cause.clone());
    snapshot.sandbox_image = Seen::NotSeen(cause.clone());
    snapshot.images = Seen::NotSeen(cause.clone());
    snapshot.sandboxes = Seen::NotSeen(cause.clone());
    snapshot.containers = Seen::NotSeen(cause.clone());
    snapshot.image_filesystem = Seen::NotSeen(cause);
}

/// Returns the lists for the pod sources. These use running objects only, so an incomplete list that shows all running
/// objects is sufficient.
fn for_pods(snapshot: &Snapshot) -> (Shown<'_, Container>, Shown<'_, Sandbox>) {
    let Snapshot { containers, sandboxes, partial, list_bytes, .. } = snapshot;
    let shown = list_bytes.shows_all_that_runs();
    (running(containers, partial.containers.as_ref(), shown), running(sandboxes, partial.sandboxes.as_ref(), shown))
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
fn split<T: Default>(seen: Seen<T>) -> (T, Seen<()>) {
    let is_known = seen.result().map(|_| ()).into();
    (if let Seen::Seen(value) = seen { value } else { T::default() }, is_known)
}

#[cfg(test)]
mod tests;
