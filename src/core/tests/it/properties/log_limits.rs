//! Limits on log files, on random nodes with random log files.

use std::collections::{BTreeMap, BTreeSet};

use kubegc_core::model::{ContainerLog, ContainerLogs, PodRef, Seen, Snapshot, attempt_of_log};
use kubegc_core::plan::{Kind, Plan, RemoveReason, Scope, confirm, decide};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::nodes::{a_moment, a_node, a_policy, a_uid};

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn limits_leave_each_instance_a_log(mut node in a_node(), mut policy in a_policy(), logs in container_logs(), pod in 1..100_u64, all in 1..200_u64) {
        node.container_logs = Seen::Seen(logs);
        policy.logs.limits = [format!("pod {pod}B"), format!("node {all}B")].map(|limit| limit.parse().unwrap()).to_vec();
        let plan = decide(&node, &policy, Scope::All);
        let removed = removed(&plan);
        for logs in node.container_logs.as_ref().unwrap() {
            holds(&node, logs, &removed)?;
        }
        let decided: Vec<_> = plan.decisions().filter(|one| one.kind() == Kind::LogFile).map(|one| one.id().into_owned()).collect();
        prop_assert_eq!(decided.iter().collect::<BTreeSet<_>>().len(), decided.len(), "each file is decided once");
        let confirmed = confirm(plan.clone(), &node, &policy);
        prop_assert_eq!((confirmed.plan.actions, confirmed.denied), (plan.actions, vec![]));
    }
}

/// Returns the paths that a plan removes for a limit.
fn removed(plan: &Plan) -> BTreeSet<String> {
    let over = plan.actions.iter().filter(|action| matches!(action.reason, RemoveReason::OverLogLimit(_)));
    over.map(|action| action.target.id()).collect()
}

/// An instance in the runtime keeps its current file, and the newest instance a file.
fn holds(node: &Snapshot, logs: &ContainerLogs, removed: &BTreeSet<String>) -> Result<(), TestCaseError> {
    let path = |name: &str| format!("/var/log/pods/{}/{name}", logs.dir().unwrap().display());
    let names = || logs.files.iter().map(|file| file.name.as_str());
    let left: BTreeSet<_> = names().filter(|name| !removed.contains(&path(name))).collect();
    for name in names().filter(|name| removed.contains(&path(name))) {
        let attempt = attempt_of_log(name).unwrap();
        let containers = node.containers.as_ref().into_iter().flatten();
        let is_listed = containers
            .into_iter()
            .any(|one| (one.pod_uid(), &one.name, one.attempt) == (Some(&logs.pod.uid), &logs.container, attempt));
        let has_current = left.contains(format!("{attempt}.log").as_str());
        let has_newer = left.iter().any(|name| attempt_of_log(name) > Some(attempt));
        prop_assert!(!logs.at_least, "{name}");
        prop_assert!(has_current || !is_listed && has_newer, "{name} of {left:?}");
    }
    Ok(())
}

fn container_logs() -> impl Strategy<Value = Vec<ContainerLogs>> {
    const FORMS: [&str; 6] =
        ["", "", ".20261121-100000", ".20261121-100000.gz", ".20261121-100000.tmp", ".20261121-110000.gz"];
    let file = (0..4_u32, select(&FORMS[..]), 1..50_u64, option::weighted(0.9, a_moment()));
    let logs = ((a_uid(), select(&["app", "init"][..])), vec(file, 0..9), proptest::bool::weighted(0.1));
    vec(logs, 0..6).prop_map(|all| {
        let all: BTreeMap<_, _> = all.into_iter().map(|(key, files, at_least)| (key, (files, at_least))).collect();
        let logs = |((uid, container), (files, at_least)): ((String, &str), (Vec<_>, bool))| {
            let file =
                |(attempt, form, size_bytes, modified_at)| (format!("{attempt}.log{form}"), (size_bytes, modified_at));
            let files: BTreeMap<_, _> = files.into_iter().map(file).collect();
            let file = |(name, (size_bytes, modified_at))| ContainerLog { name, size_bytes, modified_at };
            let pod = PodRef { name: format!("pod-{uid}"), namespace: "ns".into(), uid: uid.into() };
            ContainerLogs {
                pod,
                container: container.to_owned(),
                files: files.into_iter().map(file).collect(),
                at_least,
            }
        };
        all.into_iter().map(logs).collect()
    })
}
