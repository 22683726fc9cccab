//! The objects of a snapshot, and the verdict on each. A plan has the verdicts on the snapshot. A prediction carries out each
//! verdict, and repeats that on the result. Who names whom is in the same graph as in a service, which sees each change.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashTable;

use super::cluster_snapshot::{ClusterSnapshot, OwnerAnswer, OwnerRead};
use super::{
    Dependent, Event, Graph, ObjectKeepReason, Observed, OwnerState, Propagation, ResourceId, ServedKinds, Unlisted,
    Verdict, decide, is_kept, unlisted_dependents,
};
use crate::model::{ApiKind, FOREGROUND, Identity, ORPHAN, ObjectMeta, OwnerReference, Uid};

pub(super) struct ClusterState<'a> {
    pub(super) served: ServedKinds,
    pub(super) objects: Vec<Object<'a>>,
    /// The positions of the objects, by identity.
    positions: HashTable<u32>,
    hasher: RandomState,
    graph: Graph,
    reads: HashMap<&'a Identity, &'a OwnerRead>,
    /// What a finalizer of garbage collection may wait for, because it has no list.
    unlisted: Vec<Unlisted>,
    pub(super) snapshot: &'a ClusterSnapshot,
    /// The positions of what the API server deletes with another object.
    contents: OnceCell<HashMap<Container, Vec<usize>>>,
    /// The resources by the names of definitions, as `widgets.example.com`.
    defined: HashMap<String, ResourceId>,
}

/// What has content that the API server deletes with it.
#[derive(Eq, Hash, PartialEq)]
enum Container {
    Namespace(Arc<str>),
    /// The definition of this resource.
    Definition(ResourceId),
}

#[derive(Debug)]
pub(super) struct Object<'a> {
    pub(super) identity: Identity,
    listed: &'a ObjectMeta,
    changed: Option<Box<ObjectMeta>>,
    resource: ResourceId,
    is_removed: bool,
    /// It is a namespace with an object that has finalizers of others, or with objects that cannot be listed. Its deletion waits
    /// for them.
    holds_content: bool,
}

// === impl ClusterState ===

impl<'a> ClusterState<'a> {
    pub(super) fn new(snapshot: &'a ClusterSnapshot) -> Self {
        let mut cluster = Self {
            served: ServedKinds::from(snapshot),
            objects: Vec::new(),
            positions: HashTable::new(),
            hasher: RandomState::new(),
            graph: Graph::default(),
            reads: snapshot.owners.iter().map(|read| (&read.owner, read)).collect(),
            unlisted: snapshot.without_list(),
            snapshot,
            contents: OnceCell::new(),
            defined: HashMap::new(),
        };
        // The core group first: if two groups serve one object, that of the core group counts.
        let mut resources: Vec<_> = snapshot.resources.iter().collect();
        resources.sort_by_key(|listed| (!listed.served.kind.group().is_empty(), &listed.served.kind));
        let lists = resources.iter().filter_map(|listed| listed.objects.as_ref());
        cluster.objects.reserve_exact(lists.map(Vec::len).sum());
        for (number, listed) in (0..).zip(resources) {
            let served = &listed.served;
            cluster.defined.insert(format!("{}.{}", served.resource, served.kind.group()), ResourceId(number));
            for meta in listed.objects.as_ref().into_iter().flatten() {
                cluster.add(Object::new(&listed.served.kind, ResourceId(number), meta));
            }
        }
        cluster.hold_namespaces();
        cluster
    }

    /// Does not wait for lists, as without the guard.
    pub(super) fn without_wait(self) -> Self {
        Self { unlisted: Vec::new(), ..self }
    }

    fn hold_namespaces(&mut self) {
        let held = self.all_content().filter(|(_, meta)| foreign(meta).next().is_some());
        let held: HashSet<_> = held.map(|(_, meta)| Arc::clone(&meta.namespace)).collect();
        // No namespace ends whose content cannot be listed.
        let is_any_unknown = !self.snapshot.unavailable.is_empty();
        for object in self.objects.iter_mut().filter(|object| object.is_namespace()) {
            let name = &object.identity.name;
            let is_unknown = || self.unlisted.iter().any(|resource| resource.may_be_in(name));
            object.holds_content = is_any_unknown || held.contains(name) || is_unknown();
        }
    }

    /// Lists all objects, with those that only a list of their namespace has.
    pub(super) fn all_content(&self) -> impl Iterator<Item = (&ApiKind, &ObjectMeta)> {
        let objects = self.objects.iter().filter(|object| !object.is_removed());
        let of_namespaces = self
            .snapshot
            .resources
            .iter()
            .flat_map(|listed| listed.content.iter().map(move |meta| (&listed.served.kind, meta)));
        objects.map(|object| (&object.identity.kind, object.meta())).chain(of_namespaces)
    }

