//! Which dead containers remain, and why.

use std::time::Duration;

use jiff::Timestamp;

use super::AgeFrom;
use crate::model::{Container, Phase, Seen};
use crate::plan::document::action::Kind;
use crate::plan::policy::Policy;
use crate::plan::tests::node::{Node, Row, ago, hold, node};

fn table<const ROWS: usize>(rows: [Row; ROWS]) {
    hold(&[Kind::Container], rows);
}

/// Two dead instances of one container of an existing pod.
fn two() -> Node {
    node().pod("web").exited("web/app", "old", 30).exited("web/app", "new", 20)
}

impl Node {
    /// Sets the limits of each slot and of the node.
    fn limits(self, per_slot: impl Into<Option<u64>>, total: impl Into<Option<u64>>) -> Self {
        self.set(|policy| {
            policy.containers.max_per_pod_container = per_slot.into();
            policy.containers.max_containers = total.into();
        })
    }
}

#[test]
#[rustfmt::skip]
fn of_each_slot_the_newest_dead_containers_remain() {
    let web = || node().pod("web");
    table([
        ("one of two is over the limit", two(), "new: within_max_per_pod_container", "old: over_max_per_pod_container"),
        ("two of two are within the limit", two().limits(2, None), "new old: within_max_per_pod_container", ""),
        ("no limit is set", two().limits(None, None), "new old: no_limit", ""),
        ("a limit of 0 leaves the newest, which the kubelet would run again", two().limits(0, None),
            "new: newest_instance", "old: over_max_per_pod_container"),
        ("the kubelet removes the newest too, oldest first", two().kubelet().limits(0, None),
            "", "old new: over_max_per_pod_container"),
        ("a running instance does not count", two().running("web/app", "run", 10),
            "new: within_max_per_pod_container, run: running", "old: over_max_per_pod_container"),
        ("a running instance is the newest", two().limits(0, None).running("web/app", "run", 10),
            "run: running", "old new: over_max_per_pod_container"),
        ("an instance that may start does not count", two().created("web/app", "next", 1),
            "new: within_max_per_pod_container, next: maybe_starting", "old: over_max_per_pod_container"),
        ("an instance in an unknown state counts", two().unknown("web/app", "lost", 10).sandbox("web", "s-web", 40),
            "lost: within_max_per_pod_container", "old new: over_max_per_pod_container"),
        ("where each is in an unknown state, the sandbox decides",
            web().unknown("web/app", "lost", 20).unknown("web/app", "older", 30).sandbox("web", "s-web", 40),
            "lost: within_max_per_pod_container", "older: over_max_per_pod_container"),
        ("the order of the list does not matter", web().exited("web/app", "new", 20).exited("web/app", "old", 30),
            "new: within_max_per_pod_container", "old: over_max_per_pod_container"),
        ("of equal ages the smaller ID is the older", web().exited("web/app", "b", 30).exited("web/app", "a", 30),
            "b: within_max_per_pod_container", "a: over_max_per_pod_container"),
        ("of equal ages the smaller ID is not the newest",
            web().limits(0, None).exited("web/app", "a", 30).exited("web/app", "b", 30),
            "b: newest_instance", "a: over_max_per_pod_container"),
        ("each name has a limit of its own", two().exited("web/proxy", "p", 40),
            "new p: within_max_per_pod_container", "old: over_max_per_pod_container"),
        ("each pod has a limit of its own", two().pod("db").exited("db/app", "d", 40),
            "d new: within_max_per_pod_container", "old: over_max_per_pod_container"),
        ("slots are handled from the one with the oldest container",
            two().pod("db").exited("db/app", "d1", 50).exited("db/app", "d2", 10),
            "d2 new: within_max_per_pod_container", "d1 old: over_max_per_pod_container"),
    ]);
}

