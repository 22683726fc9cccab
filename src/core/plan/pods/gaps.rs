//! What incomplete lists of the runtime leave undecided (I2, I3).
//!
//! A list that was received in parts may lack some of them (`Snapshot::partial`). A pass keeps everything that depends
//! on a missing part. For example, the newest instance of a container slot is known only if all its instances are
//! listed. Everything else is decided as usual, so that the removals make the list fit into one message again.

use std::collections::HashSet;

use crate::model::{ListReceipt, PodUid, Snapshot};

/// The pods whose objects may be missing, for each list.
pub(in crate::plan) struct Gaps<'a> {
    containers: Missing<'a>,
    sandboxes: Missing<'a>,
}

/// The pods whose objects may be missing in one list.
#[derive(Default)]
struct Missing<'a> {
    pods: HashSet<&'a PodUid>,
    /// Objects without a pod may be missing.
    without_pod: bool,
    /// Objects of any pod that is not in this set may be missing; `None` = there is no such gap.
    all_but: Option<HashSet<&'a PodUid>>,
}

// === impl Gaps ===

impl<'a> Gaps<'a> {
    pub fn new(snapshot: &'a Snapshot) -> Self {
        let sizes = &snapshot.list_bytes;
        // If one sandbox of a pod is listed, all sandboxes of that pod are listed (`cri/parts.rs`).
        let with_sandbox = || {
            let sandboxes = snapshot.listed_sandboxes().unwrap_or_default();
            sandboxes.iter().filter_map(|sandbox| sandbox.pod_uid()).collect()
        };
        Self {
            containers: Missing::new(sizes.containers.as_ref(), with_sandbox),
            sandboxes: Missing::new(sizes.sandboxes.as_ref(), with_sandbox),
        }
    }

    /// Returns whether containers of a pod may be missing.
    pub fn may_miss_containers(&self, pod: Option<&PodUid>) -> bool {
        self.containers.may_include(pod)
    }

    /// Returns whether sandboxes of a pod, or containers in them, may be missing.
    pub fn may_miss_sandboxes(&self, pod: Option<&PodUid>) -> bool {
        self.sandboxes.may_include(pod) || self.containers.may_include(pod)
    }
}

// === impl Missing ===

impl<'a> Missing<'a> {
    fn new(receipt: Option<&'a ListReceipt>, with_sandbox: impl FnOnce() -> HashSet<&'a PodUid>) -> Self {
        let missing = receipt.map_or(&[][..], |receipt| &receipt.missing);
        let is_unnamed = |(of_sandbox, of_pod): (bool, bool)| {
            missing.iter().any(|part| part.sandbox_id.is_some() == of_sandbox && part.pod.is_some() == of_pod)
        };
        Self {
            pods: missing.iter().filter_map(|part| Some(&part.pod.as_ref()?.uid)).collect(),
            without_pod: is_unnamed((true, false)),
            all_but: is_unnamed((false, false)).then(with_sandbox),
        }
    }

