use std::path::Path;

use super::*;
use crate::model::{ArchivedPod, NodeDisk, Phase, Pod, PodRef, Seen, Snapshot};
use crate::plan::document::reason::KeepReason;
use crate::plan::policy::Policy;
use crate::plan::policy::pressure::Pressure;
use crate::plan::tests::node::{Node, ago, node};
use crate::plan::{Action, Plan};
use crate::rules::{RuleSubject, RuleText, Rules, Then};

const MIB: u64 = 1 << 20;

/// Adds a file that a pod `NAMESPACE/POD` lost so many minutes ago.
fn archived(node: Node, pod: &str, minutes: i64, mib: u64) -> Node {
    let (namespace, name) = pod.split_once('/').unwrap();
    let pod = PodRef { uid: format!("u-{name}").as_str().into(), namespace: namespace.into(), name: name.into() };
    let name = format!("{minutes}.log");
    let log = ArchivedLog { pod, container: "app".into(), name, size_bytes: mib * MIB, lost_at: Some(ago(minutes)) };
    node.but(move |snapshot| {
        let logs = snapshot.archived_logs.as_ref().into_iter().flatten().chain([&log]).cloned();
        snapshot.archived_logs = Seen::Seen(logs.collect());
    })
}

fn nodes() -> Node {
    let files = [("shop/web", 50, 3), ("shop/web", 40, 2), ("shop/db", 30, 4), ("lab/try", 20, 8), ("lab/try", 10, 1)];
    files.into_iter().fold(node(), |node, (pod, minutes, mib)| archived(node, pod, minutes, mib))
}

fn plan(node: Node, limits: &[&str]) -> Plan {
    let limits: Vec<ArchiveLimit> = limits.iter().map(|limit| limit.parse().unwrap()).collect();
    node.set(move |policy: &mut Policy| policy.logs.archive.clone_from(&limits)).plan()
}

/// Returns the files that go, in order, each with the limit.
fn removed(node: Node, limits: &[&str]) -> Vec<String> {
    let plan = plan(node, limits);
    let line = |action: &Action| {
        let limit = match &action.reason {
            RemoveReason::OverArchiveLimit { limit } => limit.clone().unwrap_or("pressure".to_owned()),
            RemoveReason::Rule(reason) => format!("{} {}", reason.rule, reason.limit.as_deref().unwrap()),
            other => panic!("{other:?}"),
        };
        let id = action.target.id();
        let name = Path::new(&id).strip_prefix("/var/log/kubegc/archive").unwrap();
        format!("{}: {limit}", name.display())
    };
    plan.actions.iter().map(line).collect()
}

#[test]
fn what_is_over_a_limit_goes_the_oldest_first() {
    let (web, lab) = ("shop_web_u-web/app", "lab_try_u-try/app");
    let rows: [(&[&str], Vec<String>); 7] = [
        (&["keep 1h"], vec![]),
        (&["keep 45m"], vec![format!("{web}/50.log: keep 45m")]),
        (&["pod 4MiB"], vec![format!("{web}/50.log: pod 4MiB"), format!("{lab}/20.log: pod 4MiB")]),
        (&["namespace 6MiB"], vec![format!("{web}/50.log: namespace 6MiB"), format!("{lab}/20.log: namespace 6MiB")]),
        (&["node 18MiB"], vec![]),
        (
            &["node 10MiB"],
            vec![
                format!("{web}/50.log: node 10MiB"),
                format!("{web}/40.log: node 10MiB"),
                format!("{lab}/20.log: node 10MiB"),
            ],
        ),
        (
            &["node 14MiB", "keep 45m", "pod 8MiB"],
            vec![format!("{web}/50.log: keep 45m"), format!("{lab}/20.log: pod 8MiB")],
        ),
    ];
    for (limits, expected) in rows {
        assert_eq!(removed(nodes(), limits), expected, "{limits:?}");
    }
    assert_eq!(removed(nodes(), &[]), [""; 0], "there is no archive");
}

