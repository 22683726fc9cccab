//! Which log files over a limit remain, and why.

use crate::model::{ListCounts, Seen, Snapshot};
use crate::plan::confirm;
use crate::plan::document::action::Kind;
use crate::plan::policy::Policy;
use crate::plan::tests::node::{Node, Row, ago, hold, node, removed};
use crate::rules::{Rule, RuleSubject, RuleText, Then};

const ROTATED: [&str; 3] = ["3.log.20261121-100000.gz", "3.log.20261121-110000.gz", "3.log.20261121-113000"];

fn limited(limits: &[&str]) -> Node {
    node().set(|policy| policy.logs.limits = limits.iter().map(|limit| limit.parse().unwrap()).collect())
}

/// Adds a pod whose container runs as its instance 3, and has three rotated files of 100 bytes and a current one of 50.
fn pod(node: Node, uid: &str) -> Node {
    let node = node.pod(uid).running(&format!("{uid}/app"), &format!("c-{uid}"), 300);
    let [a, b, c] = ROTATED;
    let node = node.whose(|container| container.attempt = 3);
    node.log_files(&format!("{uid}/app"), [("3.log", 50, 0), (c, 100, 30), (a, 100, 120), (b, 100, 60)])
}

/// Changes the log files that were added first.
fn files(node: Node, change: impl FnOnce(&mut Vec<crate::model::ContainerLog>)) -> Node {
    node.but(|snapshot| {
        let Seen::Seen(logs) = &mut snapshot.container_logs else { return };
        change(&mut logs[0].files);
    })
}

fn name(file: &mut crate::model::ContainerLog, name: &str) {
    name.clone_into(&mut file.name);
}

fn notes(node: &Node) -> Vec<String> {
    node.plan().log_limits.iter().map(ToString::to_string).collect()
}

#[test]
#[rustfmt::skip]
fn rotated_files_over_a_limit_go_oldest_first() {
    let of = |limit: &str| pod(limited(&[limit]), "web");
    let rule = |when: &str| {
        let (name, when, note, then) = ("r".to_owned(), when.to_owned(), String::new(), Then::Keep);
        [Rule::compile(RuleText { name, subject: RuleSubject::Container, when, then, until: None, resource: String::new(), note }).unwrap()].into_iter().collect()
    };
    let fell = ListCounts { containers: 9, ..ListCounts::default() };
    let path = format!("log_file//var/log/pods/default_web_web/app/{}", ROTATED[0]);
    hold(&[Kind::LogFile], [
        ("no limit", pod(node(), "web"), "", "") as Row,
        ("the limit is met", of("pod 350B"), "", ""),
        ("the limit is a byte lower", of("pod 349B"), "", "3.log.20261121-100000.gz: over_log_limit"),
        ("two are enough", of("pod 200B"), "", "3.log.20261121-100000.gz 3.log.20261121-110000.gz: over_log_limit"),
        ("the current file stays", of("pod 1B"), "",
            "3.log.20261121-100000.gz 3.log.20261121-110000.gz 3.log.20261121-113000: over_log_limit"),
        ("the current file is missing, so the rotated ones are all of the instance", files(of("pod 1B"), |files| drop(files.remove(0))), "", ""),
        ("the kubelet is compressing one, which exists twice",
            files(of("pod 1B"), |files| {
                name(&mut files[1], "3.log.20261121-100000");
                files[2].modified_at = Some(ago(20));
            }), "", "3.log.20261121-110000.gz: over_log_limit"),
        ("the kubelet is writing a compressed one", files(of("pod 1B"), |files| {
            name(&mut files[2], "3.log.20261121-113000.tmp");
            files[2].modified_at = Some(ago(20));
        }), "", "3.log.20261121-110000.gz: over_log_limit"),
        ("the kubelet was ended after it had compressed one", files(of("pod 1B"), |files| name(&mut files[1], "3.log.20261121-100000")), "",
            "3.log.20261121-100000.gz 3.log.20261121-110000.gz 3.log.20261121-100000: over_log_limit"),
        ("a compression that failed left its temporary file", files(of("pod 1B"), |files| name(&mut files[2], "3.log.20261121-113000.tmp")), "",
            "3.log.20261121-113000.tmp 3.log.20261121-110000.gz 3.log.20261121-113000: over_log_limit"),
        ("foreign names", files(of("pod 1B"), |files| {
            for (file, other) in files.iter_mut().skip(1).zip(["3.log.old", "note", "../3.log.20261121-100000"]) { name(file, other); }
        }), "", ""),
        ("not all files were read", of("pod 1B").but(|snapshot| {
            let Seen::Seen(logs) = &mut snapshot.container_logs else { return };
            logs[0].at_least = true;
        }), "", ""),
        ("the age of a file is unknown", files(of("pod 300B"), |files| files[2].modified_at = None), "", "3.log.20261121-110000.gz: over_log_limit"),
        ("a removal failed before", of("pod 300B").failed(&path, 1),
            "3.log.20261121-100000.gz: backing_off", "3.log.20261121-110000.gz: over_log_limit"),
        ("the list of containers fell", of("pod 300B").but(|snapshot| snapshot.memory.last_counts = Some(fell)),
            "3.log.20261121-100000.gz 3.log.20261121-110000.gz 3.log.20261121-113000: list_fell", ""),
        ("the runtime has just started", of("pod 300B").but(|snapshot| snapshot.listening_since = Seen::Seen(Some(ago(0)))),
            "3.log.20261121-100000.gz 3.log.20261121-110000.gz 3.log.20261121-113000: runtime_just_started", ""),
        ("the list of pods is unavailable", of("pod 300B").without_pod_list(), "", "3.log.20261121-100000.gz: over_log_limit"),
        ("the pod is missing and not proven deleted", of("pod 300B").without_pods(),
            "3.log.20261121-100000.gz 3.log.20261121-110000.gz 3.log.20261121-113000: pod_still_runs", ""),
        ("a rule for dead containers does not concern one that runs",
            of("pod 300B").set(|policy| policy.rules = rule("true")), "", "3.log.20261121-100000.gz: over_log_limit"),
        ("the files are unavailable", of("pod 1B").but(|snapshot| snapshot.container_logs = Seen::NotSeen("blocked".to_owned())), "", ""),
    ]);
}

