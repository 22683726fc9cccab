//! The parts of a snapshot.

use std::time::Duration;

/// The parts of a snapshot that need calls of their own. Each is left out unless it is wanted.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Needs {
    /// When each exited container finished, from which its age counts. If that is unavailable, the container counts as
    /// finished at the snapshot's time. It finished then at the latest, so it never counts as older than it is.
    pub ends: bool,
    /// The images that each container may have mounted as volumes (I6): all except EXITED ones. If its status fails, the
    /// container records that they are unknown.
    pub image_volumes: bool,
    /// The images to which the names in pods resolve (I6).
    pub image_names: bool,
    /// What the authors of pods wrote, and the labels of the node.
    pub pod_details: bool,
    /// The workloads of the cluster that name an image of the node.
    pub workloads: bool,
    /// What the configuration of each image says.
    pub image_details: bool,
    /// The sizes of the log directories, for display: as many as can be measured in 2 s.
    pub log_sizes: bool,
    /// The logs of instances that the runtime no longer lists.
    pub leftover_logs: bool,
    /// What the kubelet's directories of pods take, measured within this time; `None` = not wanted.
    pub pod_usage: Option<Duration>,
    /// What else is on each disk, measured within this time; `None` = not wanted.
    pub disk_contents: Option<Duration>,
    /// What the store of the runtime holds.
    pub store: bool,
    /// The sizes of the writable layers in that store. The runtime reads all files of a layer for its size, each time.
    pub writable_layers: bool,
}

// === impl Needs ===

impl Needs {
    /// The time for the directories of pods, and for everything else, unless another is wanted.
    pub const WALK: Duration = Duration::from_secs(3);

    /// All parts, except what the authors of pods wrote, because a snapshot may be shown to others, and workloads, which need a
    /// permission of their own.
    pub const ALL: Self = Self {
        ends: true,
        image_volumes: true,
        image_names: true,
        image_details: true,
        pod_details: false,
        workloads: false,
        log_sizes: true,
        leftover_logs: true,
        pod_usage: Some(Self::WALK),
        disk_contents: Some(Self::WALK),
        store: true,
        writable_layers: true,
    };

    /// The whole store of the runtime, if `is_wanted`.
    pub fn account(is_wanted: bool) -> Self {
        Self { store: is_wanted, writable_layers: is_wanted, ..Self::default() }
    }

    /// Returns the parts that one or the other wants.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            ends: self.ends || other.ends,
            image_volumes: self.image_volumes || other.image_volumes,
            image_names: self.image_names || other.image_names,
            image_details: self.image_details || other.image_details,
            workloads: self.workloads || other.workloads,
            pod_details: self.pod_details || other.pod_details,
            log_sizes: self.log_sizes || other.log_sizes,
            leftover_logs: self.leftover_logs || other.leftover_logs,
            pod_usage: self.pod_usage.max(other.pod_usage),
            disk_contents: self.disk_contents.max(other.disk_contents),
            store: self.store || other.store,
            writable_layers: self.writable_layers || other.writable_layers,
        }
    }
}
