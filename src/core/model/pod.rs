//! The pods of the node, and the pod sources that report them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr, VariantNames};

use super::{Container, ContainerState, PodRef, PodUid, Sandbox, SandboxState};

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum PodSourceName {
    /// Every source that is found.
    #[default]
    Auto,
    /// No source: no pod ever counts as deleted.
    None,
    /// The API server, by watch.
    KubeApi,
    /// The kubelet, by request.
    Kubelet,
    /// The runtime: a pod without running containers and without a ready sandbox counts as deleted. For hosts without a
    /// kubelet.
    Runtime,
}

// === impl PodSourceName ===

impl PodSourceName {
    /// Returns whether it is one of the sources that a name such as `kube-api+kubelet` has.
    pub fn is_in(self, sources: &str) -> bool {
        sources.split('+').any(|source| source == <&str>::from(self))
    }

    /// Returns whether a pod of which only the uid is known may be a static pod that these sources do not show. The API server has a
    /// static pod only as a mirror pod, which the kubelet creates later, or never if its namespace does not exist.
    pub fn may_hide(sources: &str, uid: &PodUid) -> bool {
        Self::KubeApi.is_in(sources) && !Self::Kubelet.is_in(sources) && !uid.is_uuid()
    }
}

/// The pods of this node, from one pod source or several.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct PodList {
    /// The pod source, as `kube-api` or `runtime`.
    pub source: String,
    /// Whether the list contains every pod. If not, no pod counts as deleted (I2).
    #[serde(default)]
    pub complete: bool,
    #[serde(default)]
    pub pods: Vec<Pod>,
    /// What the source needs to confirm right before a removal that a pod is deleted (I11).
    #[serde(default, skip_serializing_if = "Confirms::is_by_uid")]
    pub confirms: Confirms,
    /// A report for each pod source in use. The whole list is complete only if every source is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<PodSourceReport>,
    /// The labels of the Node object; `null` = the source does not report them, or no rule uses them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_labels: Option<BTreeMap<String, String>>,
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

#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct PodSourceReport {
    /// Name of the source, as `kube-api`.
    pub name: String,
    /// Why the source is in use, as text: set by the user, or chosen by `auto`.
    #[serde(default)]
    pub chosen_by: String,
    /// Number of pods in its list.
    #[serde(default)]
    pub pods: u64,
    /// The time of its list; `null` = it was never available.
    pub as_of: Option<Timestamp>,
    /// Why the list may lack pods, as text; `null` = it is complete.
    pub missing: Option<String>,
}

/// A pod of this node, including a pod that is being deleted.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct Pod {
    /// The pod's uid in the CRI.
    pub uid: PodUid,
    /// The pod's namespace.
    #[serde(default)]
    pub namespace: String,
    /// The pod's name.
    #[serde(default)]
    pub name: String,
    /// The pod's phase.
    #[serde(default)]
    pub phase: Phase,
    /// Whether the pod has a deletion timestamp. It may still be running.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deleting: bool,
    /// Every image in the pod's spec: containers of all kinds and image volumes (I6).
    #[serde(default)]
    pub images: Vec<String>,
    /// What its author wrote; `null` = the source does not report it, or no rule uses it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Box<PodDetails>>,
}

// === impl Pod ===

impl Pod {
    /// Returns what identifies the pod: uid, namespace and name.
    pub fn identity(&self) -> (&PodUid, &str, &str) {
        (&self.uid, &self.namespace, &self.name)
    }

    /// Returns whether an object of the runtime is of this pod: uid, namespace and name agree (I16). The uid alone proves
    /// nothing: a user who may create pods can write the uid of any pod into the annotation `kubernetes.io/config.hash`.
    pub fn is(&self, pod: &PodRef) -> bool {
        self.uid == pod.uid && self.is_named(&pod.namespace, &pod.name)
    }

    /// Returns whether this is the pod of a name. A source that has no names names any pod.
    pub fn is_named(&self, namespace: &str, name: &str) -> bool {
        self.name.is_empty() || (self.namespace == namespace && self.name == name)
    }
}

/// What the author of a pod wrote.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct PodDetails {
    /// The labels; `null` = too many.
    pub labels: Option<BTreeMap<String, String>>,
    /// The annotations, without those of `kubectl apply`; `null` = too many.
    pub annotations: Option<BTreeMap<String, String>>,
    /// The kind of the owner that controls it, as `ReplicaSet`; `null` = none does.
    pub owner_kind: Option<String>,
    pub owner_name: Option<String>,
}