/// A clock that went back, or a runtime that lost the time.
#[test]
#[rustfmt::skip]
fn attempts_decide_the_order_and_conflicting_times_keep_both() {
    let attempt = |number: u32| move |container: &mut Container| container.attempt = number;
    let unknown_time = |container: &mut Container| (container.created_at, container.attempt) = (Timestamp::UNIX_EPOCH, 2);
    let running = || node().pod("web").exited("web/app", "a1", 30).whose(attempt(1)).unknown("web/app", "a2", 0).whose(unknown_time);
    let lost = || running().sandbox("web", "s-web", 40);
    let back = || node().pod("web").exited("web/app", "a1", 20).whose(attempt(1)).exited("web/app", "a2", 30).whose(attempt(2));
    let aged = |policy: &mut Policy| policy.containers.min_age = Duration::from_mins(1);
    table([
        ("attempts that agree", back().exited("web/app", "a3", 10).whose(attempt(3)),
            "a3: within_max_per_pod_container", "a2 a1: over_max_per_pod_container"),
        ("where they disagree both are kept", back(), "a1: within_max_per_pod_container, a2: newest_instance", ""),
        ("with any limit", back().limits(0, None), "a1 a2: newest_instance", ""),
        ("an ID does not decide", node().pod("web").exited("web/app", "z1", 30).whose(attempt(1))
            .exited("web/app", "a2", 30).whose(attempt(2)), "a2: within_max_per_pod_container", "z1: over_max_per_pod_container"),
        ("nor of unknown times", node().pod("web").exited("web/app", "z1", 0).whose(|z1| (z1.created_at, z1.attempt) = (Timestamp::UNIX_EPOCH, 1))
            .exited("web/app", "a2", 0).whose(unknown_time).running("web/app", "a3", 1).whose(attempt(3)),
            "a2: within_max_per_pod_container, a3: running", "z1: over_max_per_pod_container"),
        ("an unknown time is none", lost(), "a2: within_max_per_pod_container", "a1: over_max_per_pod_container"),
        ("it is no great age", lost().set(aged), "a1: within_max_per_pod_container, a2: younger_than_min_age", ""),
        ("with a ready sandbox it may run", running().ready("web", "s-web", 30),
            "a1: within_max_per_pod_container, a2: maybe_running", ""),
        ("and with a sandbox that is not listed", running(), "a1: within_max_per_pod_container, a2: maybe_running", ""),
        ("also with a later attempt", running().ready("web", "s-web", 30).exited("web/app", "a3", 1).whose(attempt(3)),
            "a2: maybe_running, a3: within_max_per_pod_container", "a1: over_max_per_pod_container"),
        ("the kubelet knows no attempts", back().kubelet(), "a1: within_max_per_pod_container", "a2: over_max_per_pod_container"),
        ("and takes an unknown time for an old one", lost().kubelet(), "a1: within_max_per_pod_container", "a2: over_max_per_pod_container"),
    ]);
}

#[test]
#[rustfmt::skip]
fn a_container_is_removed_from_its_minimum_age_on() {
    let aged = |minutes| move |policy: &mut Policy| policy.containers.min_age = Duration::from_mins(minutes);
    let finished = |minutes: Option<i64>| {
        let old = node().pod("web").exited("web/app", "old", 30).whose(|old| old.finished_at = minutes.map(ago));
        old.exited("web/app", "new", 20).whose(|new| new.finished_at = Some(ago(1))).set(aged(10))
    };
    let from_end = |minutes| finished(minutes).set(|policy| policy.containers.age_from = AgeFrom::Finished);
    table([
        ("at the minimum age", two().set(aged(30)).limits(0, None),
            "new: younger_than_min_age", "old: over_max_per_pod_container"),
        ("below it, and not counted", two().set(aged(31)).limits(0, None), "new old: younger_than_min_age", ""),
        ("a time in the future has no age", two().exited("web/app", "ahead", -5),
            "ahead: younger_than_min_age, new: within_max_per_pod_container", "old: over_max_per_pod_container"),
        ("the age counts from the creation", finished(Some(9)), "new: within_max_per_pod_container", "old: over_max_per_pod_container"),
        ("the age counts from the end, if so configured", from_end(Some(9)), "new old: younger_than_min_age", ""),
        ("long enough after the end", from_end(Some(10)).limits(0, None),
            "new: younger_than_min_age", "old: over_max_per_pod_container"),
        ("an unknown end counts as the creation", from_end(None).limits(0, None),
            "new: younger_than_min_age", "old: over_max_per_pod_container"),
        ("a created container may start for ten minutes", two().created("web/app", "c", 9),
            "c: maybe_starting, new: within_max_per_pod_container", "old: over_max_per_pod_container"),
        ("a created container that did not start by then counts", two().created("web/app", "c", 10),
            "c: within_max_per_pod_container", "old new: over_max_per_pod_container"),
        ("without the guard it counts at once", two().kubelet().created("web/app", "c", 1),
            "c: within_max_per_pod_container", "old new: over_max_per_pod_container"),
    ]);
}

