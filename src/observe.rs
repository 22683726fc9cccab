//! Builds one [`Snapshot`] per pass: asks every source once, in an order in which nothing is missed.
//!
//! It reads only and decides nothing. A source that fails is `NotSeen` with its cause, never an empty list (I2). All calls
//! to file systems run off the async threads and within a limit, so that a blocked mount costs one time-out, not the pass.

mod disk;
mod error;
mod logs;
mod pods;
mod status;

pub use disk::{Disks, HostDisks, ToldDisk};
pub use error::ObserveError;
pub use pods::{
    Beside, CombinedPods, FoundPods, KubeApi, KubeletDirPods, KubeletSource, NoPods, Part, PodSource, RuntimePods,
};
pub use status::StatusFor;

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use jiff::Timestamp;

use crate::cri::{CriError, Only, RuntimeReader};
use crate::model::{Container, FileSystem, Image, Memory, Runtime, Sandbox, Seen, Snapshot, SnapshotKind};
use crate::rooted::{self, BoundedCalls};
use status::Statuses;

/// The answer of a source that may be exchanged for another.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Where things lie, as the host names them.
#[derive(Clone, Debug, PartialEq)]
pub struct Places {
    /// Where the host's root is mounted. Default `/`.
    pub host_root: PathBuf,
    /// The kubelet's directory. Default `/var/lib/kubelet`.
    pub kubelet_root: PathBuf,
    /// The pod log root. Default `/var/log/pods`.
    pub pod_logs: PathBuf,
    /// The container log root. Default `/var/log/containers`.
    pub container_logs: PathBuf,
}

/// Observes one node. It remembers what a container's status told, which never changes; one observer serves all passes.
pub struct Observer {
    reader: RuntimeReader,
    places: Places,
    node: String,
    pods: Arc<dyn PodSource>,
    disks: Arc<dyn Disks>,
    calls: BoundedCalls,
    statuses: Statuses,
}

/// What the runtime told in one pass.
struct Told {
    runtime: Seen<Runtime>,
    images: Seen<Vec<Image>>,
    sandboxes: Seen<Vec<Sandbox>>,
    containers: Seen<Vec<Container>>,
    image_filesystem: Seen<FileSystem>,
}

// === impl Places ===

impl Default for Places {
    fn default() -> Self {
        Self {
            host_root: "/".into(),
            kubelet_root: "/var/lib/kubelet".into(),
            pod_logs: "/var/log/pods".into(),
            container_logs: "/var/log/containers".into(),
        }
    }
}

// === impl Observer ===

impl Observer {
    /// An observer of the runtime behind `reader`. Nothing is opened yet.
    pub fn new(
        reader: RuntimeReader,
        places: Places,
        node: impl Into<String>,
        pods: Arc<dyn PodSource>,
        disks: Arc<dyn Disks>,
    ) -> Self {
        let (calls, statuses) = (BoundedCalls::default(), Statuses::default());
        Self { reader, places, node: node.into(), pods, disks, calls, statuses }
    }

    /// Takes one snapshot. The order counts (spec 8.2, races 5 and 21): what is compared with a later list is listed
    /// before it, so that a thing made in between shows up in the list that protects it. Log entries come before
    /// everything, pulls and images before the containers that use them, sandboxes before the containers in them, and
    /// pods last.
    pub async fn observe(&self, taken_at: Timestamp, memory: Memory) -> Snapshot {
        let log_dirs = self.look(&self.places.pod_logs, |_, at| logs::dirs(at)).await;
        let log_links = self.look(&self.places.container_logs, logs::links).await;
        let pulls = self.look(&self.places.kubelet_root.join("image_manager/pulling"), |_, at| pods::pulls(at)).await;
        let told = self.ask_runtime().await;
        let pod_dirs = self.look(&self.places.kubelet_root.join("pods"), |_, at| pods::dirs(at)).await;
        let pods = self.pods.list(&told.containers, &told.sandboxes).await;
        let (pulling, image_uses) = split(pulls);
        Snapshot {
            kind: SnapshotKind::Snapshot,
            version: 1,
            taken_at,
            node: self.node.clone(),
            runtime: told.runtime,
            containers: told.containers,
            sandboxes: told.sandboxes,
            images: told.images,
            image_filesystem: told.image_filesystem,
            log_dirs,
            log_links,
            pods,
            pod_dirs,
            pulling,
            image_uses,
            memory,
        }
    }

    /// Adds to each container what only its own status tells. Apart from [`Self::observe`] because it may take a call for
    /// each container: a first plan shows whether the answers can matter at all.
    pub async fn fill_statuses(&self, snapshot: &mut Snapshot, what: StatusFor) {
        self.statuses.fill(&self.reader, snapshot, what).await;
    }

    /// Asks the runtime for everything. One that cannot be reached is asked once: each further call would only wait for
    /// the same answer.
    async fn ask_runtime(&self) -> Told {
        let runtime = match self.reader.runtime().await {
            Err(error) if error.is_unreachable() => return Told::nothing(&error),
            answer => Seen::from(answer),
        };
        let images = self.reader.images().await.into();
        let sandboxes = self.reader.sandboxes(Only::All).await.into();
        let containers = self.reader.containers(Only::All).await.into();
        // Looked at again after the lists: a restart between them may have left one short (I12).
        let listening_since = self.reader.listening_since().await;
        let runtime = runtime.map(|runtime| Runtime { listening_since, ..runtime });
        Told { runtime, images, sandboxes, containers, image_filesystem: self.image_filesystem().await }
    }

    async fn image_filesystem(&self) -> Seen<FileSystem> {
        match self.reader.image_filesystem().await {
            Ok(Some(mountpoint)) => self.disks.measure(&mountpoint).await.into(),
            Ok(None) => Seen::NotSeen(ObserveError::NoImageFilesystem.to_string()),
            Err(error) => Seen::NotSeen(error.to_string()),
        }
    }

    /// Looks at a directory of the host. One that does not exist is empty: so it is on a host without a kubelet.
    async fn look<T, F>(&self, directory: &Path, list: F) -> Seen<T>
    where
        T: Default + Send + 'static,
        F: FnOnce(&Path, &Path) -> Result<T, ObserveError> + Send + 'static,
    {
        let (root, path) = (self.places.host_root.clone(), directory.to_owned());
        let look = move || match rooted::resolve(&root, &path) {
            Ok(rooted::Place::There(at)) => list(&root, &at),
            Ok(rooted::Place::Missing(_)) => Ok(T::default()),
            Err(source) => Err(ObserveError::List { path, source }),
        };
        self.calls.run(directory, look).await.map_err(ObserveError::from).flatten().into()
    }
}

// === impl Told ===

impl Told {
    fn nothing(error: &CriError) -> Self {
        let cause = error.to_string();
        Self {
            runtime: Seen::NotSeen(cause.clone()),
            images: Seen::NotSeen(cause.clone()),
            sandboxes: Seen::NotSeen(cause.clone()),
            containers: Seen::NotSeen(cause.clone()),
            image_filesystem: Seen::NotSeen(cause),
        }
    }
}

/// Names what is being pulled, and says whether that is all.
fn split(pulls: Seen<Vec<String>>) -> (Vec<String>, Seen<()>) {
    match pulls {
        Seen::Seen(images) => (images, Seen::Seen(())),
        Seen::NotSeen(cause) => (Vec::new(), Seen::NotSeen(cause)),
    }
}

#[cfg(test)]
mod tests;