/// A pod's phase, `status.phase`.
#[derive(Clone, Copy, Debug, Default, Eq, IntoStaticStr, JsonSchema, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Phase {
    /// Bound to the node, but not all containers have started.
    Pending,
    /// At least one container is running or restarting.
    Running,
    /// All containers exited with success, and none restarts.
    Succeeded,
    /// All containers exited, at least one with a failure.
    Failed,
    /// The source does not report a phase.
    #[default]
    Unknown,
}

// === impl Confirms ===

impl Confirms {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_by_uid(&self) -> bool {
        *self == Self::ByUid
    }

    /// Combines the needs of two sources that both have to confirm.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        if self == Self::ByName { self } else { other }
    }

    /// Returns whether a source can look up this pod.
    pub fn can_look_up(self, pod: &PodRef) -> bool {
        match self {
            Self::ByUid => true,
            Self::ByName => !pod.uid.is_empty() && is_object_name(&pod.namespace) && is_object_name(&pod.name),
        }
    }
}

/// Returns whether the API server accepts this as a name, in a path and in a selector.
pub fn is_object_name(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.';
    !text.is_empty() && text.len() <= 253 && !text.starts_with('.') && text.bytes().all(allowed)
}

// === impl Phase ===

impl Phase {
    /// Returns whether the pod is terminated: in phase Succeeded or Failed. It still exists.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

/// Lists the pods of RUNNING containers and READY sandboxes. A pod appears once for each of them.
pub fn running_pods<'a>(containers: &'a [Container], sandboxes: &'a [Sandbox]) -> impl Iterator<Item = &'a PodRef> {
    let running = containers.iter().filter(|container| container.state == ContainerState::Running);
    let ready = sandboxes.iter().filter(|sandbox| sandbox.state == SandboxState::Ready);
    let of_containers = running.filter_map(|container| container.pod.as_ref());
    of_containers.chain(ready.filter_map(|sandbox| sandbox.pod.as_ref()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(uid: &str, namespace: &str, name: &str) -> PodRef {
        PodRef { uid: uid.into(), namespace: namespace.into(), name: name.into() }
    }

    #[test]
    fn a_lookup_by_name_needs_uid_and_valid_names() {
        let long = ["x".repeat(253), "x".repeat(254)];
        let rows = [
            (pod("u", "default", "web-0.a"), true),
            (pod("", "default", "web"), false),
            (pod("u", "", "web"), false),
            (pod("u", "default", ""), false),
            (pod("u", "default", "Web"), false),
            (pod("u", "default", "web/log"), false),
            (pod("u", "..", "web"), false),
            (pod("u", "default", &long[0]), true),
            (pod("u", "default", &long[1]), false),
        ];
        for (pod, by_name) in rows {
            let can = [Confirms::ByName, Confirms::ByUid].map(|confirms| confirms.can_look_up(&pod));
            assert_eq!(can, [by_name, true], "{pod:?}");
        }
    }

    #[test]
    fn two_sources_need_a_name_if_either_does() {
        use Confirms::{ByName, ByUid};
        for (one, other, both) in
            [(ByUid, ByUid, ByUid), (ByUid, ByName, ByName), (ByName, ByUid, ByName), (ByName, ByName, ByName)]
        {
            assert_eq!(one.and(other), both, "{one:?} and {other:?}");
        }
    }

    #[test]
    fn a_list_says_only_if_its_source_needs_names() {
        let confirms = |confirms| json!(PodList { confirms, ..PodList::default() }).get("confirms").cloned();
        assert_eq!((confirms(Confirms::ByUid), confirms(Confirms::ByName)), (None, Some(json!("by_name"))));
    }

    #[test]
    fn a_pod_in_phase_succeeded_or_failed_is_terminated() {
        let phases = [Phase::Pending, Phase::Running, Phase::Succeeded, Phase::Failed, Phase::Unknown];
        assert_eq!(phases.map(Phase::is_terminal), [false, false, true, true, false]);
    }

    #[test]
    fn pods_run_by_their_running_containers_and_ready_sandboxes() {
        let container = |id: &str, state: &str| -> Container {
            let created_at = "2026-11-21T12:00:00Z";
            let pod = json!({ "uid": id });
            serde_json::from_value(json!({ "id": id, "pod": pod, "state": state, "created_at": created_at })).unwrap()
        };
        let sandbox = |id: &str, state: &str| -> Sandbox {
            let created_at = "2026-11-21T12:00:00Z";
            let pod = json!({ "uid": id });
            serde_json::from_value(json!({ "id": id, "pod": pod, "state": state, "created_at": created_at })).unwrap()
        };
        let containers = [container("a", "running"), container("b", "exited"), container("c", "unknown")];
        let sandboxes = [sandbox("d", "ready"), sandbox("e", "not_ready")];
        let uids: Vec<_> = running_pods(&containers, &sandboxes).map(|pod| pod.uid.as_str()).collect();
        assert_eq!(uids, ["a", "d"]);
    }
}