    /// Lists the resources that cannot be listed in a namespace.
    pub(super) fn unlisted_in(&self, namespace: &str) -> impl Iterator<Item = String> {
        let is_resource = |unlisted: &&Unlisted| {
            unlisted.may_be_in(namespace)
                && !self.snapshot.unavailable.iter().any(|group| group.api_version == unlisted.name)
        };
        self.unlisted.iter().filter(is_resource).map(|resource| resource.name.clone())
    }

    fn add(&mut self, object: Object<'a>) {
        let is_mirror = self.of_uid(&object.identity.uid).any(|known| known.is_mirrored_by(&object));
        // All objects without a uid would be one object (G3).
        if is_mirror || object.identity.uid.is_empty() {
            return;
        }
        self.graph.apply(object.event(), Duration::ZERO);
        let at = u32::try_from(self.objects.len()).unwrap_or(u32::MAX);
        let hash = self.hasher.hash_one(&object.identity);
        self.objects.push(object);
        let Self { objects, positions, hasher, .. } = self;
        let rehash = |at: &u32| objects.get(*at as usize).map_or(0, |object| hasher.hash_one(&object.identity));
        positions.insert_unique(hash, at, rehash);
    }

    /// Returns the position of an object, or of the one that it mirrors.
    pub(super) fn position(&self, identity: &Identity) -> Option<usize> {
        let is_named = |object: &&Object| object.identity.is_named_as(identity);
        let known = self.find(identity).or_else(|| self.of_uid(&identity.uid).find(is_named))?;
        self.position_of(&known.identity)
    }

    /// Returns the position of exactly this object.
    fn position_of(&self, identity: &Identity) -> Option<usize> {
        let is_it = |at: &u32| self.objects.get(*at as usize).is_some_and(|object| object.identity == *identity);
        self.positions.find(self.hasher.hash_one(identity), is_it).map(|at| *at as usize)
    }

    pub(super) fn find(&self, identity: &Identity) -> Option<&Object<'a>> {
        self.any(identity).filter(|object| !object.is_removed)
    }

    /// Returns exactly this object, even if a prediction has removed it.
    fn any(&self, identity: &Identity) -> Option<&Object<'a>> {
        self.objects.get(self.position_of(identity)?)
    }

    pub(super) fn of_uid(&self, uid: &Uid) -> impl Iterator<Item = &Object<'a>> {
        let first = self.graph.item(uid).map(|item| item.identity);
        first.into_iter().chain(self.graph.others_of(uid)).filter_map(|identity| self.find(&identity))
    }

    /// Returns whether a prediction has removed an object, or all that have its uid.
    fn was_removed(&self, identity: &Identity) -> bool {
        let is_left = || self.of_uid(&identity.uid).next().is_some();
        self.any(identity).is_some() || self.graph.was_seen(&identity.uid) && !is_left()
    }

    pub(super) fn state(&self, object: &Object<'_>, reference: &OwnerReference) -> OwnerState {
        let owner = match self.served.owner(reference, &object.identity.namespace) {
            Ok(owner) => owner,
            Err(state) => return state,
        };
        match self.find(&owner) {
            Some(known) => OwnerState::of_existing(known.meta().waits_for_dependents()),
            None if self.was_removed(&owner) => OwnerState::Absent,
            None => self.read(&owner).map_or_else(|| not_read(object.meta()), |read| state_of(&read.answer)),
        }
    }

    fn states(&self, object: &Object<'_>) -> Vec<OwnerState> {
        object.meta().owners.iter().map(|owner| self.state(object, owner)).collect()
    }

    /// Returns whether the object with the uid of a reference is in another namespace than its dependent.
    pub(super) fn is_elsewhere(&self, object: &Object<'_>, reference: &OwnerReference) -> bool {
        let mut namespaces = self.of_uid(&reference.uid).map(|known| &known.identity.namespace);
        namespaces.any(|namespace| !namespace.is_empty() && *namespace != object.identity.namespace)
    }

    /// Returns the object that a reference to an absent owner may mean: that with its uid, or that with its name and another uid.
    pub(super) fn instead(&self, object: &Object<'_>, reference: &OwnerReference) -> Option<Identity> {
        let of_uid = self.of_uid(&reference.uid).next().map(|found| found.identity.clone());
        of_uid.or_else(|| {
            let meant = self.meant(reference, object)?;
            match &self.read(&meant)?.answer {
                OwnerAnswer::OtherUid(uid) => Some(Identity { uid: uid.clone(), ..meant }),
                _ => None,
            }
        })
    }

    pub(super) fn meant(&self, reference: &OwnerReference, object: &Object<'_>) -> Option<Identity> {
        self.served.owner(reference, &object.identity.namespace).ok()
    }

    pub(super) fn read(&self, owner: &Identity) -> Option<&'a OwnerRead> {
        self.reads.get(owner).copied()
    }

    /// Lists the owners that the lists leave doubtful: those that a live read must find or prove absent.
    pub(super) fn doubtful(&self) -> Vec<Identity> {
        let mut seen = HashSet::new();
        let read = self.objects.iter().filter(|object| object.meta().left_out_owners == 0);
        let references = read.flat_map(|object| object.meta().owners.iter().map(move |owner| (object, owner)));
        let meant = references.filter_map(|(object, owner)| self.meant(owner, object));
        let unknown = meant.filter(|owner| self.find(owner).is_none());
        unknown.filter(|owner| seen.insert(owner.clone())).collect()
    }

    /// Decides about an object. As in a service, one of several that share a uid is deleted only if all are to be (G3).
    pub(super) fn verdict(&self, object: &Object<'_>) -> Verdict {
        let verdict = decide(object.meta(), &self.states(object), &self.dependents(&object.identity.uid));
        let kept_because = match verdict {
            Verdict::Delete { .. } => self.another_lives(&object.identity).map(ObjectKeepReason::SharesUid),
            Verdict::EndForeground | Verdict::Orphan(_) => {
                let names = unlisted_dependents(&self.unlisted, &object.identity);
                (!names.is_empty()).then_some(ObjectKeepReason::DependentsNotListed(names))
            }
            _ => None,
        };
        kept_because.map_or(verdict, Verdict::Keep)
    }

    fn another_lives(&self, object: &Identity) -> Option<Identity> {
        let mut others = self.of_uid(&object.uid).filter(|other| other.identity != *object);
        others.find(|other| is_kept(other.meta(), &self.states(other))).map(|other| other.identity.clone())
    }

    /// Lists the dependents of an object, and of those that share its uid.
    pub(super) fn dependents(&self, owner: &Uid) -> Vec<Dependent> {
        self.graph.dependents(owner)
    }
}

