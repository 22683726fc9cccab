//! The graph after orders of events, and the effects of each event.

mod properties;

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Effect, Event, Graph, Observed, ResourceId};
use crate::model::{ApiKind, FOREGROUND, Identity, ORPHAN, ObjectMeta, OwnerReference, Uid};

const PODS: ResourceId = ResourceId(1);
const NODES: ResourceId = ResourceId(2);
/// A resource that mirrors pods.
const MIRRORS: ResourceId = ResourceId(3);
const NOW: Duration = Duration::from_secs(100);

/// A pod of namespace `ns1` whose uid is its name.
fn pod(name: &str) -> Identity {
    of("v1", "Pod", "ns1", name, name)
}

fn of(api_version: &str, kind: &str, namespace: &str, name: &str, uid: &str) -> Identity {
    Identity {
        kind: ApiKind::new(api_version, kind),
        namespace: namespace.into(),
        name: name.into(),
        uid: Uid::new(uid),
    }
}

fn to(owner: &Identity) -> OwnerReference {
    let Identity { kind, name, uid, .. } = owner.clone();
    OwnerReference { kind, name, uid, controller: None, blocking: None }
}

fn blocking(owner: &Identity) -> OwnerReference {
    OwnerReference { blocking: Some(true), ..to(owner) }
}

fn seen(identity: &Identity, owners: &[OwnerReference]) -> Observed {
    let Identity { kind, namespace, name, uid } = identity.clone();
    let meta =
        ObjectMeta { namespace, name, uid, version: "7".into(), owners: owners.to_vec(), ..ObjectMeta::default() };
    Observed { kind, resource: if identity.is_cluster_scoped() { NODES } else { PODS }, meta }
}

fn foreground(identity: &Identity, owners: &[OwnerReference]) -> Observed {
    in_deletion(with_finalizer(seen(identity, owners), FOREGROUND))
}

fn in_deletion(mut observed: Observed) -> Observed {
    observed.meta.deletion_timestamp = Some(jiff::Timestamp::UNIX_EPOCH);
    observed
}

fn with_finalizer(mut observed: Observed, finalizer: &str) -> Observed {
    observed.meta.finalizers.push(finalizer.to_owned());
    observed
}

fn with_version(mut observed: Observed, version: &str) -> Observed {
    observed.meta.version = version.into();
    observed
}

fn try_delete(name: &str) -> Effect {
    Effect::TryDelete(Uid::new(name))
}

fn verify(name: &str) -> Effect {
    Effect::Verify(Uid::new(name))
}

fn deleted(identity: &Identity) -> Event {
    Event::Deleted(if identity.is_cluster_scoped() { NODES } else { PODS }, identity.clone())
}

impl Graph {
    fn owners(&self, uid: &Uid) -> Vec<OwnerReference> {
        self.store.find(uid).map(|node| self.store.references(node)).unwrap_or_default()
    }

    fn happens(&mut self, event: Event) -> Vec<Effect> {
        self.apply(event, NOW)
    }

    fn is_absent(&self, identity: &Identity) -> bool {
        self.absent.proves(identity, NOW)
    }

    fn see(&mut self, identity: &Identity, owners: &[OwnerReference]) -> Vec<Effect> {
        self.happens(Event::Seen(seen(identity, owners)))
    }

    /// Both directions agree: an object is among the dependents of an owner exactly if it names the owner.
    fn check(&self) {
        let ids: Vec<_> = self.store.nodes().map(|(id, _)| id).collect();
        let edges = |(edge, other)| (edge, other);
        let down: BTreeSet<_> = ids.iter().flat_map(|id| self.store.edges_to(*id).map(edges)).collect();
        let down: BTreeSet<_> = down.into_iter().map(|(edge, _)| edge).collect();
        let up: BTreeSet<_> =
            ids.iter().flat_map(|id| self.store.edges_of(*id).map(edges)).map(|(edge, _)| edge).collect();
        assert_eq!(down, up);
        for id in &ids {
            for (edge, owner) in self.store.edges_of(*id) {
                assert!(self.store.edges_to(owner).any(|found| found == (edge, *id)));
                assert_eq!(self.store.find(&self.store.reference(edge).unwrap().uid), Some(owner));
            }
        }
    }
}

