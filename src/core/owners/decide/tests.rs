//! The table of decisions: the state of each owner, and what happens to the object.

use super::*;
use crate::model::ApiKind;
use crate::owners::{Item, ResourceId};

fn identity(name: &str) -> Identity {
    Identity { kind: ApiKind::new("v1", "Pod"), namespace: "ns1".into(), name: name.into(), uid: Uid::new(name) }
}

fn reference(name: &str) -> OwnerReference {
    let Identity { kind, name, uid, .. } = identity(name);
    OwnerReference { kind, name, uid, controller: None, blocking: Some(true) }
}

/// An object with the owners `a`, `b`, `c`, as many as needed.
fn object(owners: usize) -> ObjectMeta {
    let owners = ["a", "b", "c"].into_iter().take(owners).map(reference).collect();
    ObjectMeta { owners, ..ObjectMeta::default() }
}

fn deleting(orphans: bool, is_foreground: bool) -> ObjectMeta {
    ObjectMeta { deletion_timestamp: Some(jiff::Timestamp::UNIX_EPOCH), ..with_finalizers(orphans, is_foreground) }
}

fn with_finalizers(orphans: bool, is_foreground: bool) -> ObjectMeta {
    let ours = [(orphans, ORPHAN), (is_foreground, FOREGROUND)].into_iter().filter(|(has, _)| *has);
    ObjectMeta { finalizers: ours.map(|(_, finalizer)| finalizer.to_owned()).collect(), ..object(1) }
}

fn dependent(name: &str, blocking: bool, waits_for_dependents: bool) -> Dependent {
    let item = Item {
        identity: identity(name),
        is_virtual: false,
        is_deleting: waits_for_dependents,
        waits_for_dependents,
        left_out_owners: 0,
        resource: ResourceId::default(),
    };
    Dependent { item, reference: OwnerReference { blocking: Some(blocking), ..reference("object") } }
}

fn delete(propagation: Propagation, reason: DeleteReason) -> Verdict {
    Verdict::Delete { propagation, unblock: false, reason }
}

fn drops(names: &[&str]) -> Verdict {
    Verdict::DropReferences(names.iter().map(|name| reference(name)).collect())
}

#[test]
fn the_states_of_the_owners_decide() {
    use DeleteReason::*;
    use OwnerState::*;
    use Propagation::*;
    let unverified = || Unverified("timeout".to_owned());
    let rows = [
        ("no owner: kept", vec![], Verdict::Keep(ObjectKeepReason::NoOwner)),
        ("an owner that exists keeps", vec![Exists], Verdict::Keep(ObjectKeepReason::OwnerExists)),
        ("an absent owner deletes", vec![Absent], delete(Background, OwnersAbsent)),
        ("two absent owners delete", vec![Absent, Absent], delete(Background, OwnersAbsent)),
        ("a waiting owner deletes", vec![WaitsForDependents], delete(Background, OwnerWaits)),
        ("an owner that was orphaned is dropped, whatever the others are", vec![Absent, Orphaned], drops(&["b"])),
        ("one of two exists: the other reference is dropped", vec![Absent, Exists], drops(&["a"])),
        ("one exists, one waits: the waiting one is freed", vec![Exists, WaitsForDependents], drops(&["b"])),
        ("both kinds are dropped", vec![WaitsForDependents, Exists, Absent], drops(&["a", "c"])),
        (
            "an unserved kind keeps",
            vec![Absent, KindNotServed],
            Verdict::Keep(ObjectKeepReason::OwnerKindNotServed(reference("b"))),
        ),
        (
            "a namespaced owner keeps",
            vec![Namespaced],
            Verdict::Keep(ObjectKeepReason::OwnerNamespaced(reference("a"))),
        ),
        (
            "an unverified owner keeps, whatever the others are",
            vec![Absent, WaitsForDependents, unverified()],
            Verdict::Keep(ObjectKeepReason::OwnerUnverified(reference("c"), "timeout".to_owned())),
        ),
    ];
    for (name, owners, expected) in rows {
        assert_eq!(decide(&object(owners.len()), &owners, &[]), expected, "{name}");
    }
}