#[test]
fn under_pressure_of_its_disk_all_goes() {
    let under = |at: &str| {
        let pressure = Pressure::FreeBytes { mountpoint: at.into(), free_bytes: 1, limit_bytes: 2 };
        let disk = NodeDisk { holds: vec![DiskUse::Logs], ..NodeDisk::default() };
        let with_disk = move |snapshot: &mut Snapshot| {
            let mut disk = disk.clone();
            disk.file_system.mountpoint = "/var/log".into();
            snapshot.disks = vec![disk];
        };
        nodes().but(with_disk).set(move |policy: &mut Policy| *policy = policy.under_pressure(pressure.clone()))
    };
    assert_eq!(removed(under("/var/log"), &["keep 1h"]).len(), 5);
    assert!(removed(under("/var/log"), &["keep 1h"])[0].ends_with("50.log: pressure"));
    assert_eq!(removed(under("/var/lib/images"), &["keep 1h"]), [""; 0], "another disk");
}

#[test]
fn what_cannot_be_known_stays() {
    let unknown = |snapshot: &mut Snapshot| {
        let Seen::Seen(logs) = &mut snapshot.archived_logs else { return };
        for log in logs {
            log.lost_at = None;
        }
    };
    assert_eq!(removed(nodes().but(unknown), &["keep 1m"]), [""; 0]);
    let not_seen = nodes().but(|snapshot| snapshot.archived_logs = Seen::NotSeen("no answer".into()));
    let plan = plan(not_seen, &["keep 1m"]);
    assert_eq!((plan.actions.len(), plan.errors.len()), (0, 1));
}

#[test]
fn a_removal_that_failed_waits() {
    let id = "/var/log/kubegc/archive/shop_web_u-web/app/50.log";
    let plan = plan(nodes().failed(&format!("log_file/{id}"), 1), &["keep 45m"]);
    assert!(plan.actions.is_empty());
    assert!(plan.kept.iter().any(|kept| kept.id == id && matches!(kept.reason, KeepReason::BackingOff { .. })));
}

fn rule_text(when: &str, then: Then) -> RuleText {
    let (resource, note) = Default::default();
    RuleText { name: "jobs".into(), subject: RuleSubject::Log, when: when.into(), then, until: None, resource, note }
}

/// Returns the nodes with a rule for logs, and what is known of the pod `shop/web`: it failed.
fn ruled(when: &str, then: Then) -> Node {
    let rules: Rules = [Rule::compile(rule_text(when, then)).unwrap()].into_iter().collect();
    let web = Pod {
        uid: "u-web".into(),
        namespace: "shop".into(),
        name: "web".into(),
        phase: Phase::Failed,
        ..Pod::default()
    };
    let known = ArchivedPod { pod: web, ..ArchivedPod::default() };
    let node = nodes().but(move |snapshot| snapshot.archived_pods = vec![known.clone()]);
    node.set(move |policy: &mut Policy| policy.rules = rules.clone())
}

#[test]
fn a_rule_decides_the_logs_of_its_pods_in_place_of_the_settings() {
    let (web, lab) = ("shop_web_u-web/app", "lab_try_u-try/app");
    let within = |keep_for: Option<u64>, budget: Option<u64>| {
        let keep_for = keep_for.map(Duration::from_mins);
        Then::Limits(Limits { keep_for, budget: budget.map(|mib| mib * MIB), ..Limits::default() })
    };
    let (web_alone, failed) = ("pod.name == 'web'", "pod.phase == 'failed'");
    let rows: [(&str, Then, &[&str], Vec<String>); 6] = [
        (
            web_alone,
            Then::Keep,
            &["keep 1m", "pod 8MiB"],
            vec![
                "shop_db_u-db/app/30.log: keep 1m".into(),
                format!("{lab}/20.log: keep 1m"),
                format!("{lab}/10.log: keep 1m"),
            ],
        ),
        (failed, within(Some(60), None), &["keep 25m"], vec!["shop_db_u-db/app/30.log: keep 25m".into()]),
        (failed, within(Some(45), None), &["keep 1h"], vec![format!("{web}/50.log: jobs keep_for = 45m")]),
        (
            failed,
            within(None, Some(4)),
            &["keep 45m", "namespace 4MiB"],
            vec![format!("{web}/50.log: keep 45m"), format!("{lab}/20.log: namespace 4MiB")],
        ),
        (failed, within(None, Some(4)), &["namespace 9MiB"], vec![format!("{web}/50.log: jobs budget = 4MiB")]),
        (
            "log.bytes > 4194304 && log.age < duration('15m')",
            within(None, Some(8)),
            &["keep 1h"],
            vec![format!("{lab}/20.log: jobs budget = 8MiB")],
        ),
    ];
    for (when, then, limits, expected) in rows {
        assert_eq!(removed(ruled(when, then.clone()), limits), expected, "{when} {then:?} {limits:?}");
    }
    let kept = plan(ruled(web_alone, Then::Keep), &["keep 1m"]).kept;
    assert!(
        kept.iter().any(|kept| kept.id.contains("50.log") && matches!(kept.reason, KeepReason::Rule(_))),
        "{kept:?}"
    );
}

