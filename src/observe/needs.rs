//! The parts of a snapshot.

use std::collections::BTreeSet;

/// The parts of a snapshot that are wanted.
pub type Needs = BTreeSet<Part>;

/// A part of a snapshot that needs calls of its own. It is left out unless it is wanted.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Part {
    /// When each exited container finished, from which its age counts. If that is unavailable, the container counts as
    /// finished at the snapshot's time. It finished then at the latest, so it never counts as older than it is.
    Ends,
    /// The images that each container may have mounted as volumes (I6): all except EXITED ones. If its status fails, the
    /// container records that they are unknown.
    ImageVolumes,
    /// The images to which the names in pods resolve (I6).
    ImageNames,
    /// What the authors of pods wrote, and the labels of the node.
    PodDetails,
    /// The workloads of the cluster that name an image of the node.
    Workloads,
    /// What the configuration of each image says.
    ImageDetails,
    /// The sizes of the log directories, for display: as many as can be measured in 2 s.
    LogSizes,
    /// The logs of instances that the runtime no longer lists.
    LeftoverLogs,
    /// The log files of the containers that the runtime lists, for `logs.limits`: as many as can be read in 2 s.
    ContainerLogs,
    /// The log files that only the archive has.
    ArchivedLogs,
    /// With the log files of the archive: what is known of their pods.
    ArchivedPods,
    /// What is left over in the kubelet's directory.
    Leftovers,
    /// What the kubelet's directories of pods take: as many as can be measured in 3 s, in half of it beside the next part.
    PodUsage,
    /// What else is on each disk: as much as can be measured in the rest of these 3 s.
    DiskContents,
    /// Both without a limit on the time.
    UnlimitedWalks,
    /// What the store of the runtime holds.
    Store,
    /// The sizes of the writable layers in that store. The runtime reads all files of a layer for its size, each time.
    WritableLayers,
}

// === impl Part ===

impl Part {
    /// All parts, except what the authors of pods wrote, because a snapshot may be shown to others, and workloads, which need a
    /// permission of their own.
    pub const ALL: [Self; 11] = [
        Self::Ends,
        Self::ImageVolumes,
        Self::ImageNames,
        Self::ImageDetails,
        Self::LogSizes,
        Self::LeftoverLogs,
        Self::Leftovers,
        Self::PodUsage,
        Self::DiskContents,
        Self::Store,
        Self::WritableLayers,
    ];

    /// What fills the disks.
    pub const DISKS: [Self; 7] = [
        Self::Store,
        Self::WritableLayers,
        Self::LogSizes,
        Self::ArchivedLogs,
        Self::Leftovers,
        Self::PodUsage,
        Self::DiskContents,
    ];

    /// The whole store of the runtime.
    pub const ACCOUNT: [Self; 2] = [Self::Store, Self::WritableLayers];
}

/// Returns the parts that are wanted.
pub fn wanted<const PARTS: usize>(parts: [(Part, bool); PARTS]) -> Needs {
    parts.into_iter().filter_map(|(part, is_wanted)| is_wanted.then_some(part)).collect()
}