// === impl ClusterState: predictions ===

impl ClusterState<'_> {
    /// Returns the positions of what the API server deletes with an object, whatever the policy is: the objects of a namespace,
    /// or those of the resource that a `CustomResourceDefinition` defines. `None` = it has no content.
    pub(super) fn content(&self, object: &Identity) -> Option<Vec<usize>> {
        let container = match (object.kind.group(), &*object.kind.kind) {
            ("", "Namespace") => Container::Namespace(Arc::clone(&object.name)),
            ("apiextensions.k8s.io", "CustomResourceDefinition") => {
                Container::Definition(self.defined.get(&*object.name).copied()?)
            }
            _ => return None,
        };
        let all = self.contents.get_or_init(|| self.contents()).get(&container).map(Vec::as_slice).unwrap_or_default();
        let is_left = |at: &&usize| self.objects.get(**at).is_some_and(|object| !object.is_removed);
        Some(all.iter().filter(is_left).copied().collect())
    }

    fn contents(&self) -> HashMap<Container, Vec<usize>> {
        let mut contents = HashMap::<_, Vec<_>>::new();
        for (at, object) in self.objects.iter().enumerate() {
            let namespace = &object.identity.namespace;
            if !namespace.is_empty() {
                contents.entry(Container::Namespace(Arc::clone(namespace))).or_default().push(at);
            }
            contents.entry(Container::Definition(object.resource)).or_default().push(at);
        }
        contents
    }

    /// Deletes an object with its content, of which only what is not in deletion changes.
    pub(super) fn delete_all(&mut self, at: usize, propagation: Propagation) {
        let content = self.objects.get(at).and_then(|object| self.content(&object.identity)).unwrap_or_default();
        for within in content {
            if self.objects.get(within).is_some_and(|object| !object.meta().is_deleting()) {
                self.delete(within, Propagation::Background);
            }
        }
        self.delete(at, propagation);
    }

    pub(super) fn carry_out(&mut self, at: usize, verdict: &Verdict) {
        match verdict {
            Verdict::Keep(_) | Verdict::WaitForDependents(_) => {}
            Verdict::DropReferences(references) => self.change(at, |meta| {
                meta.owners.retain(|owner| !references.contains(owner));
            }),
            Verdict::Delete { propagation, unblock, .. } => {
                if *unblock {
                    self.change(at, |meta| meta.owners.iter_mut().for_each(OwnerReference::unblock));
                }
                self.delete_all(at, *propagation);
            }
            Verdict::EndForeground => self.change(at, |meta| meta.finalizers.retain(|known| known != FOREGROUND)),
            Verdict::Orphan(dependents) => {
                let Some(owner) = self.objects.get(at).map(|object| object.identity.uid.clone()) else { return };
                let released = dependents.iter().flat_map(|uid| self.of_uid(uid));
                let released: Vec<_> = released.filter_map(|object| self.position(&object.identity)).collect();
                for dependent in released {
                    self.change(dependent, |meta| meta.owners.retain(|known| known.uid != owner));
                }
                self.change(at, |meta| meta.finalizers.retain(|known| known != ORPHAN));
            }
        }
    }

    /// Deletes as the API server does: a policy replaces the finalizers of garbage collection, and an object without
    /// finalizers is removed at once.
    pub(super) fn delete(&mut self, at: usize, propagation: Propagation) {
        self.change(at, |meta| {
            // Only its presence counts.
            meta.deletion_timestamp.get_or_insert_default();
            meta.finalizers.retain(|finalizer| is_foreign(finalizer));
            let finalizer = match propagation {
                Propagation::Background => None,
                Propagation::Orphan => Some(ORPHAN.to_owned()),
                Propagation::Foreground => Some(FOREGROUND.to_owned()),
            };
            meta.finalizers.extend(finalizer);
        });
    }

    fn change(&mut self, at: usize, change: impl FnOnce(&mut ObjectMeta)) {
        let Some(object) = self.objects.get_mut(at) else { return };
        change(object.changed.get_or_insert_with(|| Box::new(object.listed.clone())));
        object.is_removed |= object.meta().is_deleting() && !object.is_held();
        self.graph.apply(object.event(), Duration::ZERO);
    }
}

