//! Random forests from a seed.
//!
//! Two things are not generated: list kinds, which kube-controller-manager takes for served kinds that have no object, in
//! 1.20.2 and in 1.36.2, and which kubegc keeps; and two references of one object with the same uid, which the patches of
//! 1.20.2 cannot distinguish.
//!
//! What ends in two ways with any collector is not generated either: an object whose owner is deleted with the finalizer
//! `orphan` has no other owner. It lives if the other owner's reference is dropped first, and is deleted if the reference
//! to the orphaning owner is. And its reference to the orphaning owner has no mistake: the object lives if that owner is deleted first, and
//! is deleted if it is checked before.
//!
//! Nor has an object of cluster scope a namespaced owner beside another one. kube-controller-manager gives such an object up, and looks at
//! it again only after its next start (1.20.2 and 1.36.2, `garbagecollector.go`), also when that reference is dropped later.

use crate::on_node::owner_forests::forest::{Forest, ForestObject, Reference, Step};
use crate::on_node::random::Random;

/// The kinds of the objects, as often as they are chosen. Those of cluster scope come last.
const NAMESPACED: [&str; 9] =
    ["ConfigMap", "ConfigMap", "ConfigMap", "Secret", "Secret", "ReplicaSet", "ReplicaSet", "Pod", "Widget"];
const CLUSTER_SCOPED: [&str; 2] = ["Gadget", "ClusterRole"];
const POLICIES: [&str; 8] =
    ["Background", "Background", "Background", "Foreground", "Foreground", "Foreground", "Orphan", "Orphan"];
/// A finalizer that no controller removes.
const FOREIGN: &str = "example.com/hold";

/// One forest that grows.
struct Nursery {
    random: Random,
    /// Some steps delete a namespace.
    with_namespaces: bool,
    objects: Vec<ForestObject>,
}

/// Returns `count` forests. Each depends on the seed and its number only.
pub fn forests(seed: u64, count: usize, with_namespaces: bool) -> Vec<Forest> {
    let nurseries = (0..count as u64).map(|number| (number, Nursery::of(seed, number, with_namespaces)));
    nurseries.map(|(number, nursery)| nursery.grow(format!("r{number}"))).collect()
}

// === impl Nursery ===

impl Nursery {
    fn of(seed: u64, number: u64, with_namespaces: bool) -> Self {
        let seed = seed.wrapping_mul(0x2545_F491_4F6C_DD1D) ^ number.wrapping_mul(0xD6E8_FEB8_6659_FD93);
        Self { random: Random::new(seed), with_namespaces, objects: Vec::new() }
    }

    fn grow(mut self, name: String) -> Forest {
        for number in 0..4 + self.random.below(6) {
            self.add_object(number);
        }
        self.close_circle();
        let steps = (0..=self.random.below(4)).map(|_| self.step()).collect();
        Forest { name, objects: self.objects, steps, states: Vec::new() }
    }

    fn add_object(&mut self, number: u64) {
        let is_namespaced = self.random.percent(85);
        let kinds: &[&str] = if is_namespaced { &NAMESPACED } else { &CLUSTER_SCOPED };
        let kind = (*self.random.one_of(kinds)).to_owned();
        let ns = is_namespaced.then(|| u8::from(self.random.percent(20)));
        let finalizers = self.finalizers();
        let mut owners: Vec<Reference> = Vec::new();
        for _ in 0..*self.random.one_of(&[0, 0, 0, 1, 1, 1, 1, 2, 2, 3]) {
            let owner = self.reference(ns);
            // A dependent has one reference to an owner.
            if owner.to.is_none() || owners.iter().all(|known| known.to != owner.to) {
                owners.push(owner);
            }
        }
        let has_others = owners.len() > 1;
        owners.retain(|owner| !self.ends_in_two_ways(owner, ns, has_others));
        self.objects.push(ForestObject {
            id: format!("o{number}"),
            kind,
            ns,
            owners,
            late_owners: Vec::new(),
            finalizers,
        });
    }

    /// The API server accepts only one of the finalizers of garbage collection.
    fn finalizers(&self) -> Vec<String> {
        let all = match self.random.below(100) {
            0..15 => vec![FOREIGN],
            15..18 => vec!["orphan"],
            18..21 => vec!["foregroundDeletion"],
            _ => vec![],
        };
        all.into_iter().map(str::to_owned).collect()
    }

    /// Returns a reference of an object in `ns`.
    fn reference(&self, ns: Option<u8>) -> Reference {
        let block = self.random.percent(45);
        let is_in_reach = |owner: &&ForestObject| owner.ns.is_none() || owner.ns == ns;
        let (near, far): (Vec<_>, Vec<_>) = self.objects.iter().partition(is_in_reach);
        let to = |owners: &[&ForestObject]| Some(self.random.one_of(owners).id.clone());
        let chance = self.random.below(100);
        match chance {
            // In another namespace, or namespaced although the dependent is not.
            0..8 if !far.is_empty() => Reference { to: to(&far), block, ..Reference::default() },
            8..78 if !near.is_empty() => Reference { to: to(&near), block, ..self.mistake(chance) },
            _ => self.missing(block),
        }
    }

