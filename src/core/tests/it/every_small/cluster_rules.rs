//! What a collection does with objects, as `docs/cluster-gc.md` and kube-controller-manager 1.36 state it, and what the API server does then.

use kubegc_core::model::{ApiKind, FOREGROUND, ORPHAN, ObjectMeta, OwnerReference, Uid};
use kubegc_core::owners::{ClusterSnapshot, ListedResource, OwnerAnswer};

struct Cluster<'a> {
    snapshot: &'a ClusterSnapshot,
    objects: Vec<(ApiKind, ObjectMeta)>,
    removed: Vec<Uid>,
    waits_for_lists: bool,
}

enum Action {
    DropReferences(Vec<OwnerReference>),
    /// With the finalizer of the policy, and whether its references stop to block its owners.
    Delete(Option<&'static str>, bool),
    EndForeground,
    Orphan(Vec<Uid>),
}

#[derive(Clone, Copy, PartialEq)]
enum Owner {
    Exists,
    Waits,
    Absent,
    Unknown,
}

/// The steps, by wave, kind, namespace and name: an action and a name. All actions of a wave are decided before the first of them.
pub fn steps(snapshot: &ClusterSnapshot, waits_for_lists: bool) -> Vec<(String, String)> {
    let of = |it: &ListedResource| Some((it.served.kind.clone(), it.objects.as_ref()?.clone()));
    let lists = snapshot.resources.iter().filter_map(of);
    let mut objects: Vec<_> = lists.flat_map(|(kind, all)| all.into_iter().map(move |it| (kind.clone(), it))).collect();
    objects.sort_by_key(|(kind, meta)| (kind.kind.clone(), meta.namespace.clone(), meta.name.clone()));
    let (mut cluster, mut steps) = (Cluster { snapshot, objects, removed: Vec::new(), waits_for_lists }, Vec::new());
    loop {
        let of = |(_, it): &(_, ObjectMeta)| Some((it.uid.clone(), it.name.to_string(), cluster.action(it)?));
        let wave: Vec<_> = cluster.objects.iter().filter_map(of).collect();
        if wave.is_empty() {
            return steps;
        }
        for (object, name, action) in wave {
            let word = match &action {
                Action::DropReferences(_) => "drop_references",
                Action::Delete(None, _) => "delete Background",
                Action::Delete(Some(FOREGROUND), _) => "delete Foreground",
                Action::Delete(Some(_), _) => "delete Orphan",
                Action::EndForeground => "end_foreground",
                Action::Orphan(_) => "orphan",
            };
            steps.push((word.to_owned(), name));
            cluster.carry_out(&object, action);
        }
    }
}

fn has(object: &ObjectMeta, finalizer: &str) -> bool {
    object.finalizers.iter().any(|it| it == finalizer)
}

fn waits(object: &ObjectMeta) -> bool {
    object.deletion_timestamp.is_some() && has(object, FOREGROUND)
}

impl Cluster<'_> {
    /// What is done to an object now, if anything is.
    fn action(&self, object: &ObjectMeta) -> Option<Action> {
        let names_it = |it: &&ObjectMeta| it.owners.iter().any(|owner| owner.uid == object.uid);
        let dependents: Vec<_> = self.objects.iter().map(|(_, it)| it).filter(names_it).collect();
        if object.deletion_timestamp.is_some() {
            let blocks = |it: &OwnerReference| it.uid == object.uid && it.blocking == Some(true);
            let is_blocked = dependents.iter().any(|it| it.owners.iter().any(blocks));
            return match () {
                () if self.may_miss_dependents(object) => None,
                () if has(object, ORPHAN) => Some(Action::Orphan(dependents.iter().map(|it| it.uid.clone()).collect())),
                () => (has(object, FOREGROUND) && !is_blocked).then_some(Action::EndForeground),
            };
        }
        let owners: Vec<_> = object.owners.iter().map(|reference| (reference, self.owner(object, reference))).collect();
        let any = |state| owners.iter().any(|(_, it)| *it == state);
        if owners.is_empty() || any(Owner::Unknown) || object.left_out_owners > 0 {
            return None;
        }
        if any(Owner::Exists) {
            let others = owners.iter().filter(|(_, it)| *it != Owner::Exists).map(|(it, _)| (*it).clone()).collect();
            return owners.iter().any(|(_, it)| *it != Owner::Exists).then_some(Action::DropReferences(others));
        }
        if any(Owner::Waits) && !dependents.is_empty() {
            // A dependent that waits too may be the owner that waits: a circle.
            return Some(Action::Delete(Some(FOREGROUND), dependents.iter().any(|it| waits(it))));
        }
        Some(Action::Delete([ORPHAN, FOREGROUND].into_iter().find(|it| has(object, it)), false))
    }

