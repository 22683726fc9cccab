//! Inputs after reports of people who operate clusters (`tests/data/cases`), and what is right for each.

use kubegc::model::Snapshot;
use kubegc::plan::{KeepReason, Kind, Plan, Policy, Scope, decide};

fn plan(name: &str) -> Plan {
    let path = format!("{}/tests/data/cases/{name}", env!("CARGO_MANIFEST_DIR"));
    let snapshot: Snapshot = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    decide(&snapshot, &Policy::default(), Scope::All)
}

fn kept(plan: &Plan, kind: Kind) -> Vec<(&str, &KeepReason)> {
    let of_kind = plan.kept.iter().filter(|kept| kept.kind == kind);
    of_kind.map(|kept| (&kept.id[..4], &kept.reason)).collect()
}

fn removed(plan: &Plan, kind: Kind) -> Vec<String> {
    let of_kind = plan.actions.iter().filter(|action| action.target.kind() == kind);
    of_kind.map(|action| action.target.id()[..4].to_owned()).collect()
}

/// containerd lists a container that runs as UNKNOWN and created in 1970, if its status file is empty.
#[test]
fn a_container_of_unknown_state_and_age_is_not_removed() {
    let plan = plan("N6a-unknown-container-created-zero.json");
    assert!(kept(&plan, Kind::Container).contains(&("ffda", &KeepReason::MaybeRunning {})), "{:#?}", plan.kept);
    assert!(!removed(&plan, Kind::Container).contains(&"ffda".to_owned()));
}

#[test]
fn the_sandbox_of_the_highest_attempt_is_the_newest() {
    let plan = plan("N6b-sandbox-created-zero.json");
    let sandboxes = kept(&plan, Kind::Sandbox);
    assert_eq!(sandboxes.iter().map(|(id, _)| *id).collect::<Vec<_>>(), ["b258"], "{:#?}", plan.kept);
    assert_eq!(removed(&plan, Kind::Sandbox), ["9f6b"]);
}