/// A node with log files of instances that the runtime no longer has.
fn lost() -> Node {
    files(pod(limited(&["pod 1B"]), "web"), |files| {
        name(&mut files[1], "2.log");
        name(&mut files[2], "1.log.20261121-100000");
        name(&mut files[3], "2.log.20261121-110000");
    })
}

/// When the kubelet restarts all containers of a pod, it removes them and leaves their logs.
#[test]
#[rustfmt::skip]
fn files_of_lost_instances_go_too_but_for_the_newest() {
    let keep = |when: &str| {
        let (name, when, note, then) = ("r".to_owned(), when.to_owned(), String::new(), Then::Keep);
        [Rule::compile(RuleText { name, subject: RuleSubject::Container, when, then, until: None, resource: String::new(), note }).unwrap()].into_iter().collect()
    };
    hold(&[Kind::LogFile], [
        ("current and rotated ones, oldest first", lost(), "", "1.log.20261121-100000 2.log.20261121-110000 2.log: over_log_limit") as Row,
        ("the runtime has no instance that has a log yet", lost().but(|snapshot| {
            let Seen::Seen(containers) = &mut snapshot.containers else { return };
            containers[0].attempt = 4;
        }), "", "1.log.20261121-100000 2.log.20261121-110000 2.log: over_log_limit"),
        ("a dead instance has its current file", lost().exited("web/app", "dead", 300).whose(|container| container.attempt = 2)
            .set(|policy| policy.containers.max_per_pod_container = None), "", "1.log.20261121-100000 2.log.20261121-110000: over_log_limit"),
        ("this pass removes the container with its logs", lost().exited("web/app", "dead", 300).whose(|container| container.attempt = 2)
            .set(|policy| policy.containers.max_per_pod_container = Some(0)), "", "1.log.20261121-100000: over_log_limit"),
        ("this pass removes the log by its age", lost().leftover("web/app", 2, 90).set(|policy| {
            policy.logs.leftover_max_age = std::time::Duration::from_secs(1);
            policy.containers.max_per_pod_container = Some(0);
        }), "", "2.log: over_max_per_pod_container, 1.log.20261121-100000: over_log_limit"),
        ("its age alone keeps the log", lost().leftover("web/app", 2, 90)
            .set(|policy| policy.logs.leftover_max_age = std::time::Duration::from_secs(1)),
            "", "1.log.20261121-100000 2.log.20261121-110000 2.log: over_log_limit"),
        ("a rule keeps an instance", lost().set(|policy| policy.rules = keep("container.attempt == 2")),
            "2.log 2.log.20261121-110000: rule", "1.log.20261121-100000: over_log_limit"),
        ("the pod is deleted, and its directory kept", lost().without_pods().deleted("web")
            .but(|snapshot| snapshot.containers = snapshot.containers.clone().map(|mut all| {
                all[0].state = crate::model::ContainerState::Exited;
                all
            })).failed("container/c-web", 1), "", ""),
    ]);
}

