//! The pods that should be on the node, and who says so.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Container, ContainerState, PodRef, PodUid, Sandbox, SandboxState};

/// The pods of this node, from one source or several together.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct PodList {
    /// Where it comes from, as `kube-api` or `runtime`.
    pub source: String,
    /// Says that no pod is missing. Without it nothing counts as deleted (I2).
    #[serde(default)]
    pub complete: bool,
    /// The pods.
    #[serde(default)]
    pub pods: Vec<Pod>,
    /// What the source needs to confirm right before a removal that a pod is deleted (I11).
    #[serde(default, skip_serializing_if = "Confirms::is_by_uid")]
    pub confirms: Confirms,
    /// What each source in use said. Together they are as complete as the least complete of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<PodSourceReport>,
}

/// What a pod source needs to confirm that a pod is deleted.
#[derive(Clone, Copy, Debug, Default, Eq, JsonSchema, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Confirms {
    /// The uid is enough, or the source has no live lookup.
    #[default]
    ByUid,
    /// The API server looks a pod up by namespace and name.
    ByName,
}

/// What one source of pods said.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct PodSourceReport {
    /// Its name, as `kube-api`.
    pub name: String,
    /// Why it is in use, for people: it was set, or what `auto` found.
    #[serde(default)]
    pub chosen_by: String,
    /// How many pods it named.
    #[serde(default)]
    pub pods: u64,
    /// The moment that its answer stands for; `null` = it never answered.
    #[serde(default)]
    pub as_of: Option<Timestamp>,
    /// Why pods may be missing in its answer, for people; `null` = none is.
    #[serde(default)]
    pub missing: Option<String>,
}

/// A pod that should be here, or that is still being torn down.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct Pod {
    /// The uid that the CRI shows for it.
    pub uid: PodUid,
    /// Its namespace.
    #[serde(default)]
    pub namespace: String,
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// How far it is.
    #[serde(default)]
    pub phase: Phase,
    /// It has a deletion timestamp: it is being torn down, perhaps still running.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deleting: bool,
    /// Every image that its spec names, containers of all kinds and image volumes (I6).
    #[serde(default)]
    pub images: Vec<String>,
}

/// A pod's phase, `status.phase`.
#[derive(Clone, Copy, Debug, Default, Eq, JsonSchema, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Bound, not all started.
    Pending,
    /// At least one container runs or will run again.
    Running,
    /// All containers ended well and none runs again: terminal.
    Succeeded,
    /// All containers ended, one of them badly: terminal.
    Failed,
    /// The source does not tell.
    #[default]
    Unknown,
}

// === impl Confirms ===

impl Confirms {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_by_uid(&self) -> bool {
        *self == Self::ByUid
    }

    /// What two sources need that both have to confirm.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        if self == Self::ByName { self } else { other }
    }

    /// Says whether a source can look this pod up.
    pub fn can_look_up(self, pod: &PodRef) -> bool {
        match self {
            Self::ByUid => true,
            Self::ByName => !pod.uid.is_empty() && is_object_name(&pod.namespace) && is_object_name(&pod.name),
        }
    }
}

/// Says whether the API server accepts this as a name: in a path, and in a selector.
pub fn is_object_name(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.';
    !text.is_empty() && text.len() <= 253 && !text.starts_with('.') && text.bytes().all(allowed)
}

// === impl Phase ===

impl Phase {
    /// Says whether the pod finished but still exists: what the kubelet calls terminated.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

/// The pods of RUNNING containers and of READY sandboxes, each as often as it has some.
pub fn running_pods<'a>(containers: &'a [Container], sandboxes: &'a [Sandbox]) -> impl Iterator<Item = &'a PodRef> {
    let running = containers.iter().filter(|container| container.state == ContainerState::Running);
    let ready = sandboxes.iter().filter(|sandbox| sandbox.state == SandboxState::Ready);
    let of_containers = running.filter_map(|container| container.pod.as_ref());
    of_containers.chain(ready.filter_map(|sandbox| sandbox.pod.as_ref()))
}
