//! Builds the nodes of the table tests, and compares a table with the plans. Ages are in minutes.

use std::fmt::Write as _;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::model::{
    Absence, CRI_NAMESPACE, Container, ContainerLog, ContainerLogs, ContainerState, Failure, FileSystem, HolderKind,
    Image, ImageMemory, Leftover, LeftoverKind, LeftoverLog, LinkTarget, LogDir, LogLink, PathUsage, Phase, Pod,
    PodList, PodRef, RuntimeStore, Sandbox, SandboxState, Seen, Snapshot, StoreHolder, StorePart,
};
use crate::plan::decide;
use crate::plan::document::Plan;
use crate::plan::document::action::Kind;
use crate::plan::policy::guards::{Guards, Profile};
use crate::plan::policy::{Leftovers, Policy, Scope};

/// Bytes in a MiB.
pub(in crate::plan) const MIB: u64 = 1 << 20;

/// One row: a sentence, the node, what remains and why, and what is removed and why. Objects that remain are sorted by
/// ID, and removed ones are in order. Neighbors with the same reason are a group: `a b: pinned, c: in_use`.
pub(in crate::plan) type Row = (&'static str, Node, &'static str, &'static str);

/// A node and its policy. It begins without objects, with a complete list of pods and with all guards.
#[derive(Clone)]
pub(in crate::plan) struct Node {
    snapshot: Box<Snapshot>,
    policy: Box<Policy>,
}

/// Compares what each row says about the objects of these kinds with its plan. Reports every wrong row.
pub(in crate::plan) fn hold<const ROWS: usize>(kinds: &[Kind], rows: [Row; ROWS]) {
    let mut wrong = String::new();
    for (sentence, node, remaining, removed) in rows {
        let plan = node.plan();
        let kept = plan.kept.iter().filter(|kept| kinds.contains(&kept.kind));
        let kept = list(kept.map(|kept| (kept.id.clone(), kept.reason.kind())));
        let actions = plan.actions.iter().filter(|action| kinds.contains(&action.target.kind()));
        let actions = list(actions.map(|action| (action.target.id(), action.reason.kind())));
        if (kept.as_str(), actions.as_str()) != (remaining, removed) {
            let _ = writeln!(wrong, "{sentence}\n  remains {kept:?}\n  removed {actions:?}");
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

/// Returns the names of the objects, each group with its reason.
fn list(objects: impl Iterator<Item = (String, &'static str)>) -> String {
    let mut groups: Vec<(String, &str)> = Vec::new();
    for (id, reason) in objects {
        let name = id.rsplit('/').next().unwrap_or_default();
        match groups.last_mut() {
            Some((names, last)) if *last == reason => names.extend([" ", name]),
            _ => groups.push((name.to_owned(), reason)),
        }
    }
    groups.iter().map(|(names, reason)| format!("{names}: {reason}")).collect::<Vec<_>>().join(", ")
}

/// Returns the IDs of what a plan removes, in order.
pub(in crate::plan) fn removed(plan: &Plan) -> Vec<String> {
    plan.actions.iter().map(|action| action.target.id()).collect()
}

/// Returns the reason why a plan keeps an object.
pub(in crate::plan) fn why_kept<'a>(plan: &'a Plan, id: &str) -> &'a str {
    plan.kept.iter().find(|kept| kept.id == id).map_or("removed", |kept| kept.reason.kind())
}

pub(in crate::plan) fn now() -> Timestamp {
    "2026-11-21T12:00:00Z".parse().unwrap()
}

/// Returns the time so many minutes ago.
pub(in crate::plan) fn ago(minutes: i64) -> Timestamp {
    now() - SignedDuration::from_mins(minutes)
}

fn pod_ref(uid: &str) -> Option<PodRef> {
    (!uid.is_empty()).then(|| PodRef { uid: uid.into(), namespace: "default".into(), name: uid.into() })
}

/// Returns the list of an observation, which a row has not made unavailable.
fn seen<T: Default>(list: &mut Seen<T>) -> &mut T {
    if list.is_not_read() {
        *list = Seen::Seen(T::default());
    }
    match list {
        Seen::Seen(list) => list,
        other => panic!("{:?}", other.cause()),
    }
}

pub(in crate::plan) fn node() -> Node {
    let mut snapshot: Snapshot = serde_json::from_value(json!({ "taken_at": now() })).unwrap();
    (snapshot.containers, snapshot.sandboxes) = (Seen::Seen(Vec::new()), Seen::Seen(Vec::new()));
    (snapshot.log_dirs, snapshot.log_links) = (Seen::Seen(Vec::new()), Seen::Seen(Vec::new()));
    snapshot.images = Seen::Seen(Vec::new());
    snapshot.pods = Seen::Seen(PodList { source: "test".into(), complete: true, ..PodList::default() });
    Node { snapshot: Box::new(snapshot), policy: Box::default() }.disk(500)
}

// === impl Node ===

impl Node {
    pub fn snapshot(self) -> Snapshot {
        *self.snapshot
    }

    pub fn plan(&self) -> Plan {
        decide(&self.snapshot, &self.policy, Scope::All)
    }

    pub fn but(mut self, change: impl FnOnce(&mut Snapshot)) -> Self {
        change(&mut self.snapshot);
        self
    }

    pub fn set(mut self, change: impl FnOnce(&mut Policy)) -> Self {
        change(&mut self.policy);
        self
    }

    /// Disables all guards.
    pub fn kubelet(self) -> Self {
        self.set(|policy| {
            (policy.profile, policy.guards) = (Profile::Kubelet, Guards::of(Profile::Kubelet));
            policy.leftovers = Leftovers::of(Profile::Kubelet);
        })
    }

    /// Evicts terminated pods.
    pub fn evicting(self) -> Self {
        self.set(|policy| policy.containers.evict_terminated_pods = true)
    }

    // --- pods ---

    /// Adds a running pod to the list.
    pub fn pod(self, uid: &str) -> Self {
        self.pod_in(Phase::Running, uid)
    }

    pub fn pod_in(mut self, phase: Phase, uid: &str) -> Self {
        let PodRef { uid, namespace, name } = pod_ref(uid).unwrap();
        seen(&mut self.snapshot.pods).pods.push(Pod { uid, namespace, name, phase, ..Pod::default() });
        self
    }

    /// Proves that a pod is deleted: it is missing for an hour.
    pub fn deleted(mut self, uid: &str) -> Self {
        let absent = Absence { uid: uid.into(), since: ago(60) };
        self.snapshot.memory.absent_since = self.snapshot.memory.absent_since.iter().cloned().chain([absent]).collect();
        self
    }

    /// Removes all pods from the list.
    pub fn without_pods(mut self) -> Self {
        seen(&mut self.snapshot.pods).pods.clear();
        self
    }

    /// Makes the list of pods incomplete.
    pub fn incomplete(mut self) -> Self {
        seen(&mut self.snapshot.pods).complete = false;
        self
    }

    pub fn without_pod_list(self) -> Self {
        self.but(|snapshot| snapshot.pods = Seen::NotSeen("no answer".to_owned()))
    }

    // --- the runtime ---

    /// Adds a container of a slot `POD/NAME`, in the sandbox `s-POD`.
    fn container(mut self, state: ContainerState, slot: &str, id: &str, age: i64) -> Self {
        let (pod, name) = slot.split_once('/').unwrap();
        let container: Container = serde_json::from_value(json!({
            "id": id, "sandbox_id": format!("s-{pod}"), "pod": pod_ref(pod), "name": name, "state": state,
            "created_at": ago(age),
        }))
        .unwrap();
        seen(&mut self.snapshot.containers).push(container);
        self
    }

    pub fn exited(self, slot: &str, id: &str, age: i64) -> Self {
        self.container(ContainerState::Exited, slot, id, age)
    }

    pub fn created(self, slot: &str, id: &str, age: i64) -> Self {
        self.container(ContainerState::Created, slot, id, age)
    }

    pub fn running(self, slot: &str, id: &str, age: i64) -> Self {
        self.container(ContainerState::Running, slot, id, age)
    }

    pub fn unknown(self, slot: &str, id: &str, age: i64) -> Self {
        self.container(ContainerState::Unknown, slot, id, age)
    }

    /// Changes the container that was added last.
    pub fn whose(mut self, change: impl FnOnce(&mut Container)) -> Self {
        change(seen(&mut self.snapshot.containers).last_mut().unwrap());
        self
    }

    fn add_sandbox(mut self, state: SandboxState, pod: &str, id: &str, age: i64) -> Self {
        let (pod, created_at) = (pod_ref(pod), ago(age));
        let sandbox = Sandbox { id: id.into(), pod, attempt: 0, state, created_at, is_static: false };
        seen(&mut self.snapshot.sandboxes).push(sandbox);
        self
    }

    /// Adds a dead sandbox.
    pub fn sandbox(self, pod: &str, id: &str, age: i64) -> Self {
        self.add_sandbox(SandboxState::NotReady, pod, id, age)
    }

    pub fn ready(self, pod: &str, id: &str, age: i64) -> Self {
        self.add_sandbox(SandboxState::Ready, pod, id, age)
    }

    /// Records a failed removal that is retried in so many minutes.
    pub fn failed(mut self, object: &str, retry_in: i64) -> Self {
        let failure = Failure { count: 1, retry_at: ago(-retry_in), error: "busy".to_owned() };
        self.snapshot.memory.failures.insert(object.to_owned(), failure);
        self
    }

    // --- logs ---

    pub fn dir(mut self, name: &str) -> Self {
        seen(&mut self.snapshot.log_dirs).push(LogDir { name: name.into(), ..LogDir::default() });
        self
    }

    /// Adds the log of an instance of the slot `POD/NAME` that the runtime does not list, last modified so many minutes ago.
    pub fn leftover(mut self, slot: &str, attempt: u32, age: i64) -> Self {
        let (pod, container) = slot.split_once('/').unwrap();
        let (pod, container) = (pod_ref(pod).unwrap(), container.to_owned());
        let log = LeftoverLog { pod, container, attempt, modified_at: Some(ago(age)), size_bytes: 100 };
        seen(&mut self.snapshot.leftover_logs).push(log);
        self
    }

    /// Adds log files of the slot `POD/NAME`: names, bytes, and the minutes since they were last modified.
    pub fn log_files<const FILES: usize>(mut self, slot: &str, files: [(&str, u64, i64); FILES]) -> Self {
        let (pod, container) = slot.split_once('/').unwrap();
        let file = |(name, size_bytes, age): (&str, u64, i64)| {
            let (name, modified_at) = (name.to_owned(), Some(ago(age)));
            ContainerLog { name, size_bytes, modified_at }
        };
        let (pod, container, files) = (pod_ref(pod).unwrap(), container.to_owned(), files.map(file).to_vec());
        seen(&mut self.snapshot.container_logs).push(ContainerLogs { pod, container, files, at_least: false });
        self
    }

    /// Adds a file that is left over, written so many minutes ago.
    pub fn left_over(mut self, kind: LeftoverKind, name: &str, age: i64) -> Self {
        let at = PathUsage { path: format!("/var/lib/kubelet/{name}"), is_kubelets: true, ..PathUsage::default() };
        let leftover =
            Leftover { kind, at, pod: pod_ref("web"), image: None, modified_at: Some(ago(age)), obstacle: None };
        seen(&mut self.snapshot.leftovers).push(leftover);
        self
    }

    pub fn link(mut self, name: &str, target: LinkTarget) -> Self {
        seen(&mut self.snapshot.log_links).push(LogLink { name: name.into(), target });
        self
    }

    // --- images ---

    /// Sets the available bytes of the image disk, of 1000.
    pub fn disk(self, available_bytes: u64) -> Self {
        self.disk_of(1000, available_bytes)
    }

    /// Sets the bytes of the image disk and the available ones.
    pub fn disk_of(self, capacity_bytes: u64, available_bytes: u64) -> Self {
        let disk = FileSystem { capacity_bytes, available_bytes, ..FileSystem::default() };
        self.but(|snapshot| snapshot.image_filesystem = Seen::Seen(disk))
    }

    /// Adds an image of 30 bytes, first seen so many minutes ago and never used.
    pub fn image(mut self, id: &str, age: i64) -> Self {
        let image = Image { id: id.into(), size_bytes: 30, ..Image::default() };
        seen(&mut self.snapshot.images).push(image);
        let past = ImageMemory { id: id.into(), first_seen: Some(ago(age)), last_used: None, last_used_by: None };
        self.snapshot.memory.images = self.snapshot.memory.images.iter().cloned().chain([past]).collect();
        self
    }

    /// Gives an image layers of so many MiB in the store of the runtime. Layers of one name are one layer.
    pub fn layers(mut self, image: &str, layers: &[(&str, u64)]) -> Self {
        let store = self.store();
        for (name, mib) in layers {
            if !store.parts.iter().any(|part| part.name == **name) {
                let (name, bytes) = ((*name).to_owned(), Some(mib * MIB));
                store.parts.push(StorePart { name, bytes, inodes: Some(1), ..StorePart::default() });
            }
        }
        let names: Vec<_> = layers.iter().map(|(name, _)| *name).collect();
        self.held(HolderKind::Image, CRI_NAMESPACE, image, None, &names)
    }

    /// Adds a holder of layers to the store of the runtime.
    pub fn held(
        mut self,
        kind: HolderKind,
        namespace: &str,
        name: &str,
        image: Option<String>,
        layers: &[&str],
    ) -> Self {
        let store = self.store();
        let position = |name: &&str| store.parts.iter().position(|part| part.name == **name).unwrap();
        let refs = layers.iter().map(position).collect();
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        store.holders.push(StoreHolder { kind, namespace, name, image, refs, ..StoreHolder::default() });
        self
    }

    fn store(&mut self) -> &mut RuntimeStore {
        seen(&mut self.snapshot.store)
    }

    /// Says that the image that was added last was last used so many minutes ago.
    pub fn used(mut self, minutes: i64) -> Self {
        Arc::make_mut(&mut self.snapshot.memory.images).last_mut().unwrap().last_used = Some(ago(minutes));
        self
    }

    /// Changes the image that was added last.
    pub fn which(mut self, change: impl FnOnce(&mut Image)) -> Self {
        change(seen(&mut self.snapshot.images).last_mut().unwrap());
        self
    }
}