#[test]
fn what_a_rule_keeps_stays_under_pressure() {
    let pressure = Pressure::FreeBytes { mountpoint: "/var/log/pods".into(), free_bytes: 1, limit_bytes: 2 };
    let node = ruled("pod.name == 'web'", Then::Keep);
    let node = node.set(move |policy: &mut Policy| *policy = policy.under_pressure(pressure.clone()));
    let removed = removed(node, &["keep 1h"]);
    assert!(removed.len() == 3 && removed.iter().all(|line| !line.contains("u-web") && line.ends_with("pressure")));
}

/// No pass saw the phases of the others.
#[test]
fn what_could_not_be_evaluated_obeys_the_limits() {
    let node = || ruled("pod.phase == 'failed'", Then::Keep);
    let (db, lab) = ("shop_db_u-db/app", "lab_try_u-try/app");
    let expected =
        [format!("{db}/30.log: keep 1m"), format!("{lab}/20.log: keep 1m"), format!("{lab}/10.log: keep 1m")];
    assert_eq!(removed(node(), &["keep 1m"]), expected);
    let pressure = Pressure::FreeBytes { mountpoint: "/var/log/pods".into(), free_bytes: 1, limit_bytes: 2 };
    let node = node().set(move |policy: &mut Policy| *policy = policy.under_pressure(pressure.clone()));
    assert_eq!(removed(node, &["keep 1h"]).len(), 3);
}

/// The files of one namespace cost another nothing of its share, also of the budget of a rule.
#[test]
fn each_namespace_has_its_share_of_a_limit_for_all() {
    let many = (0..25).fold(node(), |node, pod| archived(node, &format!("lab/p{pod:02}"), pod, 2));
    let node = || archived(many.clone(), "shop/web", 600, 20);
    let all_of_lab = |removed: &[String]| removed.len() == 10 && removed.iter().all(|line| line.starts_with("lab_"));
    let of_node = removed(node(), &["node 50MiB"]);
    assert!(all_of_lab(&of_node), "{of_node:?}");
    let budget = Then::Limits(Limits { budget: Some(50 * MIB), ..Limits::default() });
    let rule = Rule::compile(rule_text("pod.name != ''", budget)).unwrap();
    let of_rule = removed(
        node().set(move |policy: &mut Policy| policy.rules = [rule.clone()].into_iter().collect()),
        &["keep 24h"],
    );
    assert!(all_of_lab(&of_rule), "{of_rule:?}");
}

#[test]
fn the_end_of_a_file_is_that_of_its_limit_on_the_time() {
    let (snapshot, mut policy) = (nodes().snapshot(), Policy::default());
    policy.logs.archive = vec!["node 1MiB".parse().unwrap()];
    assert_eq!(archive_ends(&snapshot, &policy), [None; 5]);
    policy.logs.archive.push("keep 1h".parse().unwrap());
    assert_eq!(archive_ends(&snapshot, &policy)[..2], [Some(ago(-10)), Some(ago(-20))]);
}
