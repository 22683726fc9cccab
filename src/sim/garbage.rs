//! Invalid values for answers: one invalid field per message.
//!
//! The image of a container keeps its name and its tag. A client that reads both can still determine the images in use.

use crate::cri::generated as pb;
use crate::cri::generated::containerd::{containers, content, images, introspection, leases, namespaces, snapshots};

/// Control characters, a bidirectional override, quotes, a path with `..`, and text beyond ASCII.
const ODD: &str = "\u{0}\n\t\u{202e}\"'../../../etc/\u{1f980}%s";
/// The number of characters in an oversized text.
const HUGE: usize = 100_000;
/// A value that no enum of the CRI has.
const UNKNOWN: i32 = 77;
const POD_UID: &str = "io.kubernetes.pod.uid";

/// A message that can have one field with an invalid value.
pub(super) trait Garbage {
    /// Sets one field to an invalid value. `place`, modulo the number of fields, selects the field.
    fn fill_with_garbage(&mut self, place: usize);
}

fn odd() -> String {
    ODD.to_owned()
}

fn huge() -> String {
    "a".repeat(HUGE)
}

// === impl Garbage ===

impl Garbage for pb::Container {
    fn fill_with_garbage(&mut self, place: usize) {
        let metadata = self.metadata.get_or_insert_default();
        match place % 8 {
            0 => self.id = odd(),
            1 => metadata.name = huge(),
            2 => self.created_at = i64::MIN,
            3 => self.created_at = i64::MAX,
            4 => self.state = UNKNOWN,
            5 => drop(self.labels.insert(POD_UID.to_owned(), odd())),
            6 => self.image_ref = odd(),
            _ => self.pod_sandbox_id = odd(),
        }
    }
}

impl Garbage for pb::PodSandbox {
    fn fill_with_garbage(&mut self, place: usize) {
        let metadata = self.metadata.get_or_insert_default();
        match place % 6 {
            0 => self.id = odd(),
            1 => metadata.name = huge(),
            2 => self.created_at = i64::MIN,
            3 => self.created_at = i64::MAX,
            4 => self.state = UNKNOWN,
            _ => metadata.uid = odd(),
        }
    }
}

impl Garbage for pb::Image {
    fn fill_with_garbage(&mut self, place: usize) {
        match place % 4 {
            0 => self.id = odd(),
            1 => self.repo_tags.push(huge()),
            2 => self.repo_digests = vec![odd()],
            _ => self.size = u64::MAX,
        }
    }
}

impl Garbage for pb::ContainerStatus {
    fn fill_with_garbage(&mut self, _: usize) {
        self.created_at = i64::MIN;
        self.started_at = i64::MAX;
        self.finished_at = i64::MIN;
        self.exit_code = i32::MIN;
        self.reason = huge();
        self.log_path = odd();
    }
}

impl Garbage for pb::FilesystemUsage {
    fn fill_with_garbage(&mut self, _: usize) {
        self.timestamp = i64::MIN;
        self.fs_id = Some(pb::FilesystemIdentifier { mountpoint: odd() });
    }
}

impl Garbage for pb::VersionResponse {
    fn fill_with_garbage(&mut self, _: usize) {
        (self.version, self.runtime_name, self.runtime_version) = (odd(), odd(), huge());
    }
}

impl Garbage for pb::StatusResponse {
    fn fill_with_garbage(&mut self, _: usize) {
        self.status = None;
        self.info.insert("config".to_owned(), odd());
    }
}

/// Implements [`Garbage`] for answers without fields, and changes nothing.
macro_rules! no_field {
    ($($message:ty),* $(,)?) => {
        $(impl Garbage for $message {
            fn fill_with_garbage(&mut self, _: usize) {}
        })*
    };
}

no_field!(
    pb::StopPodSandboxResponse,
    pb::RemovePodSandboxResponse,
    pb::StartContainerResponse,
    pb::StopContainerResponse,
    pb::RemoveContainerResponse,
    pb::RemoveImageResponse,
);

impl Garbage for pb::RunPodSandboxResponse {
    fn fill_with_garbage(&mut self, _: usize) {
        self.pod_sandbox_id = odd();
    }
}

impl Garbage for pb::CreateContainerResponse {
    fn fill_with_garbage(&mut self, _: usize) {
        self.container_id = odd();
    }
}

impl Garbage for namespaces::Namespace {
    fn fill_with_garbage(&mut self, _: usize) {
        self.name = odd();
    }
}

impl Garbage for images::Image {
    fn fill_with_garbage(&mut self, place: usize) {
        match place % 3 {
            0 => self.name = odd(),
            1 => self.target = Some(images::Descriptor { digest: huge(), ..images::Descriptor::default() }),
            _ => self.created_at = Some(images::Timestamp { seconds: i64::MIN }),
        }
    }
}

impl Garbage for containers::Container {
    fn fill_with_garbage(&mut self, place: usize) {
        match place % 3 {
            0 => self.image = huge(),
            1 => self.snapshot_key = odd(),
            _ => self.id = odd(),
        }
    }
}

impl Garbage for content::Info {
    fn fill_with_garbage(&mut self, place: usize) {
        match place % 3 {
            0 => self.size = i64::MIN,
            1 => self.size = i64::MAX,
            _ => drop(self.labels.insert("containerd.io/gc.ref.content".to_owned(), self.digest.clone())),
        }
    }
}

impl Garbage for content::Status {
    fn fill_with_garbage(&mut self, _: usize) {
        self.offset = i64::MIN;
    }
}

impl Garbage for snapshots::Info {
    fn fill_with_garbage(&mut self, place: usize) {
        match place % 3 {
            0 => self.kind = UNKNOWN,
            // A circle.
            1 => self.parent.clone_from(&self.name),
            _ => self.parent = huge(),
        }
    }
}

impl Garbage for snapshots::UsageResponse {
    fn fill_with_garbage(&mut self, _: usize) {
        (self.size, self.inodes) = (i64::MIN, i64::MAX);
    }
}

impl Garbage for introspection::PluginsResponse {
    fn fill_with_garbage(&mut self, _: usize) {
        self.plugins.iter_mut().for_each(|plugin| plugin.id = odd());
    }
}

impl Garbage for leases::Lease {
    fn fill_with_garbage(&mut self, _: usize) {
        self.id = huge();
    }
}