#[test]
fn an_object_with_owners_that_are_not_kept_is_kept() {
    let live = ObjectMeta { left_out_owners: 1, ..object(1) };
    let verdict = decide(&live, &[OwnerState::Absent], &[]);
    assert!(matches!(verdict, Verdict::Keep(ObjectKeepReason::OwnersNotRead(_))), "{verdict:?}");
    let live = ObjectMeta { left_out_owners: 1, ..deleting(false, true) };
    assert_eq!(decide(&live, &[], &[]), Verdict::EndForeground, "its deletion is a matter of its dependents");
}

#[test]
fn an_owner_that_was_not_read_counts_as_unverified() {
    let verdict = decide(&object(2), &[OwnerState::Absent], &[]);
    let Verdict::Keep(ObjectKeepReason::OwnerUnverified(owner, _)) = verdict else { panic!("{verdict:?}") };
    assert_eq!(owner, reference("b"));
}

#[test]
fn a_finalizer_on_the_object_selects_the_propagation() {
    let absent = [OwnerState::Absent];
    let rows = [(true, false, Propagation::Orphan), (false, true, Propagation::Foreground)];
    for (orphans, is_foreground, expected) in rows {
        let expected = delete(expected, DeleteReason::OwnersAbsent);
        assert_eq!(decide(&with_finalizers(orphans, is_foreground), &absent, &[]), expected);
    }
}

#[test]
fn dependents_of_a_waiting_owner_are_deleted_in_foreground() {
    let waits = [OwnerState::WaitsForDependents];
    let foreground =
        |unblock| Verdict::Delete { propagation: Propagation::Foreground, unblock, reason: DeleteReason::OwnerWaits };
    let orphaning = with_finalizers(true, false);
    assert_eq!(decide(&object(1), &waits, &[dependent("d", false, false)]), foreground(false));
    assert_eq!(decide(&orphaning, &waits, &[dependent("d", false, false)]), foreground(false));
    // A dependent that waits as well may be the waiting owner: the references are unblocked first.
    assert_eq!(decide(&object(1), &waits, &[dependent("d", true, true)]), foreground(true));
    // With an absent owner beside it, the same.
    let both = [OwnerState::Absent, OwnerState::WaitsForDependents];
    assert_eq!(decide(&object(2), &both, &[dependent("d", true, false)]), foreground(false));
    // All owners absent: the dependents do not matter.
    let background = delete(Propagation::Background, DeleteReason::OwnersAbsent);
    assert_eq!(decide(&object(1), &[OwnerState::Absent], &[dependent("d", true, true)]), background);
}

#[test]
fn a_deletion_in_progress_depends_only_on_dependents() {
    let owners = [OwnerState::Absent];
    let (blocks, free) = (dependent("blocks", true, false), dependent("free", false, false));
    let waits = dependent("waits", true, true);
    let uid = |name| Uid::new(name);
    let rows = [
        (deleting(false, false), vec![blocks.clone()], Verdict::Keep(ObjectKeepReason::BeingDeleted)),
        (deleting(false, true), vec![], Verdict::EndForeground),
        (deleting(false, true), vec![free.clone()], Verdict::EndForeground),
        (deleting(false, true), vec![free.clone(), blocks.clone()], Verdict::WaitForDependents(vec![uid("blocks")])),
        (deleting(false, true), vec![waits], Verdict::WaitForDependents(vec![])),
        (deleting(true, false), vec![free, blocks], Verdict::Orphan(vec![uid("free"), uid("blocks")])),
        (deleting(true, false), vec![], Verdict::Orphan(vec![])),
    ];
    for (live, dependents, expected) in rows {
        assert_eq!(decide(&live, &owners, &dependents), expected, "{live:?} {dependents:?}");
    }
}