#[test]
#[rustfmt::skip]
fn over_max_containers_each_slot_keeps_an_equal_share() {
    let slots = || {
        let pods = node().pod("a").pod("b").pod("c");
        pods.exited("a/app", "a1", 50).exited("b/app", "b1", 40).exited("c/app", "c1", 30)
    };
    let threes = || {
        let one = |node: Node, pod: &str, age: i64| {
            let slot = format!("{pod}/app");
            let instance = |node: Node, n: i64| node.exited(&slot, &format!("{pod}{n}"), age - n);
            [1, 2, 3].into_iter().fold(node.pod(pod), instance)
        };
        ["a", "b", "c"].iter().zip([30, 20, 10]).fold(node().kubelet(), |node, (pod, age)| one(node, pod, age))
    };
    let missing = || {
        let careful = slots().kubelet().set(|policy| policy.guards.gone_after = Duration::from_mins(1));
        careful.exited("x/app", "x1", 60).exited("x/app", "x2", 5)
    };
    table([
        ("at the limit", slots().kubelet().limits(1, 3), "a1 b1 c1: within_max_per_pod_container", ""),
        ("the oldest of all is removed", slots().kubelet().limits(1, 2),
            "b1 c1: within_max_per_pod_container", "a1: over_total_limit"),
        ("the two oldest are removed, oldest first", slots().kubelet().limits(1, 1),
            "c1: within_max_per_pod_container", "a1 b1: over_total_limit"),
        ("a limit of 0 leaves none", slots().kubelet().limits(1, 0), "", "a1 b1 c1: over_total_limit"),
        ("the newest instances remain, so the limit stays exceeded", slots().limits(1, 2),
            "a1: newest_instance, b1 c1: within_max_per_pod_container", ""),
        ("a share of 2 of 7 is not topped up", threes().limits(3, 7),
            "a2 a3 b2 b3 c2 c3: within_max_per_pod_container", "a1 b1 c1: over_total_limit"),
        ("a share is at least 1, then the oldest is removed", threes().limits(3, 2),
            "b3 c3: within_max_per_pod_container", "a1 a2 b1 b2 c1 c2 a3: over_total_limit"),
        ("both limits apply, that of the slot first", threes().limits(1, 2),
            "b3 c3: within_max_per_pod_container", "a1 a2 b1 b2 c1 c2: over_max_per_pod_container, a3: over_total_limit"),
        ("containers of a pod that a guard keeps do not count", missing().limits(None, 3),
            "a1 b1 c1: no_limit, x1 x2: pod_missing", ""),
        ("and lose only what is over the limit of their slot", missing().limits(1, 0),
            "x2: pod_missing", "x1: over_max_per_pod_container, a1 b1 c1: over_total_limit"),
    ]);
}

#[test]
#[rustfmt::skip]
fn containers_of_deleted_pods_are_removed_despite_limits() {
    let pod = |phase| node().pod_in(phase, "web").exited("web/app", "old", 30).exited("web/app", "new", 20);
    let gone = || node().exited("web/app", "old", 30).exited("web/app", "new", 20);
    let within = "new: within_max_per_pod_container";
    table([
        ("a deleted pod", gone().deleted("web"), "", "old new: pod_deleted"),
        ("a pod that is missing for the first time", gone(), "new: pod_missing", "old: over_max_per_pod_container"),
        ("a terminated pod", pod(Phase::Failed), within, "old: over_max_per_pod_container"),
        ("a terminated pod that is evicted", pod(Phase::Failed).evicting(), "", "old new: pod_terminal"),
        ("an existing pod while terminated ones are evicted", two().evicting(), within, "old: over_max_per_pod_container"),
        ("an existing pod runs while terminated ones are evicted", two().evicting().running("web/app", "run", 10),
            "new: within_max_per_pod_container, run: running", "old: over_max_per_pod_container"),
        ("a terminated pod still runs, and none is evicted", pod(Phase::Failed).running("web/app", "run", 10),
            "new: within_max_per_pod_container, run: running", "old: over_max_per_pod_container"),
        ("a terminated pod that is evicted still runs", pod(Phase::Failed).evicting().running("web/app", "run", 10),
            "new: pod_still_runs, run: running", "old: over_max_per_pod_container"),
        ("the list of pods is unavailable", gone().deleted("web").without_pod_list(), within, "old: over_max_per_pod_container"),
        ("the list of pods is incomplete", gone().deleted("web").incomplete(), within, "old: over_max_per_pod_container"),
        ("a container without pod labels", node().exited("/app", "own", 30), "own: foreign", ""),
        ("without the guard it is one of a deleted pod", node().kubelet().exited("/app", "own", 30),
            "", "own: pod_deleted"),
    ]);
}

#[test]
#[rustfmt::skip]
fn a_container_waits_after_a_failed_removal() {
    let failed = |retry_in| two().failed("container/old", retry_in);
    table([
        ("its time has not come", failed(1), "new: within_max_per_pod_container, old: backing_off", ""),
        ("its time has come", failed(0), "new: within_max_per_pod_container", "old: over_max_per_pod_container"),
        ("its time has passed", failed(-1), "new: within_max_per_pod_container", "old: over_max_per_pod_container"),
        ("back-offs are disabled", failed(1).kubelet(), "new: within_max_per_pod_container", "old: over_max_per_pod_container"),
        ("the list of containers is unavailable",
            two().but(|snapshot| snapshot.containers = Seen::NotSeen("no answer".into())), "", ""),
    ]);
}

#[test]
fn the_age_counts_from_where_the_rule_counts_it() {
    for (age_from, to_go) in [(AgeFrom::Created, None), (AgeFrom::Finished, Some(240))] {
        let node = node().pod("web").exited("web/app", "a", 30);
        let node = node.whose(|container| container.finished_at = Some(ago(1))).set(|policy| {
            (policy.containers.min_age, policy.containers.age_from) = (Duration::from_mins(5), age_from);
        });
        let plan = node.plan();
        assert_eq!(plan.kept[0].seconds_to_go(plan.taken_at), to_go, "{age_from:?}");
    }
}
