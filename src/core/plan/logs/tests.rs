//! Which log directories and log symlinks remain, and why.

use std::time::Duration;

use crate::model::{EntryKind, LinkTarget, ListCounts, Phase, Seen, Snapshot, log_link_name};
use crate::plan::document::action::{Kind, Target};
use crate::plan::policy::Policy;
use crate::plan::policy::pressure::Pressure;
use crate::plan::tests::node::{Node, Row, hold, node};

/// An ID whose first digits are those of the shortened names.
const ID: &str = "0123456789abcdef";

/// Makes the log directories symlinks.
fn symlink(snapshot: &mut Snapshot) {
    let Seen::Seen(dirs) = &mut snapshot.log_dirs else { return };
    for dir in dirs {
        dir.entry = EntryKind::Symlink;
    }
}

/// Makes the list of containers unavailable.
fn no_containers(snapshot: &mut Snapshot) {
    snapshot.containers = Seen::NotSeen("no answer".to_owned());
}

#[test]
#[rustfmt::skip]
fn the_log_directory_of_a_deleted_pod_is_removed() {
    let web = |node: Node| node.dir("default_web_web");
    let gone = || node().deleted("web");
    let old = "0123456789abcdef0123456789abcdef";
    let fell = ListCounts { containers: 9, ..ListCounts::default() };
    hold(&[Kind::LogDir], [
        ("the pod is deleted", web(gone()), "", "default_web_web: pod_deleted"),
        ("the pod exists", web(node().pod("web")), "default_web_web: pod_present", ""),
        ("the pod is missing for the first time", web(node()), "default_web_web: pod_missing", ""),
        ("the list of pods is unavailable", web(gone().without_pod_list()), "default_web_web: pods_not_seen", ""),
        ("the list of pods is incomplete", web(gone().incomplete()), "default_web_web: pods_incomplete", ""),
        ("the old format, the uid alone", node().deleted(old).dir(old),
            "", "0123456789abcdef0123456789abcdef: pod_deleted"),
        ("directories in the order of their names", web(gone()).deleted("db").dir("default_db_db"),
            "", "default_db_db default_web_web: pod_deleted"),
        ("a removal failed before", web(gone()).failed("log_dir//var/log/pods/default_web_web", 1),
            "default_web_web: backing_off", ""),
        ("a container of the pod is removed in this pass", web(gone()).exited("web/app", "c", 30),
            "", "default_web_web: pod_deleted"),
        ("a container of the pod waits", web(gone()).exited("web/app", "c", 30).failed("container/c", 1),
            "default_web_web: pod_in_runtime", ""),
        ("a sandbox of the pod is removed in this pass", web(gone()).sandbox("web", "s", 30),
            "", "default_web_web: pod_deleted"),
        ("a sandbox of the pod may be in creation", web(gone()).sandbox("web", "s", 0),
            "default_web_web: pod_in_runtime", ""),
        ("a sandbox of another pod", web(gone()).pod("db").ready("db", "s", 0), "", "default_web_web: pod_deleted"),
        ("the list of containers became much shorter",
            web(gone()).but(|snapshot| snapshot.memory.last_counts = Some(fell)), "default_web_web: list_fell", ""),
        ("the list of sandboxes is unavailable",
            web(gone()).but(|snapshot| snapshot.sandboxes = Seen::NotSeen("no answer".into())),
            "default_web_web: runtime_not_seen", ""),
        ("the list of containers is unavailable", web(gone()).but(no_containers),
            "default_web_web: runtime_not_seen", ""),
        ("the kubelet has no such names", gone().deleted("lost+found").dir("lost+found").dir("a_web"),
            "a_web lost+found: unrecognized", ""),
        ("without the guard any name may be one of a pod", node().kubelet().dir("lost+found").dir("a_web"),
            "", "a_web lost+found: pod_deleted"),
        ("a name without a uid is kept without the guard", node().kubelet().dir("a_b_").dir("c_..").dir("d_."),
            "a_b_ c_.. d_.: unrecognized", ""),
        ("a symlink is kept without the guard", web(node().kubelet()).but(symlink),
            "default_web_web: unrecognized", ""),
        ("a pod that must be missing for longer",
            web(gone()).set(|policy| policy.guards.gone_after = Duration::from_hours(2)),
            "default_web_web: pod_missing", ""),
    ]);
}