#[test]
fn dependents_of_an_existing_owner_are_not_checked() {
    let mut graph = Graph::default();
    assert_eq!(graph.see(&pod("owner"), &[]), []);
    assert_eq!(graph.see(&pod("dependent"), &[to(&pod("owner"))]), []);
    graph.check();
    let dependents = graph.dependents(&Uid::new("owner"));
    assert_eq!(dependents.len(), 1);
    assert_eq!(dependents[0].item.identity, pod("dependent"));
}

#[test]
fn an_owner_never_shown_by_a_monitor_is_verified() {
    let mut graph = Graph::default();
    assert_eq!(graph.see(&pod("dependent"), &[to(&pod("owner"))]), [verify("owner")]);
    assert!(graph.item(&Uid::new("owner")).unwrap().is_virtual);
    assert_eq!(graph.see(&pod("owner"), &[]), []);
    assert!(!graph.item(&Uid::new("owner")).unwrap().is_virtual);
    assert_eq!((graph.len(), graph.is_empty()), (2, false));
}

#[test]
fn dependents_of_a_deleted_owner_are_checked() {
    let mut graph = Graph::default();
    graph.see(&pod("owner"), &[]);
    graph.see(&pod("a"), &[to(&pod("owner"))]);
    assert_eq!(graph.happens(deleted(&pod("owner"))), [try_delete("a")]);
    assert_eq!(graph.item(&Uid::new("owner")), None);
    assert!(graph.is_absent(&pod("owner")));
    // A later dependent of it is checked at once.
    assert_eq!(graph.see(&pod("b"), &[to(&pod("owner"))]), [try_delete("b")]);
    graph.happens(deleted(&pod("a")));
    graph.happens(deleted(&pod("b")));
    graph.check();
    assert_eq!(graph.store.nodes().count(), 0);
    assert_eq!(graph.take_ended(), ["owner", "a", "b"].map(Uid::new), "each once");
}

/// The reference that is removed may have been the reason to keep it.
#[test]
fn an_object_that_loses_a_reference_is_checked_if_another_owner_is_absent() {
    let mut graph = Graph::default();
    let (kept, gone) = (to(&pod("kept")), to(&pod("gone")));
    graph.see(&pod("kept"), &[]);
    graph.see(&pod("dependent"), &[kept.clone(), gone.clone()]);
    graph.happens(Event::ProvenAbsent(pod("gone")));
    let is_relative = |of: &str, it: &str| graph.any_relative(&Uid::new(of), |uid| *uid == Uid::new(it));
    assert_eq!([is_relative("kept", "gone"), is_relative("kept", "kept")], [true, false]);
    assert_eq!(graph.see(&pod("dependent"), &[kept.clone(), gone.clone()]), []);
    assert_eq!(graph.see(&pod("dependent"), &[gone]), [try_delete("dependent")]);
    assert_eq!(graph.see(&pod("dependent"), &[kept]), [], "this one exists");
}

#[test]
fn an_owner_that_appears_is_no_longer_absent() {
    let mut graph = Graph::default();
    graph.see(&pod("a"), &[to(&pod("owner"))]);
    graph.happens(Event::ProvenAbsent(pod("owner")));
    assert!(graph.is_absent(&pod("owner")));
    assert_eq!(graph.see(&pod("owner"), &[]), []);
    assert!(!graph.is_absent(&pod("owner")));
    assert_eq!(graph.dependents(&Uid::new("owner")).len(), 1);
}

#[test]
fn a_namespaced_dependent_verifies_its_cluster_scoped_owner() {
    let node = of("v1", "Node", "", "node1", "node1");
    let mut graph = Graph::default();
    assert_eq!(graph.see(&pod("a"), &[to(&node)]), [verify("node1")]);
    assert_eq!(&*graph.item(&Uid::new("node1")).unwrap().identity.namespace, "ns1");
    assert_eq!(graph.see(&node, &[]), []);
    assert_eq!(&*graph.item(&Uid::new("node1")).unwrap().identity.namespace, "");
    assert_eq!((graph.count(PODS), graph.count(NODES), graph.count(MIRRORS)), (1, 1, 0));
}

