//! The table of the facts that a condition can use. Conditions, values, observations and the documentation have it from here.

use std::collections::BTreeSet;

/// What the table says of a fact.
#[derive(Debug)]
pub struct FactRow {
    /// Its name, as `image.size_bytes`.
    pub name: &'static str,
    /// Its type in CEL, with the unit.
    pub kind: &'static str,
    /// What must be observed for it.
    pub need: Need,
    pub meaning: &'static str,
    /// An example, in CEL. It shows the type.
    pub example: &'static str,
}

/// What must be observed for a fact.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Need {
    /// What each pass over such objects observes.
    Lists,
    /// The pod, in the list of a pass.
    ListedPod,
    /// What the author of the pod wrote.
    PodDetails,
    /// The labels of the node.
    NodeLabels,
    /// The configuration of the image.
    ImageDetails,
    /// The layers of the image in the store of the runtime.
    ImageLayers,
    /// The workloads of the cluster.
    Workloads,
    /// The status of the container.
    Status,
    /// The size of the writable layer in the store of the runtime.
    WritableLayers,
    /// The sizes of logs.
    LogSizes,
    /// A list of objects of a cluster.
    ClusterList,
}

/// The facts that conditions use.
pub type Uses = BTreeSet<Fact>;

macro_rules! facts {
    ($($fact:ident: $name:literal, $kind:literal, $need:ident, $meaning:literal, $example:literal;)+) => {
        #[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
        pub enum Fact {
            $(#[doc = concat!("`", $name, "`")] $fact,)+
        }

        impl Fact {
            /// All facts, in the order of the table.
            pub const ALL: &[Self] = &[$(Self::$fact,)+];

            /// Returns what the table says of it.
            pub fn row(self) -> &'static FactRow {
                match self {
                    $(Self::$fact => &FactRow {
                        name: $name, kind: $kind, need: Need::$need, meaning: $meaning, example: $example,
                    },)+
                }
            }
        }
    };
}

