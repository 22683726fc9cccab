//! What kube-controller-manager 1.36.2 did with random forests on a real API server (`tests/data/vectors/README.md`).
//! After each step, the waves of a plan lead to the state that was recorded.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::Deserialize;

use crate::model::{ApiKind, FOREGROUND, Identity, ORPHAN, ObjectMeta, OwnerReference, Seen, Uid};
use crate::owners::cluster_plan::{doubtful_owners, wave};
use crate::owners::cluster_state::ClusterState;
use crate::owners::{ClusterSnapshot, ListedResource, OwnerAnswer, OwnerRead, Propagation, ServedKind};

const SERVED: [(&str, &str, bool); 8] = [
    ("v1", "ConfigMap", true),
    ("v1", "Secret", true),
    ("v1", "ServiceAccount", true),
    ("apps/v1", "ReplicaSet", true),
    ("rbac.authorization.k8s.io/v1", "ClusterRole", false),
    ("example.com/v1", "Widget", true),
    ("example.com/v2", "Widget", true),
    ("example.com/v1", "Gadget", false),
];

/// Forests in which the collector deleted an object before its late owners were added.
const COLLECTED_EARLY: [&str; 1] = ["f42"];

#[derive(Deserialize)]
struct Forest {
    name: String,
    objects: Vec<ForestObject>,
    steps: Vec<Step>,
    states: Vec<BTreeMap<String, State>>,
}