#[test]
fn cross_namespace_references_are_reported_in_either_order() {
    let (owner, child) = (of("v1", "Pod", "ns2", "owner", "owner"), pod("child"));
    let wrong = Effect::WrongNamespace { dependent: child.clone(), reference: to(&owner) };
    let mut graph = Graph::default();
    assert_eq!(graph.see(&child, &[to(&owner)]), [verify("owner")]);
    assert_eq!(graph.see(&owner, &[]), [try_delete("child"), wrong.clone()]);
    let mut graph = Graph::default();
    assert_eq!(graph.see(&owner, &[]), []);
    assert_eq!(graph.see(&child, &[to(&owner)]), [wrong, try_delete("child")]);
}

#[test]
fn dependents_naming_another_owner_identity_are_checked() {
    let mut graph = Graph::default();
    let secret = of("v1", "Secret", "ns1", "owner", "owner");
    graph.see(&pod("bad"), &[to(&secret)]);
    assert_eq!(graph.see(&pod("good"), &[to(&pod("owner"))]), [try_delete("good")]);
    assert_eq!(graph.see(&pod("owner"), &[]), [try_delete("bad")]);
    graph.check();
    assert_eq!(graph.owners(&Uid::new("bad")), [to(&secret)]);
    assert_eq!(graph.owners(&Uid::new("good")), [to(&pod("owner"))]);
}

#[test]
fn an_absent_guess_rotates_to_the_next_identity() {
    let mut graph = Graph::default();
    let secret = of("v1", "Secret", "ns1", "owner", "owner");
    graph.see(&pod("bad"), &[to(&secret)]);
    graph.see(&pod("good"), &[to(&pod("owner"))]);
    let effects = graph.happens(Event::ProvenAbsent(secret.clone()));
    assert_eq!(effects, [try_delete("bad"), Effect::RetryDelete(Uid::new("owner"))]);
    assert_eq!(graph.item(&Uid::new("owner")).unwrap().identity, pod("owner"));
    assert!(graph.is_absent(&secret) && !graph.is_absent(&pod("owner")));
    // A second proof of the same does not make it rotate again.
    assert_eq!(graph.happens(Event::ProvenAbsent(secret)), [try_delete("bad")]);
    assert_eq!(graph.item(&Uid::new("owner")).unwrap().identity, pod("owner"));
}

#[test]
fn a_proof_about_another_identity_keeps_a_real_object() {
    let mut graph = Graph::default();
    let secret = of("v1", "Secret", "ns1", "owner", "owner");
    graph.see(&pod("owner"), &[]);
    graph.see(&pod("bad"), &[to(&secret)]);
    graph.see(&pod("good"), &[to(&pod("owner"))]);
    assert_eq!(graph.happens(Event::ProvenAbsent(secret)), [try_delete("bad")]);
    assert!(graph.item(&Uid::new("owner")).is_some());
    assert_eq!(graph.happens(Event::ProvenAbsent(pod("owner"))).len(), 2);
    assert_eq!(graph.item(&Uid::new("owner")), None);
}

#[test]
fn foreground_deletion_checks_dependents_and_owner_on_every_event() {
    let mut graph = Graph::default();
    graph.see(&pod("owner"), &[]);
    graph.see(&pod("a"), &[blocking(&pod("owner"))]);
    let expected = [try_delete("a"), try_delete("owner")];
    assert_eq!(graph.happens(Event::Seen(foreground(&pod("owner"), &[]))), expected);
    assert_eq!(graph.happens(Event::Seen(foreground(&pod("owner"), &[]))), expected);
    assert!(graph.any_dependent(&Uid::new("owner"), |uid, blocks| blocks && *uid == Uid::new("a")));
    let relabeled = OwnerReference { controller: Some(true), ..blocking(&pod("owner")) };
    assert_eq!(graph.see(&pod("a"), &[relabeled]), [], "it blocks as before");
    // Each way in which a dependent stops to block frees the owner.
    assert_eq!(graph.see(&pod("a"), &[to(&pod("owner"))]), [try_delete("owner")]);
    graph.see(&pod("a"), &[blocking(&pod("owner"))]);
    assert_eq!(graph.see(&pod("a"), &[]), [try_delete("owner")]);
    graph.see(&pod("a"), &[blocking(&pod("owner"))]);
    assert_eq!(graph.happens(deleted(&pod("a"))), [try_delete("owner")]);
}