/// Without limits on dead instances, which apply to a saved plan no more, the age removes the log with its rotated files.
#[test]
fn a_saved_plan_is_confirmed_if_the_age_would_remove_the_log_too() {
    let mut policy = Policy::default();
    let node = lost().leftover("web/app", 2, 90).set(|own| {
        own.logs.leftover_max_age = std::time::Duration::from_secs(1);
        policy = own.clone();
    });
    let plan = node.plan();
    let confirmed = confirm(plan.clone(), &node.snapshot(), &policy);
    assert_eq!((confirmed.plan.actions, confirmed.denied), (plan.actions, vec![]));
}

#[test]
fn the_largest_pod_gives_first() {
    let three = |limits: &[&str]| pod(pod(pod(limited(limits), "a"), "b"), "c");
    let big = |node: Node| files(node, |files| files[2].size_bytes += 150);
    let pods = |node: &Node| -> Vec<String> {
        removed(&node.plan()).iter().map(|path| path.split('_').nth(1).unwrap().to_owned()).collect()
    };
    assert_eq!(pods(&big(three(&["namespace 1000B"]))), ["a"], "250 bytes of one");
    assert_eq!(pods(&big(three(&["node 900B"]))), ["a", "b"]);
    assert_eq!(pods(&big(three(&["node 600B"]))), ["a", "a", "b", "b", "c"], "those of a pod together");
    assert_eq!(pods(&three(&["node 700B", "pod 349B"])), ["a", "a", "b", "c"], "each pod first, then the node");
    let other = three(&["namespace 650B"]).but(|snapshot| {
        let Seen::Seen(logs) = &mut snapshot.container_logs else { return };
        logs[2].pod.namespace = "other".to_owned();
    });
    assert_eq!(pods(&other), ["a"], "the namespace of c is within the limit");
}

/// Many small pods of one namespace do not push out the files of another one.
#[test]
fn each_namespace_has_its_share_of_the_limit_of_the_node() {
    let uids: Vec<_> = (0..25).map(|number| format!("p{number:02}")).collect();
    let large = |snapshot: &mut Snapshot| {
        let Seen::Seen(logs) = &mut snapshot.container_logs else { return };
        logs[0].pod.namespace = "other".to_owned();
        logs[0].files.iter_mut().for_each(|file| file.size_bytes *= 10);
    };
    let node = uids.iter().fold(pod(limited(&["node 9000B"]), "big").but(large), |node, uid| pod(node, uid));
    let plan = node.plan();
    let removed = removed(&plan);
    assert!(removed.len() == 33 && removed.iter().all(|path| path.contains("/default_p")), "{removed:?}");
    let without_rotated = |snapshot: &mut Snapshot| {
        let Seen::Seen(logs) = &mut snapshot.container_logs else { return };
        for logs in &mut logs[1..] {
            logs.files.truncate(1);
            logs.files[0].size_bytes = 350;
        }
    };
    let node = node.but(without_rotated);
    assert!(node.plan().actions.is_empty(), "those of the others cannot be removed");
    let text = "log files of node  have 12.0KiB, over logs.limits (node 9000B): what is left: 26 current files, 3 files of namespaces within their share, most of namespace default";
    assert_eq!(notes(&node), [text]);
}