    /// A reference means the object of its kind, name and uid in the namespace of its dependent, or without a namespace.
    fn owner(&self, object: &ObjectMeta, reference: &OwnerReference) -> Owner {
        let served = self.snapshot.served.iter().find(|it| it.kind == reference.kind);
        let Some(is_namespaced) = served.map(|it| it.namespaced) else { return Owner::Unknown };
        if reference.uid.is_empty() || is_namespaced && object.namespace.is_empty() {
            return Owner::Unknown;
        }
        let owner = reference.identity(if is_namespaced { &object.namespace } else { "" });
        let found = self.objects.iter().find(|(kind, it)| it.identity(kind) == owner);
        match self.snapshot.owners.iter().find(|read| read.owner == owner).map(|read| &read.answer) {
            _ if found.is_some_and(|(_, it)| waits(it)) => Owner::Waits,
            _ if found.is_some() => Owner::Exists,
            _ if self.removed.contains(&reference.uid) => Owner::Absent,
            Some(OwnerAnswer::NotFound | OwnerAnswer::OtherUid(_)) => Owner::Absent,
            Some(OwnerAnswer::Exists { waits_for_dependents: true }) => Owner::Waits,
            Some(OwnerAnswer::Exists { .. }) => Owner::Exists,
            _ => Owner::Unknown,
        }
    }

    /// What has no list may have dependents of an object, but nothing cluster-scoped is a dependent of what has a namespace.
    fn may_miss_dependents(&self, object: &ObjectMeta) -> bool {
        let mut unlisted = self.snapshot.resources.iter().filter(|it| !it.objects.is_seen());
        let is_any = unlisted.any(|it| it.served.namespaced || object.namespace.is_empty());
        self.waits_for_lists && (is_any || !self.snapshot.unavailable.is_empty())
    }

    fn carry_out(&mut self, object: &Uid, action: Action) {
        match action {
            Action::DropReferences(others) => self.change(object, |it| it.owners.retain(|one| !others.contains(one))),
            Action::EndForeground => self.change(object, |it| it.finalizers.retain(|one| one != FOREGROUND)),
            Action::Orphan(dependents) => {
                for it in dependents {
                    self.change(&it, |it| it.owners.retain(|owner| owner.uid != *object));
                }
                self.change(object, |it| it.finalizers.retain(|one| one != ORPHAN));
            }
            Action::Delete(policy, unblocks) => self.change(object, |it| {
                let blocking = it.owners.iter_mut().filter(|_| unblocks).flat_map(|owner| &mut owner.blocking);
                blocking.for_each(|blocking| *blocking = false);
                it.deletion_timestamp.get_or_insert_default();
                it.finalizers.retain(|one| one != ORPHAN && one != FOREGROUND);
                it.finalizers.extend(policy.map(str::to_owned));
            }),
        }
    }

    /// The API server removes an object in deletion that has no finalizers.
    fn change(&mut self, object: &Uid, change: impl FnOnce(&mut ObjectMeta)) {
        let Some(at) = self.objects.iter().position(|(_, it)| it.uid == *object) else { return };
        change(&mut self.objects[at].1);
        if self.objects[at].1.deletion_timestamp.is_some() && self.objects[at].1.finalizers.is_empty() {
            self.removed.push(self.objects.remove(at).1.uid);
        }
    }
}