/// A list may show the owner first.
#[test]
fn a_new_dependent_of_a_waiting_owner_is_checked() {
    let mut graph = Graph::default();
    graph.happens(Event::Seen(foreground(&pod("owner"), &[])));
    assert_eq!(graph.see(&pod("late"), &[to(&pod("owner"))]), [try_delete("late")]);
    assert_eq!(graph.see(&pod("late"), &[to(&pod("owner"))]), [], "it was checked already");
}

#[test]
fn orphan_deletion_on_every_event_checks_no_dependent() {
    let mut graph = Graph::default();
    graph.see(&pod("a"), &[to(&pod("owner"))]);
    let owner = in_deletion(with_finalizer(seen(&pod("owner"), &[]), ORPHAN));
    assert_eq!(graph.happens(Event::Seen(owner.clone())), [Effect::TryOrphan(Uid::new("owner"))]);
    assert_eq!(graph.happens(Event::Seen(owner)), [Effect::TryOrphan(Uid::new("owner"))]);
}

/// A deletion without a live read relies on it.
#[test]
fn the_shown_version_is_that_of_the_last_event() {
    let mut graph = Graph::default();
    let (a, owner) = (pod("a"), to(&pod("owner")));
    let version = |graph: &Graph| graph.shown_version(&a.uid).map(|shown| (shown.version.get(), shown.owners));
    assert_eq!(version(&graph), None);
    graph.see(&a, std::slice::from_ref(&owner));
    assert_eq!(version(&graph), Some((7, vec![owner.clone()])));
    assert_eq!(graph.shown_version(&owner.uid), None, "only a reference names it");
    let shown = seen(&a, &[]);
    graph.happens(Event::Seen(with_version(shown.clone(), "8")));
    assert_eq!(version(&graph), Some((8, vec![])));
    for held in [
        with_version(shown.clone(), ""),
        in_deletion(shown.clone()),
        with_finalizer(shown.clone(), ORPHAN),
        with_finalizer(shown.clone(), FOREGROUND),
    ] {
        graph.happens(Event::Seen(shown.clone()));
        assert!(version(&graph).is_some());
        graph.happens(Event::Seen(held.clone()));
        assert_eq!(version(&graph), None, "{held:?}");
    }
}

#[test]
fn what_is_absent_or_not_served_has_no_version() {
    for event in [deleted(&pod("a")), Event::ProvenAbsent(pod("a")), Event::Unserved(PODS)] {
        let mut graph = Graph::default();
        graph.see(&pod("a"), &[]);
        graph.see(&of("v1", "Node", "", "b", "b"), &[to(&pod("a"))]);
        assert!(graph.shown_version(&Uid::new("a")).is_some());
        graph.happens(event.clone());
        assert_eq!(graph.shown_version(&Uid::new("a")), None, "{event:?}");
    }
}

#[test]
fn an_unlisted_object_is_deleted_even_if_recreated() {
    let mut graph = Graph::default();
    let again = of("v1", "Pod", "ns1", "owner", "owner-2");
    graph.see(&pod("owner"), &[]);
    graph.see(&pod("old"), &[to(&pod("owner"))]);
    graph.happens(Event::ListBegins(PODS));
    for (identity, owners) in
        [(&again, vec![]), (&pod("old"), vec![to(&pod("owner"))]), (&pod("new"), vec![to(&again)])]
    {
        graph.see(identity, &owners);
    }
    assert_eq!(graph.happens(Event::ListEnds(NODES)), []);
    assert_eq!(graph.happens(Event::ListEnds(PODS)), [try_delete("old")]);
    assert_eq!(graph.item(&Uid::new("owner")), None);
    assert!(graph.item(&Uid::new("owner-2")).is_some());
}

