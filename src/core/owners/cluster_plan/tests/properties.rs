//! What holds for the plan of any cluster.

use proptest::prelude::*;

use super::cluster;
use crate::model::{Identity, Seen, Uid};
use crate::owners::cluster_plan::{doubtful_owners, plan, wave};
use crate::owners::cluster_state::ClusterState;
use crate::owners::{ActionWord, ClusterSnapshot, OwnerAnswer, OwnerRead};
use crate::testing::any_forest::any_forest;

/// A random forest in which each owner in doubt was read.
fn any_cluster() -> impl Strategy<Value = ClusterSnapshot> {
    (any_forest(), any::<[u8; 16]>()).prop_map(|(objects, answers)| {
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