#[test]
fn a_share_is_equal_for_those_that_need_more() {
    let rows: [(u64, &[u64], u64); 6] = [
        (10, &[], u64::MAX),
        (10, &[3, 7], u64::MAX),
        (10, &[11], 10),
        (12, &[20, 2, 20], 5),
        (0, &[1, 2], 0),
        (10, &[u64::MAX, u64::MAX, 1], 4),
    ];
    for (limit, bytes, share) in rows {
        assert_eq!(super::fair_share(limit, bytes.to_vec()), share, "{limit} {bytes:?}");
    }
}

/// A rule that asks what is not known does not stop a limit.
#[test]
fn what_a_rule_could_not_evaluate_obeys_the_limit() {
    let (name, when, note) = ("r".to_owned(), "container.exit_code == 1".to_owned(), String::new());
    let (of, then) = (RuleSubject::Container, Then::Keep);
    let rule =
        Rule::compile(RuleText { name, subject: of, when, then, until: None, resource: String::new(), note }).unwrap();
    let node = lost().set(|policy| policy.rules = [rule.clone()].into_iter().collect());
    hold(
        &[Kind::LogFile],
        [
            (
                "exit codes of lost instances",
                node,
                "",
                "1.log.20261121-100000 2.log.20261121-110000 2.log: over_log_limit",
            ) as Row,
        ],
    );
}

#[test]
fn what_stays_over_its_limit_is_said() {
    let current = |bytes: u64| {
        move |snapshot: &mut Snapshot| {
            let Seen::Seen(logs) = &mut snapshot.container_logs else { return };
            logs[0].files[0].size_bytes = bytes;
        }
    };
    let node = |limit: &str| pod(limited(&[limit]), "web");
    let text = "log files of pod default/web have 400B, over logs.limits (pod 399B): what is left: 1 current file";
    assert_eq!(notes(&node("pod 399B").but(current(400))), [text]);
    assert_eq!(notes(&node("pod 400B").but(current(400))), [""; 0]);
    let text = "log files of namespace default have 350B, over logs.limits (namespace 1B): what is left: 1 current file, 3 files kept";
    assert_eq!(notes(&node("namespace 1B").without_pods()), [text]);
    let unread = node("node 1GiB").but(|snapshot| {
        let Seen::Seen(logs) = &mut snapshot.container_logs else { return };
        logs[0].at_least = true;
    });
    let text = "log files of node  have at least 350B, under logs.limits (node 1GiB): not all of them could be read, such as those of default/web/app";
    assert_eq!(notes(&unread), [text]);
    let unavailable = node("pod 1B").but(|snapshot| snapshot.container_logs = Seen::NotSeen("blocked".to_owned()));
    assert_eq!(unavailable.plan().errors[0].to_string(), "container_logs unavailable: blocked");
}

#[test]
fn the_order_of_the_files_does_not_matter() {
    let node = || pod(pod(limited(&["pod 200B", "node 300B"]), "a"), "b");
    let reversed = node().but(|snapshot| {
        let Seen::Seen(logs) = &mut snapshot.container_logs else { return };
        logs.reverse();
        for logs in logs {
            logs.files.reverse();
        }
    });
    assert_eq!(node().plan(), reversed.plan());
}

#[test]
fn a_limit_is_what_it_is_for_and_its_bytes() {
    for text in ["pod 200MiB", "namespace 2GiB", "node 1B"] {
        assert_eq!(text.parse::<super::LogLimit>().unwrap().to_string(), text);
    }
    for text in ["pod", "pod 0", "node 10", "pod 0MiB", "pods 1GiB", "1GiB", "pod -1MiB", "pod 1MiB x", ""] {
        let error = text.parse::<super::LogLimit>().unwrap_err();
        assert!(error.ends_with(
            "is not a limit: expected \"pod BYTES\", \"namespace BYTES\" or \"node BYTES\", such as \"pod 200MiB\""
        ));
    }
}