/// Only after all else was removed.
#[test]
fn the_logs_of_a_terminated_pod_are_the_last_resort() {
    let pressure = |policy: &mut Policy| *policy = policy.under_pressure(Pressure::Requested {});
    let last = |policy: &mut Policy| *policy = policy.as_last_resort(Pressure::Requested {});
    let job = || node().pod_in(Phase::Succeeded, "job").dir("default_job_job");
    let rows = [
        ("without pressure", job(), "default_job_job: pod_present", "") as Row,
        ("under pressure", job().set(pressure), "default_job_job: pod_present", ""),
        ("as the last resort", job().set(last), "", "default_job_job: pod_terminal"),
        (
            "not of a pod that runs",
            node().pod("web").dir("default_web_web").set(last),
            "default_web_web: pod_present",
            "",
        ),
        (
            "not while the runtime has something of it",
            job().exited("job/app", "c", 30).failed("container/c", 1).set(last),
            "default_job_job: pod_in_runtime",
            "",
        ),
        ("not if the list is incomplete", job().incomplete().set(last), "default_job_job: pod_present", ""),
    ];
    hold(&[Kind::LogDir], rows);
    let plan = job().exited("job/app", "c", 30).whose(|container| container.log_bytes = Some(7)).set(pressure).plan();
    assert!(matches!(plan.actions[0].target, Target::RemoveContainer { keeps_logs: true, .. }), "{plan:?}");
    assert_eq!(plan.actions[0].size.reported, None, "its logs stay");
}

/// The names of long pods are cut in the container or before it.
#[test]
fn a_dangling_log_symlink_may_have_no_id() {
    let long = "x".repeat(240);
    let (slot, name) = (format!("{long}/app"), log_link_name(&long, "default", "app", &ID.into()));
    let link = || node().pod(&long).link(&name, LinkTarget::Missing);
    let is = |reason: &str| -> &'static str { format!("{name}: {reason}").leak() };
    hold(
        &[Kind::LogLink],
        [
            ("no container has the name", link(), "", is("dangling")),
            ("a running container has it", link().running(&slot, ID, 9), is("container_not_exited"), ""),
            ("an exited container has it", link().exited(&slot, ID, 9), "", is("dangling")),
            ("the list of containers is unavailable", link().but(no_containers), is("runtime_not_seen"), ""),
        ],
    );
}

#[test]
#[rustfmt::skip]
fn dangling_log_symlinks_of_exited_containers_are_removed() {
    let of = |id: &str, target| node().pod("web").link(&format!("web_default_app-{id}.log"), target);
    let whole = || of(ID, LinkTarget::Missing);
    let short = || of("01234567", LinkTarget::Missing);
    let (name, cut) = ("web_default_app-0123456789abcdef.log: dangling", "web_default_app-01234567.log: dangling");
    let kept = "web_default_app-0123456789abcdef.log: container_not_exited";
    let cut_kept = "web_default_app-01234567.log: container_not_exited";
    let unavailable = |node: Node| node.but(no_containers);
    hold(&[Kind::LogLink], [
        ("the target exists", of("01234567", LinkTarget::Exists), "web_default_app-01234567.log: target_exists", ""),
        ("the target is unknown", of("01234567", LinkTarget::Unknown),
            "web_default_app-01234567.log: target_unknown", ""),
        ("the container does not exist", whole(), "", name),
        ("the container exited", whole().exited("web/app", ID, 9), "", name),
        ("the container runs, and its log is rotated", whole().running("web/app", ID, 9), kept, ""),
        ("the container may start", whole().created("web/app", ID, 9), kept, ""),
        ("the state of the container is unknown", whole().unknown("web/app", ID, 9), kept, ""),
        ("this pass removes the container", whole().unknown("web/app", ID, 9).sandbox("web", "s-web", 9).exited("web/app", "new", 1), "", name),
        ("another container runs", whole().running("web/app", "f00", 9), "", name),
        ("a shortened name of a running container", short().running("web/app", ID, 9), cut_kept, ""),
        ("a shortened name of several containers",
            short().exited("web/d", "00", 9).exited("web/app", ID, 9).running("web/b", "0123456799", 9), cut_kept, ""),
        ("a shortened name of an exited container",
            short().exited("web/app", ID, 9).running("web/b", "00", 9).running("web/c", "02", 9), "", cut),
        ("a whole ID that another one begins with", short().exited("web/app", "01234567", 9).running("web/b", ID, 9),
            "", cut),
        ("the list of containers is unavailable", unavailable(short()),
            "web_default_app-01234567.log: runtime_not_seen", ""),
        ("to the kubelet a container without a status is gone", unavailable(short().kubelet()), "", cut),
        ("a removal failed before", short().failed("log_link//var/log/containers/web_default_app-01234567.log", 1),
            "web_default_app-01234567.log: backing_off", ""),
        ("the kubelet has no such names", of("xyzxyz", LinkTarget::Missing).link("a.log", LinkTarget::Missing),
            "a.log web_default_app-xyzxyz.log: unrecognized", ""),
        ("without the guard a symlink needs only .log",
            of("xyzxyz", LinkTarget::Missing).kubelet().link("a", LinkTarget::Missing),
            "a: unrecognized", "web_default_app-xyzxyz.log: dangling"),
        ("symlinks in the order of their names", short().link("db_default_app-01234567.log", LinkTarget::Missing),
            "", "db_default_app-01234567.log web_default_app-01234567.log: dangling"),
    ]);
}
