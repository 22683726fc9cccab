//! Which sandboxes remain, and why.

use std::time::Duration;

use crate::model::{Container, ListCounts, Phase, Seen};
use crate::plan::document::action::Kind;
use crate::plan::document::reason::KeepReason;
use crate::plan::tests::node::{Node, Row, hold, node};

fn table<const ROWS: usize>(rows: [Row; ROWS]) {
    hold(&[Kind::Sandbox], rows);
}

/// Two dead sandboxes of a pod.
fn two() -> Node {
    node().sandbox("web", "old", 30).sandbox("web", "new", 20)
}

#[test]
#[rustfmt::skip]
fn of_an_existing_pod_the_newest_sandbox_remains() {
    let web = || two().pod("web");
    table([
        ("both are dead", web(), "new: newest_sandbox", "old: superseded"),
        ("a third is ready", web().ready("web", "s3", 10), "s3: ready", "old new: superseded"),
        ("an older one is ready", web().ready("web", "s0", 40), "new: newest_sandbox, s0: ready", "old: superseded"),
        ("the order of the list does not matter", node().pod("web").sandbox("web", "new", 20).sandbox("web", "old", 30),
            "new: newest_sandbox", "old: superseded"),
        ("of equal ages the smaller ID is the older", node().pod("web").sandbox("web", "b", 9).sandbox("web", "a", 9),
            "b: newest_sandbox", "a: superseded"),
        ("each pod has a newest one", web().pod("db").sandbox("db", "db", 50),
            "db new: newest_sandbox", "old: superseded"),
    ]);
}

#[test]
#[rustfmt::skip]
fn a_young_dead_sandbox_is_kept() {
    let web = || two().pod("web");
    table([
        ("a dead one may be in creation for a minute", web().sandbox("web", "s3", 0).sandbox("web", "s4", 0),
            "s3: young_sandbox, s4: newest_sandbox", "old new: superseded"),
        ("after a minute it is not", web().sandbox("web", "s3", 1).sandbox("web", "s4", 0),
            "s4: newest_sandbox", "old new s3: superseded"),
        ("the kubelet does not wait", web().kubelet().sandbox("web", "s3", 0).sandbox("web", "s4", 0),
            "s4: newest_sandbox", "old new s3: superseded"),
        ("a long grace", web().set(|policy| policy.guards.sandbox_grace = Duration::from_mins(31)),
            "new: newest_sandbox, old: young_sandbox", ""),
    ]);
}

#[test]
#[rustfmt::skip]
fn a_sandbox_is_kept_while_it_has_kept_containers() {
    let of = |id: &'static str| move |container: &mut Container| container.sandbox_id = id.into();
    let web = || two().pod("web");
    table([
        ("a dead container is kept", web().exited("web/app", "c", 30).whose(of("old")),
            "new: newest_sandbox, old: has_containers", ""),
        ("its container is removed",
            web().exited("web/app", "c", 30).whose(of("old")).exited("web/app", "d", 20).whose(of("new")),
            "new: has_containers", "old: superseded"),
        ("one of its containers is kept",
            web().exited("web/app", "c", 30).whose(of("old")).exited("web/b", "d", 20).whose(of("old"))
                .exited("web/b", "e", 10),
            "new: newest_sandbox, old: has_containers", ""),
        ("a container of a deleted pod waits",
            two().deleted("web").exited("web/app", "c", 30).whose(of("new")).failed("container/c", 1),
            "new: has_containers", "old: pod_deleted"),
        ("the list of containers is unavailable",
            web().but(|snapshot| snapshot.containers = Seen::NotSeen("no answer".into())), "new old: step_failed", ""),
        ("the list of sandboxes is unavailable",
            web().but(|snapshot| snapshot.sandboxes = Seen::NotSeen("no answer".into())), "", ""),
    ]);
}

#[test]
#[rustfmt::skip]
fn of_a_pod_that_ended_no_dead_sandbox_remains() {
    let pod = |phase| two().pod_in(phase, "web");
    let before = ListCounts { containers: 9, ..ListCounts::default() };
    let fell = |node: Node| node.but(|snapshot| snapshot.memory.last_counts = Some(before));
    table([
        ("a deleted pod", two().deleted("web"), "", "old new: pod_deleted"),
        ("a pod that is missing for the first time", two(), "new: pod_missing", "old: superseded"),
        ("a deleted pod with a ready sandbox", two().deleted("web").ready("web", "s3", 10),
            "s3: ready", "old new: superseded"),
        ("a terminated pod", pod(Phase::Succeeded), "new: newest_sandbox", "old: superseded"),
        ("a terminated pod that is evicted", pod(Phase::Succeeded).evicting(), "", "old new: pod_terminal"),
        ("a terminated pod in an incomplete list", pod(Phase::Succeeded).evicting().incomplete(),
            "", "old new: pod_terminal"),
        ("an existing pod while terminated ones are evicted", pod(Phase::Running).evicting(),
            "new: newest_sandbox", "old: superseded"),
        ("the list of pods is unavailable", two().deleted("web").without_pod_list(),
            "new: newest_sandbox", "old: superseded"),
        ("the list of pods is incomplete", two().deleted("web").incomplete(),
            "new: pods_incomplete", "old: superseded"),
        ("to the kubelet an incomplete list is enough", two().incomplete().kubelet(), "", "old new: pod_deleted"),
        ("the list of containers became much shorter", fell(two().deleted("web")), "new old: list_fell", ""),
        ("and a ready sandbox is ready all the same", fell(two().deleted("web").ready("web", "s3", 10)),
            "new old: list_fell, s3: ready", ""),
        ("sandboxes without pod labels", two().sandbox("", "own", 40).sandbox("", "two", 30).deleted("web").deleted(""),
            "own two: foreign", "old new: pod_deleted"),
        ("without the guard they are those of a deleted pod", node().kubelet().sandbox("", "own", 40),
            "", "own: pod_deleted"),
        ("a removal failed before", two().deleted("web").failed("sandbox/old", 1), "old: backing_off", "new: pod_deleted"),
    ]);
}

#[test]
fn a_sandbox_reports_how_many_containers_are_kept() {
    let of = |node: Node, name: &str| {
        node.exited(&format!("web/{name}"), name, 9).whose(|one| one.sandbox_id = "old".into())
    };
    let node = ["a", "b", "c"].into_iter().fold(two().pod("web"), of);
    let old = node.plan().kept.into_iter().find(|kept| kept.id == "old").unwrap();
    assert_eq!((old.reason, old.age_seconds), (KeepReason::HasContainers { containers: 3 }, Some(30 * 60)));
}