#[test]
fn objects_of_an_unserved_resource_are_verified() {
    let mut graph = Graph::default();
    let node = of("v1", "Node", "", "node1", "node1");
    graph.see(&pod("owner"), &[to(&node)]);
    graph.see(&node, &[blocking(&node)]);
    graph.see(&pod("a"), &[to(&pod("owner"))]);
    assert_eq!(graph.happens(Event::Unserved(PODS)), [verify("owner")]);
    graph.check();
    assert_eq!(graph.len(), 1);
    assert!(graph.item(&Uid::new("a")).unwrap().is_virtual, "it is a dependent that may still exist");
    assert_eq!(graph.dependents(&Uid::new("owner")).len(), 1);
    // Shown again or proven absent, the object is no longer unverified.
    graph.see(&pod("a"), &[to(&pod("owner"))]);
    graph.happens(Event::ProvenAbsent(pod("owner")));
    assert!(!graph.item(&Uid::new("a")).unwrap().is_virtual);
    assert_eq!(graph.item(&Uid::new("owner")), None);
}

/// Returns a graph in which a node is deleted in the foreground, and a pod blocks that.
fn node_that_waits_for_pod() -> (Graph, Identity) {
    let mut graph = Graph::default();
    let node = of("v1", "Node", "", "node1", "node1");
    graph.happens(Event::Seen(foreground(&node, &[])));
    graph.see(&pod("a"), &[blocking(&node)]);
    (graph, node)
}

/// As the objects of a custom resource whose definition was deleted.
#[test]
fn objects_of_a_dropped_resource_hold_no_owner() {
    let (mut graph, node) = node_that_waits_for_pod();
    assert_eq!(graph.happens(Event::Dropped(PODS)), [try_delete("node1")]);
    graph.check();
    assert_eq!((graph.item(&Uid::new("a")), graph.dependents(&node.uid)), (None, vec![]));
}

#[test]
fn an_unlisted_owner_is_not_proven_absent() {
    let mut graph = Graph::default();
    graph.see(&pod("owner"), &[]);
    graph.see(&of("v1", "Node", "", "a", "a"), &[to(&pod("owner"))]);
    graph.happens(Event::ListBegins(PODS));
    assert_eq!(graph.happens(Event::ListEnds(PODS)), [try_delete("a")]);
    assert!(!graph.is_absent(&pod("owner")));
}

/// Without it, the end of a foreground deletion or the release of dependents would leave it out.
#[test]
fn an_unlisted_dependent_holds_its_owner_in_deletion() {
    let (mut graph, node) = node_that_waits_for_pod();
    graph.happens(Event::ListBegins(PODS));
    assert_eq!(graph.happens(Event::ListEnds(PODS)), [verify("a")]);
    assert_eq!(graph.dependents(&node.uid).len(), 1);
    assert_eq!(graph.happens(Event::ProvenAbsent(pod("a"))), [try_delete("node1")]);
    assert_eq!(graph.dependents(&node.uid).len(), 0);
}

#[test]
fn lists_gaps_and_older_versions_end_all_proofs() {
    let older = with_version(seen(&pod("b"), &[]), "6");
    for event in [Event::ListBegins(NODES), Event::Interrupted, Event::Seen(older)] {
        let mut graph = Graph::default();
        graph.see(&pod("owner"), &[]);
        graph.see(&pod("a"), &[to(&pod("owner"))]);
        graph.see(&pod("b"), &[]);
        graph.happens(deleted(&pod("owner")));
        assert!(graph.is_absent(&pod("owner")));
        graph.happens(event.clone());
        assert!(!graph.is_absent(&pod("owner")), "{event:?}");
    }
}

#[test]
fn objects_that_share_a_uid_combine_their_references() {
    let mirror = of("example.com/v1", "Mirror", "ns1", "a", "a");
    let mirrored = |owners: &[OwnerReference]| Event::Seen(Observed { resource: MIRRORS, ..seen(&mirror, owners) });
    let (x, y) = (to(&pod("x")), to(&pod("y")));
    let mut graph = Graph::default();
    graph.see(&pod("a"), std::slice::from_ref(&x));
    graph.happens(mirrored(&[to(&pod("before"))]));
    graph.happens(mirrored(std::slice::from_ref(&y)));
    assert_eq!(graph.owners(&Uid::new("a")), [x.clone(), y.clone()]);
    assert_eq!(graph.item(&Uid::new("a")).unwrap().identity, pod("a"));
    assert_eq!((graph.shown_version(&Uid::new("a")), graph.others_of(&Uid::new("a"))), (None, vec![mirror.clone()]));
    assert_eq!(*graph.namespace(&Uid::new("a")), *pod("a").namespace);
    for event in [Event::ListBegins(MIRRORS), mirrored(std::slice::from_ref(&y)), Event::ListEnds(MIRRORS)] {
        graph.happens(event);
        assert_eq!(graph.others_of(&Uid::new("a")), std::slice::from_ref(&mirror));
    }
    assert_eq!(graph.happens(deleted(&pod("a"))), [try_delete("a")]);
    assert_eq!((graph.item(&Uid::new("a")).unwrap().identity, graph.owners(&Uid::new("a"))), (mirror.clone(), vec![y]));
    assert_eq!(graph.others_of(&Uid::new("a")), []);
    graph.happens(Event::Deleted(MIRRORS, mirror));
    assert_eq!(graph.store.nodes().count(), 0);
}