// === impl Object ===

impl<'a> Object<'a> {
    fn new(kind: &ApiKind, resource: ResourceId, listed: &'a ObjectMeta) -> Self {
        let identity = listed.identity(kind);
        Self { identity, listed, changed: None, resource, is_removed: false, holds_content: false }
    }

    /// Returns its metadata, as a prediction has changed them so far.
    pub(super) fn meta(&self) -> &ObjectMeta {
        self.changed.as_deref().unwrap_or(self.listed)
    }

    /// Returns what a monitor would show.
    fn event(&self) -> Event {
        let Self { identity, resource, .. } = self;
        if self.is_removed {
            return Event::ProvenAbsent(identity.clone());
        }
        Event::Seen(Observed { kind: identity.kind.clone(), resource: *resource, meta: self.meta().clone() })
    }

    /// Returns whether another resource shows the same object, as the Project of a Namespace.
    fn is_mirrored_by(&self, other: &Self) -> bool {
        self.identity.is_named_as(&other.identity) && self.meta().owners == other.meta().owners
    }

    pub(super) fn is_namespace(&self) -> bool {
        self.identity.kind.is_namespace()
    }

    pub(super) fn is_removed(&self) -> bool {
        self.is_removed
    }

    /// Lists the finalizers of others, which kubegc never removes.
    pub(super) fn foreign_finalizers(&self) -> impl Iterator<Item = &str> {
        foreign(self.meta())
    }

    /// Returns whether its deletion does not end at once.
    fn is_held(&self) -> bool {
        self.holds_content || !self.meta().finalizers.is_empty()
    }
}

pub(super) fn foreign(meta: &ObjectMeta) -> impl Iterator<Item = &str> {
    meta.finalizers.iter().map(String::as_str).filter(|finalizer| is_foreign(finalizer))
}

fn is_foreign(finalizer: &str) -> bool {
    ![ORPHAN, FOREGROUND].contains(&finalizer)
}

fn not_read(dependent: &ObjectMeta) -> OwnerState {
    let not_read = || "it is in no list and was not read".to_owned();
    OwnerState::Unverified(dependent.unknown_owners().unwrap_or_else(not_read))
}

fn state_of(answer: &OwnerAnswer) -> OwnerState {
    match answer {
        OwnerAnswer::Exists { waits_for_dependents } => OwnerState::of_existing(*waits_for_dependents),
        OwnerAnswer::NotFound | OwnerAnswer::OtherUid(_) => OwnerState::Absent,
        OwnerAnswer::Unavailable(cause) | OwnerAnswer::NotRequested(cause) => OwnerState::Unverified(cause.clone()),
    }
}

#[cfg(test)]
impl ClusterState<'_> {
    /// Deletes the only object with a uid, if there is one.
    pub(super) fn delete_uid(&mut self, uid: &Uid, propagation: Propagation) {
        let found = self.of_uid(uid).next().map(|object| object.identity.clone());
        if let Some(at) = found.and_then(|object| self.position(&object)) {
            self.delete(at, propagation);
        }
    }
}