#[derive(Deserialize)]
struct ForestObject {
    id: String,
    kind: String,
    ns: Option<u8>,
    owners: Vec<Reference>,
    #[serde(default)]
    late_owners: Vec<Reference>,
    finalizers: Vec<String>,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Reference {
    to: Option<String>,
    api_version: Option<String>,
    kind: Option<String>,
    name: Option<String>,
    uid: Option<String>,
    block: bool,
    #[serde(default)]
    controller: bool,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Step {
    Delete { delete: String, policy: Propagation },
    Release { release: String },
}

#[derive(Debug, Deserialize, PartialEq)]
struct State {
    terminating: bool,
    finalizers: Vec<String>,
    owners: Vec<(String, String, bool)>,
}

/// An API server with the objects of one forest. The uid of an object is its id.
struct Server(Vec<(Identity, ObjectMeta)>);

// === impl Server ===

impl Server {
    fn new(forest: &Forest) -> Self {
        let identity = |object: &ForestObject| {
            let (api_version, ..) = SERVED.iter().find(|(_, kind, _)| *kind == object.kind).unwrap();
            let namespace = object.ns.map_or(String::new(), |ns| format!("ns{ns}"));
            of(api_version, &object.kind, &namespace, &format!("name-{}", object.id), &object.id)
        };
        let known: BTreeMap<_, _> = forest.objects.iter().map(|object| (&*object.id, identity(object))).collect();
        let object = |object: &ForestObject| {
            let Identity { namespace, name, uid, .. } = known[&*object.id].clone();
            let owners = object.owners.iter().map(|reference| reference.resolve(&known)).collect();
            let finalizers = object.finalizers.clone();
            (
                known[&*object.id].clone(),
                ObjectMeta { namespace, name, uid, finalizers, owners, ..ObjectMeta::default() },
            )
        };
        let mut server = Self(forest.objects.iter().map(object).collect());
        if COLLECTED_EARLY.contains(&&*forest.name) {
            server.settle(|_| {});
        }
        for object in &forest.objects {
            server.add_owners(&object.id, object.late_owners.iter().map(|reference| reference.resolve(&known)));
        }
        server.settle(|_| {});
        server
    }

    /// Adds owner references to an object, if it still exists.
    fn add_owners(&mut self, id: &str, added: impl Iterator<Item = OwnerReference>) {
        let Some((_, meta)) = self.0.iter_mut().find(|(identity, _)| identity.uid == Uid::new(id)) else { return };
        meta.owners.extend(added);
    }

    /// Removes the finalizers of others. An object in deletion without finalizers is removed.
    fn release(&mut self, id: &str) {
        let is_it = |identity: &Identity| identity.uid == Uid::new(id);
        for (_, meta) in self.0.iter_mut().filter(|(identity, _)| is_it(identity)) {
            meta.finalizers.retain(|finalizer| [ORPHAN, FOREGROUND].contains(&&**finalizer));
        }
        self.0.retain(|(identity, meta)| {
            !is_it(identity) || meta.deletion_timestamp.is_none() || !meta.finalizers.is_empty()
        });
    }

    fn snapshot(&self) -> ClusterSnapshot {
        let served = SERVED.map(|(api_version, kind, namespaced)| ServedKind {
            kind: ApiKind::new(api_version, kind),
            resource: kind.to_lowercase(),
            namespaced,
        });
        let of_kind =
            |kind: &ApiKind| self.0.iter().filter(|(id, _)| id.kind == *kind).map(|(_, meta)| meta.clone()).collect();
        let listed = served.iter().filter(|served| &*served.kind.api_version != "example.com/v2");
        let mut snapshot = ClusterSnapshot {
            selected: std::collections::BTreeMap::new(),
            rule_errors: Vec::new(),
            conditions: std::collections::BTreeMap::new(),
            taken_at: Timestamp::UNIX_EPOCH,
            server: String::new(),
            unavailable: Vec::new(),
            resources: listed
                .map(|served| ListedResource {
                    served: served.clone(),
                    objects: Seen::Seen(of_kind(&served.kind)),
                    namespaces: std::collections::BTreeMap::new(),
                    content: Vec::new(),
                })
                .collect(),
            served: served.to_vec(),
            owners: Vec::new(),
        };
        snapshot.owners = doubtful_owners(&snapshot).into_iter().map(|owner| self.read(owner)).collect();
        snapshot
    }

    /// Answers a live read, in any version of the kind.
    fn read(&self, owner: Identity) -> OwnerRead {
        let is_it = |(known, _): &&(Identity, ObjectMeta)| {
            (known.kind.group(), &known.kind.kind, &known.namespace, &known.name)
                == (owner.kind.group(), &owner.kind.kind, &owner.namespace, &owner.name)
        };
        let answer = match self.0.iter().find(is_it) {
            None => OwnerAnswer::NotFound,
            Some((known, _)) if known.uid != owner.uid => OwnerAnswer::OtherUid(known.uid.clone()),
            Some((_, meta)) => OwnerAnswer::Exists {
                waits_for_dependents: meta.deletion_timestamp.is_some()
                    && meta.finalizers.iter().any(|known| known == FOREGROUND),
            },
        };
        OwnerRead { owner, read_at: Timestamp::UNIX_EPOCH, answer }
    }

    /// Collects until nothing changes.
    fn settle(&mut self, change: impl FnOnce(&mut ClusterState<'_>)) {
        let snapshot = self.snapshot();
        let mut cluster = ClusterState::new(&snapshot);
        change(&mut cluster);
        while !wave(&mut cluster).is_empty() {}
        let left = cluster.objects.iter().filter(|object| !object.is_removed());
        self.0 = left.map(|object| (object.identity.clone(), object.meta().clone())).collect();
    }

    fn state(&self) -> BTreeMap<String, State> {
        let owner = |owner: &OwnerReference| (owner.uid.to_string(), owner.kind.kind.to_string(), owner.blocks());
        let state = |meta: &ObjectMeta| State {
            terminating: meta.deletion_timestamp.is_some(),
            finalizers: meta.finalizers.clone(),
            owners: sorted(meta.owners.iter().map(owner)),
        };
        self.0.iter().map(|(identity, meta)| (identity.uid.to_string(), state(meta))).collect()
    }
}

// === impl Reference ===

impl Reference {
    fn resolve(&self, known: &BTreeMap<&str, Identity>) -> OwnerReference {
        let to = self.to.as_deref().map(|to| known[to].clone());
        let or =
            |own: &Option<String>, of: fn(&Identity) -> String| own.clone().unwrap_or_else(|| of(to.as_ref().unwrap()));
        OwnerReference {
            kind: ApiKind::new(
                &or(&self.api_version, |owner| owner.kind.api_version.to_string()),
                &or(&self.kind, |owner| owner.kind.kind.to_string()),
            ),
            name: or(&self.name, |owner| owner.name.to_string()).into(),
            uid: Uid::new(&or(&self.uid, |owner| owner.uid.to_string())),
            controller: Some(self.controller),
            blocking: Some(self.block),
        }
    }
}

/// The states were recorded with sorted owners, each once.
fn sorted<T: Ord>(items: impl Iterator<Item = T>) -> Vec<T> {
    items.collect::<BTreeSet<_>>().into_iter().collect()
}

fn of(api_version: &str, kind: &str, namespace: &str, name: &str, uid: &str) -> Identity {
    Identity {
        kind: ApiKind::new(api_version, kind),
        namespace: namespace.into(),
        name: name.into(),
        uid: Uid::new(uid),
    }
}

#[test]
fn each_forest_ends_as_kube_controller_manager_left_it() {
    let text = include_str!("../../../../../tests/data/vectors/owner_forests_136.jsonl");
    let forests: Vec<Forest> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(forests.len(), 149);
    for forest in &forests {
        let mut server = Server::new(forest);
        assert_eq!(server.state(), forest.states[0], "{} after its creation", forest.name);
        for (step, (at, expected)) in forest.steps.iter().zip(forest.states.iter().enumerate().skip(1)) {
            match step {
                Step::Delete { delete, policy } => {
                    server.settle(|cluster| cluster.delete_uid(&Uid::new(delete), *policy));
                }
                Step::Release { release } => {
                    server.release(release);
                    server.settle(|_| {});
                }
            }
            assert_eq!(server.state(), *expected, "{} after step {at}", forest.name);
        }
    }
}