facts! {
    ImageId: "image.id", "string", Lists, "The id.", "'sha256:5db2c03fbaa9'";
    ImageTags: "image.tags", "list of strings", Lists, "All names with a tag.", "['registry.example.com/team/app:1.2']";
    ImageDigests: "image.digests", "list of strings", Lists, "All names with a digest.", "['registry.example.com/team/app@sha256:0123']";
    ImageRepository: "image.repository", "string", Lists, "The repository of a name, with the registry. Of an image with several, see below.", "'registry.example.com/team/app'";
    ImageRegistry: "image.registry", "string", Lists, "The registry of a name, as above.", "'registry.example.com'";
    ImageSizeBytes: "image.size_bytes", "int, bytes", Lists, "The size that the runtime reports.", "209715200";
    ImageOwnBytes: "image.own_bytes", "int, bytes", ImageLayers, "What only this image holds on the disk; absent if the store of the runtime cannot be read.", "52428800";
    ImageCreated: "image.created", "timestamp", ImageDetails, "When it was built, as its builder wrote it; absent if that is before 1981, as in reproducible builds, or in the future.", "timestamp('2026-10-01T00:00:00Z')";
    ImageLabels: "image.labels", "map of strings", ImageDetails, "The labels that its builder wrote.", "{'maintainer': 'team@example.com'}";
    ImageLayers: "image.layers", "list of strings", ImageDetails, "The digests of its layers (diff ids), the lowest first.", "['sha256:6b24']";
    ImageTagRank: "image.tag_rank", "int", ImageDetails, "1 = the newest of its repository on this node by `image.created`; those without such a time come last; absent if its configuration was not read.", "2";
    ImageWorkloads: "image.workloads", "list of strings", Workloads, "The CronJobs, suspended Jobs, StatefulSets and Deployments that name it; absent without the pod source kube-api.", "['cronjob/shop/report']";
    ImagePinned: "image.pinned", "bool", Lists, "Whether the runtime has pinned it.", "false";
    ImageImported: "image.imported", "bool", Lists, "Whether it has no digest of a registry, so that it cannot be pulled again.", "false";
    ImageFirstSeen: "image.first_seen", "timestamp", Lists, "The first pass that saw it; absent if it was there before all passes.", "timestamp('2026-11-01T00:00:00Z')";
    ImageLastUsed: "image.last_used", "timestamp", Lists, "The last pass that saw it in use; absent if none did.", "timestamp('2026-11-20T00:00:00Z')";
    ImageUnused: "image.unused", "duration", Lists, "The time since the last use or, if there was none, since it was first seen.", "duration('72h')";
    ImageLastUsedBy: "image.last_used_by", "string", Lists, "A container of the last use: namespace/pod/container.", "'shop/web-1/app'";
    ImagePulls: "image.pulls", "int", Lists, "How often a pass found an image of its repository that the pass before did not have; absent if none did.", "3";
    ImagePullSeconds: "image.pull_seconds", "int, seconds", Lists, "How long the last pull of its repository took that a pass saw in progress, too long by at most the time between two passes; absent if none was seen, as without the kubelet's records of pulls.", "40";
    ContainerId: "container.id", "string", Lists, "The id.", "'f019e610bfc5'";
    ContainerName: "container.name", "string", Lists, "The name in the pod spec.", "'app'";
    ContainerImage: "container.image", "string", Lists, "The image as the pod spec names it.", "'registry.example.com/team/app:1.2'";
    ContainerAttempt: "container.attempt", "int", Lists, "The number of the restart.", "2";
    ContainerState: "container.state", "string", Lists, "created, exited or unknown.", "'exited'";
    ContainerCreated: "container.created", "timestamp", Lists, "When it was created.", "timestamp('2026-11-20T00:00:00Z')";
    ContainerAge: "container.age", "duration", Lists, "The time since it was created.", "duration('24h')";
    ContainerExitCode: "container.exit_code", "int", Status, "The exit code; absent if it has not exited or the status cannot be read.", "137";
    ContainerFinished: "container.finished", "timestamp", Status, "When it exited; absent as above.", "timestamp('2026-11-20T01:00:00Z')";
    ContainerLogBytes: "container.log_bytes", "int, bytes", LogSizes, "The size of its log; absent if it cannot be measured in time.", "1048576";
    ContainerLayerBytes: "container.layer_bytes", "int, bytes", WritableLayers, "The size of its writable layer; absent if the store of the runtime cannot be read.", "1048576";
    SandboxId: "sandbox.id", "string", Lists, "The id.", "'a3f1c09d27e4'";
    SandboxAttempt: "sandbox.attempt", "int", Lists, "The number of the sandbox in its pod.", "0";
    SandboxCreated: "sandbox.created", "timestamp", Lists, "When it was created.", "timestamp('2026-11-20T00:00:00Z')";
    SandboxAge: "sandbox.age", "duration", Lists, "The time since it was created.", "duration('24h')";
    LogName: "log.name", "string", Lists, "The name of the log directory.", "'shop_web-1_a6173aaf-ad5f-4f6e-8a43-2f0b6f6f7c11'";
    LogAge: "log.age", "duration", Lists, "The time since the pod is missing in every list of pods, or since it lost the last file that is in the archive.", "duration('6h')";
    LogBytes: "log.bytes", "int, bytes", LogSizes, "The size of its files; absent if it cannot be measured in time.", "1048576";
    CheckpointName: "checkpoint.name", "string", Lists, "The name of the file: `checkpoint-POD_NAMESPACE-CONTAINER-TIME.tar`.", "'checkpoint-web-1_shop-app-2026-11-26T12:00:00Z.tar'";
    CheckpointAge: "checkpoint.age", "duration", Lists, "The time since it was written.", "duration('24h')";
    CheckpointBytes: "checkpoint.bytes", "int, bytes", Lists, "Its size on the disk.", "52428800";
    PodUid: "pod.uid", "string", Lists, "The uid; absent if no kubelet created the object.", "'a6173aaf-ad5f-4f6e-8a43-2f0b6f6f7c11'";
    PodNamespace: "pod.namespace", "string", Lists, "The namespace; absent as above.", "'shop'";
    PodName: "pod.name", "string", Lists, "The name; absent as above.", "'web-1'";
    PodPhase: "pod.phase", "string", ListedPod, "pending, running, succeeded or failed; absent if the pod is in no list.", "'failed'";
    PodDeleting: "pod.deleting", "bool", ListedPod, "Whether its deletion has begun; absent if the pod is in no list.", "false";
    PodLabels: "pod.labels", "map of strings", PodDetails, "The labels; absent if the pod is in no list.", "{'app': 'web'}";
    PodAnnotations: "pod.annotations", "map of strings", PodDetails, "The annotations, without those of `kubectl apply`; absent as above.", "{'team': 'shop'}";
    PodOwnerKind: "pod.owner_kind", "string", PodDetails, "The kind of the owner that controls it; absent if none does.", "'ReplicaSet'";
    PodOwnerName: "pod.owner_name", "string", PodDetails, "The name of that owner.", "'web-6d4cf56db6'";
    ObjectName: "object.name", "string", ClusterList, "The name.", "'nightly-28913'";
    ObjectNamespace: "object.namespace", "string", ClusterList, "The namespace; empty if it has none.", "'shop'";
    ObjectLabels: "object.labels", "map of strings", ClusterList, "The labels.", "{'app': 'web'}";
    ObjectAnnotations: "object.annotations", "map of strings", ClusterList, "The annotations, without those of `kubectl apply`.", "{'team': 'shop'}";
    ObjectCreated: "object.created", "timestamp", ClusterList, "When it was created.", "timestamp('2026-11-20T00:00:00Z')";
    ObjectAge: "object.age", "duration", ClusterList, "The time since it was created.", "duration('24h')";
    ObjectOwnerKind: "object.owner_kind", "string", ClusterList, "The kind of the owner that controls it; absent if none does.", "'CronJob'";
    ObjectOwnerName: "object.owner_name", "string", ClusterList, "The name of that owner.", "'nightly'";
    NodeName: "node.name", "string", Lists, "The name of the node.", "'node-1'";
    NodeLabels: "node.labels", "map of strings", NodeLabels, "The labels of the node; absent without the pod source kube-api.", "{'pool': 'build'}";
    DiskUsedPercent: "disk.used_percent", "int, percent", Lists, "The used space of the image disk, rounded up.", "91";
    DiskFreeBytes: "disk.free_bytes", "int, bytes", Lists, "The free space of the image disk.", "10737418240";
    DiskFreeInodes: "disk.free_inodes", "int", Lists, "The free inodes of the image disk; absent if it does not count them.", "100000";
    Now: "now", "timestamp", Lists, "The time of the pass.", "timestamp('2026-11-26T12:00:00Z')";
}

// === impl Fact ===

impl Fact {
    /// Returns the facts of an object, each with its field.
    pub(super) fn of(object: &str) -> impl Iterator<Item = (Self, &'static str)> {
        Self::ALL.iter().filter_map(move |fact| Some((*fact, fact.row().name.strip_prefix(object)?.strip_prefix('.')?)))
    }

    /// Returns the fact that is this field of an object.
    pub(super) fn find(object: &str, field: &str) -> Option<Self> {
        Self::of(object).find(|(_, known)| *known == field).map(|(fact, _)| fact)
    }

    /// Returns whether only the pod itself has it. A rule for logs decides when the pod is deleted.
    pub fn is_of_pod(self) -> bool {
        matches!(self.row().need, Need::ListedPod | Need::PodDetails)
    }
}