    /// Returns what is wrong in a reference to an object that exists; mostly nothing.
    fn mistake(&self, chance: u64) -> Reference {
        let set = |text: &str| Some(text.to_owned());
        match chance {
            8..12 => Reference { uid: Some(self.uid()), ..Reference::default() },
            12..15 => Reference { name: set("another-name"), ..Reference::default() },
            // Not served in this version.
            15..17 => Reference { api_version: set("example.com/v9"), ..Reference::default() },
            // Another kind of the same version, or none at all.
            17..19 => Reference { api_version: set("v1"), kind: set("Service"), ..Reference::default() },
            19..20 => Reference { api_version: set("example.com/v1"), kind: set("Unknown"), ..Reference::default() },
            // Served, and not preferred. It is right for a Widget only.
            20..24 => Reference { api_version: set("example.com/v2"), kind: set("Widget"), ..Reference::default() },
            _ => Reference::default(),
        }
    }

    /// Returns a reference to an owner that never existed.
    fn missing(&self, block: bool) -> Reference {
        let kinds = [
            ("v1", "ConfigMap"),
            ("apps/v1", "ReplicaSet"),
            ("example.com/v1", "Widget"),
            ("example.com/v2", "Widget"),
            ("example.com/v1", "Gadget"),
        ];
        let (api_version, kind) = *self.random.one_of(&kinds);
        let (api_version, kind) = (Some(api_version.to_owned()), Some(kind.to_owned()));
        Reference {
            to: None,
            api_version,
            kind,
            name: Some("missing".to_owned()),
            uid: Some(self.uid()),
            ..reference(block)
        }
    }

    fn uid(&self) -> String {
        let [a, b] = [self.random.below(1 << 32), self.random.below(1 << 48)];
        format!("{a:08x}-0000-4000-8000-{b:012x}")
    }

    /// Makes an owner depend on one of its dependents, in every third forest that has such a pair.
    fn close_circle(&mut self) {
        let ids = |owned: &ForestObject| {
            let owners = owned.owners.iter().filter_map(|owner| owner.to.clone());
            owners.map(|owner| (owner, owned.id.clone())).collect::<Vec<_>>()
        };
        let pairs: Vec<_> = self.objects.iter().flat_map(ids).collect();
        if pairs.is_empty() || !self.random.percent(33) {
            return;
        }
        let (owner, owned) = self.random.one_of(&pairs).clone();
        let is_of_pair = |object: &&ForestObject| object.id == owner || object.id == owned;
        let mut owners = self.objects.iter().filter(is_of_pair).flat_map(|object| &object.owners);
        if self.orphans(&owned) || owners.any(|owner| owner.to.as_deref().is_some_and(|to| self.orphans(to))) {
            return;
        }
        let circle = Reference { to: Some(owned), ..reference(self.random.percent(60)) };
        if let Some(object) = self.objects.iter_mut().find(|object| object.id == owner) {
            object.late_owners.push(circle);
        }
    }

    /// Returns whether the dependents of an object lose their reference when it is collected.
    fn orphans(&self, id: &str) -> bool {
        self.objects.iter().any(|object| object.id == id && object.finalizers.iter().any(|it| it == "orphan"))
    }

    /// Returns whether what becomes of an object in `ns` depends on the order of two steps, or on the next start.
    fn ends_in_two_ways(&self, owner: &Reference, ns: Option<u8>, has_others: bool) -> bool {
        let Some(to) = owner.to.as_deref() else { return false };
        let is_far = self.objects.iter().any(|object| object.id == to && object.ns.is_some() && object.ns != ns);
        let is_mistaken = is_far || *owner != Reference { to: owner.to.clone(), ..reference(owner.block) };
        self.orphans(to) && (has_others || is_mistaken) || has_others && ns.is_none() && is_far
    }

    fn step(&self) -> Step {
        if self.with_namespaces && self.random.percent(30) {
            return Step::DeleteNamespace { delete_namespace: u8::from(self.random.percent(20)) };
        }
        let held: Vec<_> =
            self.objects.iter().filter(|object| object.finalizers.iter().any(|it| it == FOREIGN)).collect();
        if !held.is_empty() && self.random.percent(25) {
            return Step::Release { release: self.random.one_of(&held).id.clone() };
        }
        let delete = self.random.one_of(&self.objects).id.clone();
        Step::Delete { delete, policy: (*self.random.one_of(&POLICIES)).to_owned() }
    }
}

fn reference(block: bool) -> Reference {
    Reference { block, ..Reference::default() }
}