#[test]
fn an_object_without_a_uid_is_not_taken_up() {
    let mut graph = Graph::default();
    assert_eq!(graph.see(&of("v1", "Pod", "ns1", "a", ""), &[to(&pod("owner"))]), []);
    assert_eq!(graph.store.nodes().count(), 0);
}

#[test]
fn another_version_of_a_resource_takes_over_its_objects() {
    let (old, new) =
        (of("example.com/v1beta1", "Widget", "ns1", "a", "a"), of("example.com/v1", "Widget", "ns1", "a", "a"));
    let mut graph = Graph::default();
    graph.see(&old, &[]);
    graph.see(&pod("child"), &[to(&old)]);
    assert_eq!(graph.see(&new, &[]), []);
    assert_eq!(graph.item(&new.uid).unwrap().identity, new);
    assert_eq!(graph.owners(&Uid::new("child")), [to(&old)], "as it wrote it");
    assert_eq!(graph.others_of(&new.uid), []);
    let misnamed = OwnerReference { name: "b".into(), ..to(&new) };
    graph.see(&pod("child"), std::slice::from_ref(&misnamed));
    assert_eq!(graph.owners(&Uid::new("child")), [misnamed], "as it wrote it");
}

#[test]
fn shown_objects_precede_hidden_ones_with_the_same_uid() {
    let (hidden, shown) = (of("v1", "Node", "", "owner", "owner"), pod("owner"));
    let mut graph = Graph::default();
    graph.see(&pod("child"), &[to(&hidden)]);
    graph.see(&hidden, &[]);
    graph.happens(Event::Unserved(NODES));
    assert!(graph.item(&hidden.uid).unwrap().is_virtual);
    graph.see(&shown, &[]);
    let item = graph.item(&hidden.uid).unwrap();
    assert_eq!((item.identity, item.is_virtual, item.resource), (shown.clone(), false, PODS));
    assert_eq!(graph.others_of(&hidden.uid), std::slice::from_ref(&hidden));
    assert_eq!(graph.happens(deleted(&shown)), [verify("owner")]);
    let item = graph.item(&hidden.uid).unwrap();
    assert_eq!((item.identity, item.is_virtual, item.resource), (hidden, true, NODES));
    graph.happens(deleted(&pod("child")));
    assert_eq!((graph.store.nodes().count(), graph.shared.len()), (0, 0));
}

/// The steps of upstream's `TestProcessEvent`: adds, a deletion in the middle, a cycle, the reverse order.
#[test]
fn the_directions_agree_after_every_event_in_any_order() {
    let adds = [("1", vec![]), ("2", vec!["1"]), ("3", vec!["1", "2"]), ("4", vec!["2"]), ("5", vec!["3", "5"])];
    for is_reverse in [false, true] {
        let mut graph = Graph::default();
        let mut order: Vec<_> = adds.iter().collect();
        order.sort_by_key(|(name, _)| if is_reverse { std::cmp::Reverse(*name) } else { std::cmp::Reverse("") });
        for (name, owners) in order {
            graph.see(&pod(name), &owners.iter().map(|owner| to(&pod(owner))).collect::<Vec<_>>());
            graph.check();
        }
        graph.happens(deleted(&pod("2")));
        graph.check();
        graph.see(&pod("1"), &[to(&pod("3"))]);
        graph.check();
        assert_eq!(graph.len(), 4);
    }
}