    fn may_include(&self, pod: Option<&PodUid>) -> bool {
        match pod {
            None => self.without_pod || self.all_but.is_some(),
            Some(uid) => self.pods.contains(uid) || self.all_but.as_ref().is_some_and(|pods| !pods.contains(uid)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::model::Snapshot;
    use crate::plan::decide;
    use crate::plan::policy::guards::Profile;
    use crate::plan::policy::{Policy, Scope};
    use crate::plan::tests::node::{removed, why_kept};

    /// Three exited instances of one container in the sandbox `s-UID`, one hour old, oldest first.
    fn dead(uid: &str) -> Vec<Value> {
        let instance = |minute: u8| {
            json!({
                "id": format!("{uid}-{minute}"), "sandbox_id": format!("s-{uid}"), "pod": { "uid": uid },
                "name": "app", "state": "exited", "created_at": format!("2026-11-21T11:0{minute}:00Z"),
            })
        };
        (0..3).map(instance).collect()
    }

    fn sandbox(uid: &str) -> Value {
        json!({ "id": format!("s-{uid}"), "pod": { "uid": uid }, "state": "not_ready", "created_at": "2026-11-21T10:00:00Z" })
    }

    /// A node with two pods: `a` exists, `b` was deleted. `missing` lists the missing parts of the container list.
    fn node(missing: &Value) -> Snapshot {
        let containers = [dead("a"), dead("b")].concat();
        serde_json::from_value(json!({
            "taken_at": "2026-11-21T12:00:00Z",
            "runtime": { "seen": { "name": "test" } },
            "containers": { "not_seen": "ListContainers: too large" },
            "sandboxes": { "seen": [sandbox("a"), sandbox("b")] },
            "images": { "seen": [{ "id": "sha256:aa", "tags": ["a:1"] }] },
            "log_dirs": { "seen": [] }, "log_links": { "seen": [] },
            "pods": { "seen": { "source": "kube-api", "complete": true, "pods": [{ "uid": "a", "phase": "running" }] } },
            "partial": { "containers": containers },
            "list_bytes": { "containers": { "bytes": 2000, "parts": 5, "refused": "too large", "missing": missing } },
            "memory": { "absent_since": [{ "uid": "b", "since": "2026-11-21T11:50:00Z" }] },
        }))
        .unwrap()
    }

    fn all_unused() -> Policy {
        let mut policy = Policy::default();
        policy.images.all_unused = true;
        policy
    }

    #[test]
    fn a_slot_is_decided_only_if_fully_listed() {
        let of = |uid: &str| json!([{ "state": "exited", "sandbox_id": format!("s-{uid}"), "pod": { "uid": uid } }]);
        let plan = decide(&node(&of("b")), &Policy::default(), Scope::Containers);
        assert_eq!(removed(&plan), ["a-0", "a-1"]);
        assert_eq!(why_kept(&plan, "b-0"), "list_incomplete");
        assert_eq!(why_kept(&plan, "s-b"), "list_incomplete", "it may have containers that are not listed");
        let plan = decide(&node(&of("a")), &Policy::default(), Scope::Containers);
        assert_eq!(removed(&plan), ["b-0", "b-1", "b-2", "s-b"]);
        assert_eq!(why_kept(&plan, "a-0"), "list_incomplete");
    }

    #[test]
    fn pods_of_listed_sandboxes_are_decided_despite_gaps() {
        let mut node = node(&json!([{ "state": "exited" }]));
        let crate::model::Seen::Seen(sandboxes) = &mut node.sandboxes else { unreachable!() };
        sandboxes.retain(|sandbox| sandbox.id.as_str() == "s-a");
        let plan = decide(&node, &Policy::default(), Scope::Containers);
        assert_eq!(removed(&plan), ["a-0", "a-1"]);
        assert_eq!(why_kept(&plan, "b-0"), "list_incomplete");
    }

    #[test]
    fn containers_without_a_pod_need_a_complete_list() {
        let kubelet = Policy { guards: crate::plan::policy::guards::Guards::of(Profile::Kubelet), ..Policy::default() };
        for (missing, expected) in [
            (json!([{ "state": "exited", "sandbox_id": "s-x" }]), "list_incomplete"),
            (json!([{ "state": "exited" }]), "list_incomplete"),
            (json!([{ "state": "exited", "sandbox_id": "s-a", "pod": { "uid": "a" } }]), "removed"),
        ] {
            let mut node = node(&missing);
            let own = json!({ "id": "own", "name": "app", "state": "exited", "created_at": "2026-11-21T11:00:00Z" });
            node.partial.containers.as_mut().unwrap().push(serde_json::from_value(own).unwrap());
            assert_eq!(why_kept(&decide(&node, &kubelet, Scope::Containers), "own"), expected, "{missing}");
        }
    }

    #[test]
    fn a_gap_in_running_containers_proves_no_pod_deleted() {
        let missing = json!([{ "state": "running", "sandbox_id": "s-c", "pod": { "uid": "c" } }]);
        for profile in [Profile::Safe, Profile::Kubelet] {
            let policy =
                Policy { profile, guards: crate::plan::policy::guards::Guards::of(profile), ..Policy::default() };
            let plan = decide(&node(&missing), &policy, Scope::Containers);
            assert_eq!(removed(&plan), ["a-0", "a-1", "b-0", "b-1"], "the limits of complete slots hold: {profile}");
            assert_ne!(why_kept(&plan, "b-2"), "removed");
        }
    }

    #[test]
    fn a_gap_proves_no_image_unused() {
        let of_b = json!([{ "state": "exited", "sandbox_id": "s-b", "pod": { "uid": "b" } }]);
        let plan = decide(&node(&of_b), &all_unused(), Scope::All);
        assert_eq!(why_kept(&plan, "sha256:aa"), "step_failed");
        assert_eq!(plan.errors[0].to_string(), "containers unavailable: ListContainers: too large");
        let note = &plan.lists[0];
        assert_eq!((note.list.as_str(), note.parts, note.complete), ("containers", 5, false));
    }

    #[test]
    fn a_much_shorter_partial_list_proves_nothing() {
        let of_c = json!([{ "state": "exited", "sandbox_id": "s-c", "pod": { "uid": "c" } }]);
        let mut node = node(&of_c);
        node.memory.last_counts = Some(crate::model::ListCounts { containers: 100, sandboxes: 2, images: 0 });
        let plan = decide(&node, &Policy::default(), Scope::Containers);
        assert_eq!(removed(&plan), ["a-0", "a-1", "b-0", "b-1"]);
        assert_eq!(why_kept(&plan, "s-b"), "has_containers");
    }

    #[test]
    fn memory_counts_absence_of_pods_in_partial_lists() {
        for (state, missing_pods) in [("exited", &["b"][..]), ("running", &[])] {
            let mut node = node(&json!([{ "state": state, "sandbox_id": "s-a", "pod": { "uid": "a" } }]));
            node.memory.absent_since = [].into();
            node.sandboxes = crate::model::Seen::Seen(Vec::new());
            let memory = crate::plan::update_memory(&node, &Policy::default());
            let absent: Vec<_> = memory.absent_since.iter().map(|absence| absence.uid.as_str()).collect();
            assert_eq!(absent, missing_pods, "a container that is {state} may be missing");
        }
    }
}
