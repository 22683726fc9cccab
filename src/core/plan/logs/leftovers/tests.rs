//! Which logs of missing instances remain, and why.

use std::time::Duration;

use crate::model::{ListCounts, Phase, Seen, Snapshot};
use crate::plan::document::action::Kind;
use crate::plan::tests::node::{Node, hold, node};
use crate::rules::{Limits, Rule, RuleSubject, RuleText, Then};

/// Returns a node on which such logs are removed.
fn collecting() -> Node {
    node().set(|policy| policy.logs.leftover_max_age = Duration::from_secs(1))
}

/// Returns a pod with a running container that was restarted five times.
fn restarted() -> Node {
    collecting().pod("web").running("web/app", "now", 30).whose(|container| container.attempt = 5)
}

/// Adds the attempt of the container that was added last.
fn dead(node: Node, attempt: u32) -> Node {
    let id = format!("dead-{attempt}");
    node.exited("web/app", &id, 40).whose(|container| container.attempt = attempt)
}

fn most(node: Node, limit: Option<u64>) -> Node {
    node.set(|policy| policy.containers.max_per_pod_container = limit)
}

fn no_containers(snapshot: &mut Snapshot) {
    snapshot.containers = Seen::NotSeen("no answer".to_owned());
}

/// Makes the ages of the logs unknown.
fn no_age(snapshot: &mut Snapshot) {
    let Seen::Seen(logs) = &mut snapshot.leftover_logs else { return };
    for log in logs {
        log.modified_at = None;
    }
}

#[test]
#[rustfmt::skip]
fn logs_count_as_dead_instances() {
    let logs = |node: Node| node.leftover("web/app", 1, 90).leftover("web/app", 2, 80).leftover("web/app", 3, 70);
    let fell = ListCounts { containers: 9, ..ListCounts::default() };
    hold(&[Kind::LogFile], [
        ("the newest one is within the limit", logs(restarted()),
            "3.log: within_max_per_pod_container", "1.log 2.log: over_max_per_pod_container"),
        ("a dead instance counts", logs(dead(restarted(), 4)), "", "1.log 2.log 3.log: over_max_per_pod_container"),
        ("a limit of two", most(logs(dead(restarted(), 4)), Some(2)),
            "3.log: within_max_per_pod_container", "1.log 2.log: over_max_per_pod_container"),
        ("what the runtime has comes first", most(logs(dead(dead(restarted(), 4), 0)), Some(2)),
            "", "1.log 2.log 3.log: over_max_per_pod_container"),
        ("none is allowed", most(logs(restarted()), Some(0)), "", "1.log 2.log 3.log: over_max_per_pod_container"),
        ("no limit", most(logs(restarted()), None), "1.log 2.log 3.log: no_limit", ""),
        ("what is too young does not count", logs(dead(restarted(), 4)).set(|policy| policy.containers.min_age = Duration::from_mins(85)),
            "2.log 3.log: younger_than_min_age", "1.log: over_max_per_pod_container"),
        ("an unknown age", restarted().leftover("web/app", 1, 90)
            .but(no_age)
            .set(|policy| policy.containers.max_per_pod_container = Some(0)), "1.log: within_leftover_max_age", ""),
        ("by default a pod keeps all", logs(restarted()).set(|policy| policy.logs.leftover_max_age = Duration::ZERO), "", ""),
        ("what is younger than the setting does not count", logs(restarted()).set(|policy| policy.logs.leftover_max_age = Duration::from_mins(75)),
            "2.log: within_max_per_pod_container, 3.log: within_leftover_max_age", "1.log: over_max_per_pod_container"),
        ("a removal failed before", most(logs(restarted()), Some(0)).failed("log_file//var/log/pods/default_web_web/app/1.log", 1),
            "1.log: backing_off", "2.log 3.log: over_max_per_pod_container"),
        ("the instance exists", restarted().leftover("web/app", 5, 90), "5.log: in_use", ""),
        ("a newer instance would be younger", restarted().leftover("web/app", 6, 90), "6.log: newest_instance", ""),
        ("another container of the pod", restarted().leftover("web/db", 1, 90), "1.log: newest_instance", ""),
        ("the list of containers became much shorter",
            logs(restarted()).but(|snapshot| snapshot.memory.last_counts = Some(fell)), "1.log 2.log 3.log: list_fell", ""),
        ("the list of containers is unavailable", logs(restarted()).but(no_containers),
            "1.log 2.log 3.log: runtime_not_seen", ""),
        ("the logs are unavailable", restarted().but(|snapshot| snapshot.leftover_logs = Seen::NotSeen("blocked".to_owned())),
            "", ""),
        ("a terminated pod", collecting().pod_in(Phase::Succeeded, "web").exited("web/app", "last", 30).evicting()
            .whose(|container| container.attempt = 5).leftover("web/app", 4, 70), "", "4.log: pod_terminal"),
        ("a deleted pod whose directory is kept", collecting().deleted("web").exited("web/app", "last", 30).failed("container/last", 1)
            .leftover("web/app", 4, 70).dir("default_web_web"), "", "4.log: pod_deleted"),
        ("the log directory of a deleted pod is removed as a whole", logs(collecting().deleted("web").dir("default_web_web")),
            "", ""),
    ]);
}

#[test]
#[rustfmt::skip]
fn the_rules_for_containers_decide_logs_too() {
    let logs = |when: &str, then: Then| {
        let node = restarted().leftover("web/app", 2, 80).leftover("web/app", 3, 70);
        let (name, when, note) = ("r".to_owned(), when.to_owned(), String::new());
        let text = RuleText { name, subject: RuleSubject::Container, when, then, until: None, resource: String::new(), note };
        node.set(|policy| policy.rules = [Rule::compile(text).unwrap()].into_iter().collect())
    };
    let none = Then::Limits(Limits { max_per_pod_container: Some(0), ..Limits::default() });
    let old = Then::Limits(Limits { min_age: Some(Duration::from_mins(75)), ..Limits::default() });
    hold(&[Kind::LogFile], [
        ("a rule keeps", logs("container.name == 'app'", Then::Keep), "2.log 3.log: rule", ""),
        ("a rule removes", logs("pod.namespace == 'default'", Then::Remove), "", "2.log 3.log: rule"),
        ("a rule has a limit", logs("container.attempt == 2", none),
            "3.log: within_max_per_pod_container", "2.log: rule"),
        ("a rule has a minimum age", logs("true", old), "2.log: within_max_per_pod_container, 3.log: rule", ""),
        ("what only the runtime knows keeps", logs("container.image == 'x'", Then::Keep), "2.log 3.log: rule", ""),
        ("what only the runtime knows removes nothing", logs("container.exit_code == 0", Then::Remove),
            "3.log: within_max_per_pod_container", "2.log: over_max_per_pod_container"),
    ]);
}
