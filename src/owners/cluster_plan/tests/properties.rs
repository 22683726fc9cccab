//! What holds for the plan of any cluster.

use proptest::prelude::*;

use super::{cluster, identity, object};
use crate::model::{FOREGROUND, Identity, ORPHAN, ObjectMeta, Seen, Uid};
use crate::owners::cluster_plan::{doubtful_owners, plan, wave};
use crate::owners::cluster_state::ClusterState;
use crate::owners::{ActionWord, ClusterSnapshot, OwnerAnswer, OwnerRead};

/// What is generated for one object.
#[derive(Clone, Debug)]
struct Sketch {
    exists: bool,
    kind: usize,
    namespace: usize,
    owners: Vec<(usize, Option<usize>, bool)>,
    finalizers: Vec<&'static str>,
    is_deleting: bool,
}

fn sketch() -> impl Strategy<Value = Sketch> {
    let owners = prop::collection::vec((0..8usize, prop::option::weighted(0.2, 0..4usize), any::<bool>()), 0..3);
    let finalizers = prop::sample::subsequence(vec!["example.com/hold", FOREGROUND, ORPHAN], 0..2);
    (any::<bool>(), 0..3usize, 0..2usize, owners, finalizers, prop::bool::weighted(0.2)).prop_map(
        |(exists, kind, namespace, owners, finalizers, is_deleting)| Sketch {
            exists,
            kind,
            namespace,
            owners,
            finalizers,
            is_deleting,
        },
    )
}

fn identity_of(at: usize, kind: usize, namespace: usize) -> Identity {
    let (api_version, kind) =
        [("v1", "ConfigMap"), ("apps/v1", "Deployment"), ("v1", "Node"), ("old/v1", "Thing")][kind];
    let namespace = if kind == "Node" { "" } else { ["ns1", "ns2"][namespace] };
    identity(api_version, kind, namespace, &format!("o{at}"))
}

/// Objects whose owners exist or not, with the right coordinates or not. Each owner in doubt was read.
fn any_cluster() -> impl Strategy<Value = ClusterSnapshot> {
    (prop::collection::vec(sketch(), 8), any::<[u8; 16]>()).prop_map(|(sketches, answers)| {
        let known: Vec<_> = (0..8).map(|at| identity_of(at, sketches[at].kind, sketches[at].namespace)).collect();
        let make = |(at, sketch): (usize, &Sketch)| {
            let (identity, meta) = object(&known[at], &[]);
            let owner = |(owner, kind, blocking): &(usize, Option<usize>, bool)| {
                let meant = kind.map_or_else(|| known[*owner].clone(), |kind| identity_of(*owner, kind, 0));
                crate::model::OwnerReference { blocking: Some(*blocking), ..super::to(&meant) }
            };
            let owners = sketch.owners.iter().map(owner).collect();
            let finalizers = sketch.finalizers.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
            let is_deleting = sketch.is_deleting && !finalizers.is_empty();
            let deletion_timestamp = is_deleting.then_some(jiff::Timestamp::UNIX_EPOCH);
            (identity, ObjectMeta { deletion_timestamp, finalizers, owners, ..meta })
        };
        let objects: Vec<_> = sketches.iter().enumerate().filter(|(_, sketch)| sketch.exists).map(make).collect();
        let mut snapshot = cluster(&objects);
        let answer = |(owner, answer): (Identity, &u8)| OwnerRead {
            owner,
            read_at: jiff::Timestamp::UNIX_EPOCH,
            answer: match answer % 4 {
                0 => OwnerAnswer::NotFound,
                1 => OwnerAnswer::OtherUid(Uid::new("other")),
                2 => OwnerAnswer::Exists { waits_for_dependents: answer % 8 == 2 },
                _ => OwnerAnswer::Unavailable("timeout".to_owned()),
            },
        };
        snapshot.owners = doubtful_owners(&snapshot).into_iter().zip(answers.iter().cycle()).map(answer).collect();
        snapshot
    })
}

/// The same cluster with every list in reverse order.
fn reversed(mut snapshot: ClusterSnapshot) -> ClusterSnapshot {
    for listed in &mut snapshot.resources {
        if let Seen::Seen(objects) = &mut listed.objects {
            objects.reverse();
        }
    }
    snapshot.resources.reverse();
    snapshot.served.reverse();
    snapshot.owners.reverse();
    snapshot
}

proptest! {
    #[test]
    fn lists_in_another_order_give_the_same_plan(snapshot in any_cluster()) {
        prop_assert_eq!(plan(&snapshot), plan(&reversed(snapshot)));
    }

    #[test]
    fn deleted_objects_have_only_absent_or_waiting_owners(snapshot in any_cluster()) {
        let plan = plan(&snapshot);
        for action in plan.actions.iter().chain(&plan.predicted).filter(|action| action.action == ActionWord::Delete) {
            for owner in &action.owners {
                prop_assert!(["absent", "waits_for_dependents"].contains(&&*owner.state), "{action:?}");
            }
        }
    }

    #[test]
    fn without_live_reads_no_unlisted_owner_causes_a_deletion(snapshot in any_cluster()) {
        let snapshot = ClusterSnapshot { owners: Vec::new(), ..snapshot };
        for action in plan(&snapshot).actions.iter().filter(|action| action.action == ActionWord::Delete) {
            prop_assert!(action.owners.iter().all(|owner| owner.state == "waits_for_dependents"), "{action:?}");
        }
    }

    #[test]
    fn nothing_is_left_after_the_plan_and_predictions(snapshot in any_cluster()) {
        let mut cluster = ClusterState::new(&snapshot);
        let waves = std::iter::from_fn(|| Some(wave(&mut cluster)).filter(|actions| !actions.is_empty()));
        prop_assert!(waves.count() < 50);
        prop_assert!(wave(&mut cluster).is_empty());
    }

    #[test]
    fn every_object_with_owners_is_acted_on_or_kept(snapshot in any_cluster()) {
        let plan = plan(&snapshot);
        let objects = snapshot.resources.iter().flat_map(|listed| listed.objects.as_ref().into_iter().flatten());
        let concerned = objects.filter(|object| !object.owners.is_empty() || object.deletion_timestamp.is_some());
        for object in concerned {
            let acts = plan.actions.iter().filter(|action| action.object.uid == object.uid).count();
            let keeps = plan.kept.iter().filter(|kept| kept.object.uid == object.uid).count();
            prop_assert_eq!(acts + keeps, 1);
        }
    }
}
