//! The log files of containers; those that only the archive has, with what it knows of their pods.

use std::collections::BTreeMap;
use std::path::PathBuf;

use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{
    Container, Phase, Pod, PodRef, Snapshot, container_log_dir, is_current_log, log_dir_of, rotated_log,
};

/// The log files of a container that the runtime lists.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct ContainerLogs {
    /// The pod, from the labels of the container.
    pub pod: PodRef,
    /// Name of the container in the pod spec.
    pub container: String,
    /// The regular files that have one name, which is one of the kubelet.
    pub files: Vec<ContainerLog>,
    /// Whether files may be missing: the time was over, the directory has too many, or it cannot be read.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
}

#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct ContainerLog {
    /// Its name, such as `3.log` or `3.log.20260102-150405.gz`.
    pub name: String,
    /// Its bytes on the disk.
    pub size_bytes: u64,
    /// When it was last modified; `null` = unknown.
    pub modified_at: Option<Timestamp>,
}

/// What decides, besides its name, whether a log file may be removed while its pod exists.
#[derive(Clone, Copy, Debug)]
pub struct LogFacts {
    /// Whether the runtime has its instance.
    pub is_listed: bool,
    /// Whether its instance has its current file.
    pub has_current: bool,
    /// Whether the kubelet may be compressing the rotated file.
    pub is_compressing: bool,
    /// Whether a newer instance of its container has a log file.
    pub has_newer: bool,
}

// === impl ContainerLogs ===

impl ContainerLogs {
    /// Returns the directory beneath the pod log root, if the names can be the kubelet's.
    pub fn dir(&self) -> Option<PathBuf> {
        container_log_dir(&self.pod, &self.container)
    }
}

// === impl LogFacts ===

impl LogFacts {
    /// How long ago the last write of a file was, so that no compression of it is in progress. The kubelet needs seconds for its 10 MiB.
    pub const COMPRESSION: SignedDuration = SignedDuration::from_hours(1);

    /// Returns whether a log file of this name may be removed. An instance in the runtime keeps its current file and its only
    /// file. The newest instance keeps its current file: without an instance in the runtime the kubelet counts restarts from the names
    /// (1.36, `calcRestartCountByLogDir`).
    pub fn permit_removal(self, name: &str) -> bool {
        let is_lost = !self.is_listed && self.has_newer;
        match rotated_log(name) {
            Some(_) => !self.is_compressing && (self.has_current || is_lost),
            None => is_current_log(name) && is_lost,
        }
    }
}

/// A log file in the archive that its pod has no more.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct ArchivedLog {
    /// The pod, from the name of its directory.
    pub pod: PodRef,
    /// Name of the container.
    pub container: String,
    /// Its name, such as `3.log` or `3.log.20260102-150405.gz`.
    pub name: String,
    /// Its bytes on the disk.
    pub size_bytes: u64,
    /// When its pod lost it: the last change of the inode. `null` = unknown.
    pub lost_at: Option<Timestamp>,
}

/// What is known of a pod whose log files are in the archive: the document beside them.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct ArchivedPod {
    /// The name of the node.
    #[serde(default)]
    pub node: String,
    /// The pod, as a pass last saw it. Its labels, annotations and owner are known if a rule uses them.
    pub pod: Pod,
    /// The instances of its containers that the runtime had, sorted by name and attempt.
    #[serde(default)]
    pub containers: Vec<ArchivedContainer>,
}

/// What is known of an instance of a container whose log files are in the archive.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct ArchivedContainer {
    /// The name in the pod spec.
    pub name: String,
    /// The kubelet's restart number.
    pub attempt: u32,
    /// The image as named in the pod spec.
    pub image: Option<String>,
    /// When it was created, by the runtime's clock.
    pub created_at: Option<Timestamp>,
    /// When it exited; `null` = it had not when a pass last saw it, or its status was not read.
    pub finished_at: Option<Timestamp>,
    /// The exit code; `null` as above.
    pub exit_code: Option<i32>,
    /// Why it exited, as the runtime says: `Completed`, `Error` or `OOMKilled`.
    pub reason: Option<String>,
}

// === impl ArchivedLog ===

impl ArchivedLog {
    /// Returns its path beneath the archive, if its names can be the kubelet's.
    pub fn path(&self) -> Option<PathBuf> {
        Some(container_log_dir(&self.pod, &self.container)?.join(&self.name))
    }
}

// === impl ArchivedPod ===

impl ArchivedPod {
    /// The name of the document.
    pub const FILE: &str = "pod.json";

    /// Returns what a snapshot shows of each pod that is listed or has containers in the runtime.
    pub fn all(snapshot: &Snapshot) -> Vec<Self> {
        let new = |pod: Pod| Self { node: snapshot.node.clone(), pod, containers: Vec::new() };
        let listed = snapshot.pods.as_ref().into_iter().flat_map(|list| &list.pods);
        let mut found: BTreeMap<_, _> =
            listed.map(|pod| (pod.identity(), new(Pod { images: Vec::new(), ..pod.clone() }))).collect();
        for container in snapshot.listed_containers().into_iter().flatten() {
            let Some(PodRef { uid, namespace, name }) = &container.pod else { continue };
            let pod = || Pod { uid: uid.clone(), namespace: namespace.clone(), name: name.clone(), ..Pod::default() };
            // An uid alone proves nothing (I16).
            found.entry((uid, namespace, name)).or_insert_with(|| new(pod())).containers.push(container.into());
        }
        let mut found: Vec<_> = found.into_values().collect();
        found.iter_mut().for_each(Self::sort);
        found
    }

    fn sort(&mut self) {
        self.containers.sort_by(|a, b| (&a.name, a.attempt).cmp(&(&b.name, b.attempt)));
    }

    /// Returns the name of its directory in the archive, if its names can be the kubelet's.
    pub fn dir(&self) -> Option<String> {
        let Pod { uid, namespace, name, .. } = self.pod.clone();
        log_dir_of(&PodRef { uid, namespace, name })
    }

    /// Adds what was known before: not each pass sees all. `keeps` returns whether an instance that the runtime has no more is of use.
    #[must_use]
    pub fn after(mut self, before: Self, keeps: impl Fn(&ArchivedContainer) -> bool) -> Self {
        if self.pod.phase == Phase::Unknown {
            self.pod.phase = before.pod.phase;
        }
        self.pod.details = self.pod.details.or(before.pod.details);
        for old in before.containers {
            match self.containers.iter_mut().find(|new| (&new.name, new.attempt) == (&old.name, old.attempt)) {
                // Not each pass reads how it ended.
                Some(new) if new.exit_code.is_none() => *new = old,
                None if keeps(&old) => self.containers.push(old),
                Some(_) | None => {}
            }
        }
        self.sort();
        self
    }
}

impl From<&Container> for ArchivedContainer {
    fn from(container: &Container) -> Self {
        let exit_code = container.exit_code;
        Self {
            name: container.name.clone(),
            attempt: container.attempt,
            image: container.image.clone(),
            created_at: Some(container.created_at),
            // Without a status the end is an estimate.
            finished_at: container.finished_at.filter(|_| exit_code.is_some()),
            exit_code,
            reason: container.exit_reason.clone(),
        }
    }
}
