//! Tests what each situation of a pod removes. A row is a sentence, the past and present of a pod, and what is removed.
//!
//! Every pod is `default/web` with the uid `u` and has the same objects: an older and the newest dead instance of its
//! container, two dead sandboxes, and a log directory. The newest instance is in the newer sandbox. A pod that is not
//! deleted loses at most [`EXCESS`], whatever is known of it: the objects over the limits.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;

use crate::model::{
    Absence, Confirms, Container, ContainerState, FileSystem, LogDir, Memory, Phase, Pod, PodList, PodRef, Sandbox,
    SandboxState, Seen, Snapshot,
};
use crate::plan::document::action::Kind;
use crate::plan::document::reason::KeepReason;
use crate::plan::policy::guards::{Guards, Profile};
use crate::plan::policy::{Policy, Scope};
use crate::plan::{decide, update_memory};

/// The objects of any pod that are over the limits.
const EXCESS: &[&str] = &["older", "first sandbox"];
/// The objects that are removed of a terminated pod with `evict_terminated_pods`.
const ALL_BUT_LOGS: &[&str] = &["older", "newest", "first sandbox", "second sandbox"];
/// The objects that are removed of a deleted pod.
const ALL: &[&str] = &["older", "newest", "first sandbox", "second sandbox", "logs"];

/// One pass over the node, at so many seconds after noon.
struct Pass {
    seconds: i64,
    node: Snapshot,
}

fn noon() -> Timestamp {
    "2026-11-21T12:00:00Z".parse().unwrap()
}

/// The objects of the pod, and a complete list that does not contain it.
fn at(seconds: i64) -> Pass {
    let mut node: Snapshot = serde_json::from_value(json!({ "taken_at": noon() })).unwrap();
    node.taken_at = noon() + jiff::SignedDuration::from_secs(seconds);
    node.containers = Seen::Seen(vec![container("older", 10), container("newest", 11)]);
    node.sandboxes = Seen::Seen(vec![sandbox("first sandbox", 10), sandbox("second sandbox", 11)]);
    node.images = Seen::Seen(Vec::new());
    node.image_filesystem =
        Seen::Seen(FileSystem { capacity_bytes: 100, available_bytes: 50, ..FileSystem::default() });
    node.log_dirs = Seen::Seen(vec![LogDir { name: "default_web_u".into(), ..LogDir::default() }]);
    node.log_links = Seen::Seen(Vec::new());
    node.pods = Seen::Seen(PodList { source: "kube-api".into(), complete: true, ..PodList::default() });
    Pass { seconds, node }
}

fn web(uid: &str) -> PodRef {
    PodRef { uid: uid.into(), namespace: "default".into(), name: "web".into() }
}

fn hour(hour: i64) -> Timestamp {
    noon() - jiff::SignedDuration::from_hours(12 - hour)
}

fn container(id: &str, made: i64) -> Container {
    serde_json::from_value(json!({
        "id": id, "sandbox_id": "second sandbox", "pod": web("u"), "name": "app", "state": "exited", "created_at": hour(made),
    }))
    .unwrap()
}

fn sandbox(id: &str, made: i64) -> Sandbox {
    let (state, created_at) = (SandboxState::NotReady, hour(made));
    Sandbox { id: id.into(), pod: Some(web("u")), attempt: 0, state, created_at, is_static: false }
}

/// A pod of the list.
fn pod(uid: &str, phase: Phase) -> Pod {
    Pod { uid: uid.into(), namespace: "default".into(), name: "web".into(), phase, ..Pod::default() }
}

// === impl Pass ===

impl Pass {
    fn but(mut self, change: impl FnOnce(&mut Snapshot)) -> Self {
        change(&mut self.node);
        self
    }

    /// Adds this pod to the list.
    fn listing(self, pod: Pod) -> Self {
        self.but(|node| {
            if let Seen::Seen(list) = &mut node.pods {
                list.pods.push(pod);
            }
        })
    }

    /// Makes the list incomplete.
    fn incomplete(self) -> Self {
        self.but(|node| {
            if let Seen::Seen(list) = &mut node.pods {
                list.complete = false;
            }
        })
    }

    fn without_list(self) -> Self {
        self.but(|node| node.pods = Seen::NotSeen("the API server does not answer".to_owned()))
    }

    /// Adds a running container of the pod, younger than the others, in a sandbox that is not ready.
    fn running(self) -> Self {
        let runs = Container { state: ContainerState::Running, ..container("running", 12) };
        self.but(|node| node.containers = node.containers.clone().map(|all| [all, vec![runs]].concat()))
    }

    /// Makes the newer sandbox ready.
    fn ready(self) -> Self {
        let second = Sandbox { state: SandboxState::Ready, ..sandbox("second sandbox", 11) };
        self.but(|node| node.sandboxes = Seen::Seen(vec![sandbox("first sandbox", 10), second]))
    }

    /// Adds a kubelet directory for the pod.
    fn with_dir(self) -> Self {
        self.but(|node| node.pod_dirs = Seen::Seen(vec!["u".into()]))
    }
}

fn safe() -> Policy {
    Policy::default()
}

fn evicting() -> Policy {
    let mut policy = safe();
    policy.containers.evict_terminated_pods = true;
    policy
}

fn kubelet() -> Policy {
    let guards = Guards::of(Profile::Kubelet);
    Policy { profile: Profile::Kubelet, guards, ..Policy::default() }
}

/// Makes passes one after the other, each with the memory of the one before. Returns what the last pass removes.
fn removed(passes: Vec<Pass>, policy: &Policy) -> Vec<String> {
    let mut memory = Memory::default();
    let mut removed = Vec::new();
    for Pass { mut node, .. } in passes {
        node.memory = memory;
        let plan = decide(&node, policy, Scope::Containers);
        removed = plan
            .actions
            .iter()
            .map(|action| action.target.id().replace("/var/log/pods/default_web_u", "logs"))
            .collect();
        memory = update_memory(&node, policy);
    }
    removed
}

/// One sentence, the policy, the passes, and what the last pass removes.
type Row = (&'static str, Policy, Vec<Pass>, &'static [&'static str]);

/// Compares a table with the removals, and reports every wrong row.
fn hold(rows: Vec<Row>) {
    let mut wrong = Vec::new();
    for (sentence, policy, passes, expected) in rows {
        let times: Vec<_> = passes.iter().map(|pass| pass.seconds).collect();
        let mut removed = removed(passes, &policy);
        let mut expected: Vec<_> = expected.to_vec();
        removed.sort();
        expected.sort_unstable();
        if removed != expected {
            wrong.push(format!("{sentence} (passes at {times:?}): removed {removed:?}, not {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// Two equal passes, far enough apart.
fn twice(pass: impl Fn(Pass) -> Pass) -> Vec<Pass> {
    vec![pass(at(0)), pass(at(60))]
}

fn deleting(phase: Phase) -> Pod {
    Pod { deleting: true, ..pod("u", phase) }
}

#[test]
fn a_listed_pod_loses_only_objects_over_the_limits() {
    let listed = |pod: Pod| twice(move |pass| pass.listing(pod.clone()));
    hold(vec![
        ("a pod waits to start again", safe(), listed(pod("u", Phase::Pending)), EXCESS),
        ("a pod runs", safe(), twice(|pass| pass.listing(pod("u", Phase::Running)).running().ready()), EXCESS),
        ("a pod's phase is unknown", safe(), listed(pod("u", Phase::Unknown)), EXCESS),
        ("a pod succeeded and still exists", safe(), listed(pod("u", Phase::Succeeded)), EXCESS),
        ("a pod failed, or was evicted, and still exists", safe(), listed(pod("u", Phase::Failed)), EXCESS),
        (
            "a pod is being deleted and still runs",
            safe(),
            twice(|pass| pass.listing(deleting(Phase::Running)).running()),
            EXCESS,
        ),
        ("a pod is being deleted and nothing of it runs", safe(), listed(deleting(Phase::Running)), EXCESS),
        ("a terminated pod is being deleted", safe(), listed(deleting(Phase::Failed)), EXCESS),
        ("a mirror pod is listed by the uid of its static pod", safe(), listed(pod("u", Phase::Running)), EXCESS),
        (
            "a list that is not complete names the pod",
            safe(),
            twice(|pass| pass.listing(pod("u", Phase::Failed)).incomplete()),
            EXCESS,
        ),
        ("the kubelet's own rules: it exists", kubelet(), listed(pod("u", Phase::Failed)), EXCESS),
    ]);
}

#[test]
fn an_evicted_terminated_pod_loses_all_but_its_logs() {
    let listed = |pod: Pod| twice(move |pass| pass.listing(pod.clone()));
    let busy = |pass: Pass| pass.listing(pod("u", Phase::Succeeded));
    hold(vec![
        ("a pod succeeded", evicting(), listed(pod("u", Phase::Succeeded)), ALL_BUT_LOGS),
        ("a pod failed, or was evicted", evicting(), listed(pod("u", Phase::Failed)), ALL_BUT_LOGS),
        ("in the first pass, because nothing has to be waited for", evicting(), vec![busy(at(0))], ALL_BUT_LOGS),
        (
            "a pod is terminated in the list, but a container runs",
            evicting(),
            twice(|pass| busy(pass).running()),
            EXCESS,
        ),
        (
            "a pod is terminated in the list, but a sandbox is ready",
            evicting(),
            twice(|pass| busy(pass).ready()),
            EXCESS,
        ),
        ("a pod runs", evicting(), listed(pod("u", Phase::Running)), EXCESS),
        ("a pod's phase is unknown", evicting(), listed(pod("u", Phase::Unknown)), EXCESS),
        ("a pod is being deleted and nothing of it runs", evicting(), listed(deleting(Phase::Running)), EXCESS),
        ("a terminated pod is being deleted", evicting(), listed(deleting(Phase::Succeeded)), ALL_BUT_LOGS),
        ("the list is not complete", evicting(), twice(|pass| busy(pass).incomplete()), EXCESS),
        ("the list is unavailable", evicting(), twice(Pass::without_list), EXCESS),
        ("a pod is deleted", evicting(), twice(|pass| pass), ALL),
    ]);
}

#[test]
fn an_unlisted_pod_is_deleted_only_without_other_evidence() {
    let second = |pass: Pass| pass.listing(pod("another", Phase::Running));
    let young = |pass: Pass| {
        pass.but(|node| {
            let since = Some(node.taken_at - jiff::SignedDuration::from_secs(59));
            node.listening_since = Seen::Seen(since);
        })
    };
    let no_dirs = |pass: Pass| pass.but(|node| node.pod_dirs = Seen::NotSeen("permission denied".to_owned()));
    hold(vec![
        ("a pod was deleted", safe(), twice(|pass| pass), ALL),
        ("a pod was deleted and created again with the same name: only uids count", safe(), twice(second), ALL),
        ("a pod was deleted by force and a container still runs", safe(), twice(Pass::running), EXCESS),
        ("a pod was deleted by force and its sandbox is still ready", safe(), twice(Pass::ready), EXCESS),
        ("a static pod without a mirror has a directory", safe(), twice(Pass::with_dir), EXCESS),
        ("a static pod without a mirror has a ready sandbox", safe(), twice(Pass::ready), EXCESS),
        ("a static pod without a mirror has a running container", safe(), twice(Pass::running), EXCESS),
        ("a static pod's manifest was deleted, and nothing of it exists", safe(), twice(|pass| pass), ALL),
        ("the kubelet's directories cannot be read", safe(), twice(no_dirs), EXCESS),
        ("the list is not complete", safe(), twice(Pass::incomplete), EXCESS),
        (
            "the list is empty and not complete, others were listed",
            safe(),
            vec![second(at(0)), at(60).incomplete()],
            EXCESS,
        ),
        ("the list is unavailable", safe(), twice(Pass::without_list), EXCESS),
        ("the runtime started just now", safe(), twice(young), &["older"]),
        ("the kubelet's own rules: absence is enough", kubelet(), vec![at(0)], ALL),
        ("the kubelet's own rules: the list is not complete", kubelet(), twice(Pass::incomplete), EXCESS),
        ("the kubelet's own rules: the list is unavailable", kubelet(), twice(Pass::without_list), EXCESS),
    ]);
}

/// A mirror pod names the uid of its static pod itself (`kubernetes.io/config.hash`), so a tenant may write that of any pod.
#[test]
fn a_pod_of_another_name_with_the_same_uid_decides_nothing() {
    let forged = |phase| Pod { namespace: "aaa".into(), ..pod("u", phase) };
    let beside = |phase, own| twice(move |pass| pass.listing(forged(phase)).listing(pod("u", own)));
    hold(vec![
        ("it is terminated, and the pod runs", evicting(), beside(Phase::Failed, Phase::Running), EXCESS),
        ("it runs, and the pod is terminated", evicting(), beside(Phase::Running, Phase::Failed), ALL_BUT_LOGS),
        (
            "it is terminated, and the pod is not listed",
            evicting(),
            twice(|pass| pass.listing(forged(Phase::Failed))),
            EXCESS,
        ),
        ("the pod is deleted", safe(), twice(|pass| pass.listing(forged(Phase::Running))), EXCESS),
    ]);
}

#[test]
fn a_pod_missing_in_two_distant_passes_is_deleted() {
    let seen = |seconds: i64| at(seconds).listing(pod("u", Phase::Running));
    hold(vec![
        ("the first pass that does not find it", safe(), vec![at(0)], EXCESS),
        ("the second pass comes too early", safe(), vec![at(0), at(59)], EXCESS),
        ("the second pass comes late enough", safe(), vec![at(0), at(60)], ALL),
        ("passes too close together add up", safe(), vec![at(0), at(25), at(50), at(75)], ALL),
        ("a pass in between had no list", safe(), vec![at(0), at(30).without_list(), at(60)], ALL),
        ("a pass in between had an incomplete list", safe(), vec![at(0), at(30).incomplete(), at(60)], ALL),
        ("the last pass had no list", safe(), vec![at(0), at(60).without_list()], EXCESS),
        ("the last pass finds a directory of the pod", safe(), vec![at(0), at(60).with_dir()], EXCESS),
        ("passes without a list do not count", safe(), vec![at(0).without_list(), at(60)], EXCESS),
        ("passes with an incomplete list do not count", safe(), vec![at(0).incomplete(), at(60)], EXCESS),
        ("a pass in between found the pod: its absence starts again", safe(), vec![at(0), seen(30), at(60)], EXCESS),
        (
            "the same uid existed again, and is missing for long enough",
            safe(),
            vec![at(0), seen(30), at(60), at(120)],
            ALL,
        ),
        (
            "a pass in between found it in an incomplete list",
            safe(),
            vec![at(0), seen(30).incomplete(), at(60)],
            EXCESS,
        ),
        ("a pass in between found something of it running", safe(), vec![at(0), at(30).running(), at(60)], EXCESS),
        ("a pass in between found its directory", safe(), vec![at(0), at(30).with_dir(), at(60)], EXCESS),
        ("the clock was set back between the passes", safe(), vec![at(7200), at(0)], EXCESS),
        ("the clock was set back, and it was missing long enough since", safe(), vec![at(7200), at(0), at(60)], ALL),
    ]);
}

#[test]
fn the_required_missing_time_of_a_pod_is_configurable() {
    let mut policy = safe();
    policy.guards.gone_after = Duration::from_mins(10);
    hold(vec![
        ("ten minutes, after nine", policy.clone(), vec![at(0), at(540)], EXCESS),
        ("ten minutes, after ten", policy, vec![at(0), at(600)], ALL),
    ]);
}

/// The name of a log directory in the old format.
const UID_ALONE: &str = "c7a0b3f2d9e84a6fb1c5d0e7f6a98b12";

/// Returns what is kept on a node whose pods were all missing for long: a container and a sandbox of this pod, and a
/// log directory.
fn kept(confirms: Confirms, pod: Option<&PodRef>, dir: &str) -> Vec<(Kind, &'static str)> {
    let Pass { mut node, .. } = at(60);
    let mut policy = safe();
    policy.guards.keep_foreign = false;
    let absence = |uid: &str| Absence { uid: uid.into(), since: noon() };
    node.memory.absent_since = ["", "u", UID_ALONE].map(absence).into();
    let sandbox_id = "not listed".into();
    node.containers = Seen::Seen(vec![Container { pod: pod.cloned(), sandbox_id, ..container("newest", 11) }]);
    node.sandboxes = Seen::Seen(vec![Sandbox { pod: pod.cloned(), ..sandbox("second sandbox", 11) }]);
    node.log_dirs = Seen::Seen(vec![LogDir { name: dir.into(), ..LogDir::default() }]);
    node.pods = node.pods.map(|list| PodList { confirms, ..list });
    let plan = decide(&node, &policy, Scope::Containers);
    plan.kept.iter().map(|kept| (kept.kind, kept.reason.kind())).collect()
}

#[test]
fn objects_without_a_possible_live_lookup_are_kept() {
    let nameless = PodRef { uid: "u".into(), ..PodRef::default() };
    let upper = PodRef { name: "Web".into(), ..web("u") };
    let all = [Kind::Container, Kind::Sandbox, Kind::LogDir].map(|kind| (kind, "pod_not_confirmable"));
    for (row, pod, dir, expected) in [
        ("a pod with its names", Some(&web("u")), "default_web_u", &[][..]),
        ("a directory named by the uid alone", Some(&web("u")), UID_ALONE, &all[2..]),
        ("a container and a sandbox of no pod", None, "default_web_u", &all[..2]),
        ("a pod without names", Some(&nameless), UID_ALONE, &all[..]),
        ("a name that no pod can have", Some(&upper), "default_Web_u", &all[..]),
    ] {
        assert_eq!(kept(Confirms::ByName, pod, dir), expected, "{row}");
        assert_eq!(kept(Confirms::ByUid, pod, dir), [], "{row}");
    }
}

#[test]
fn an_incomplete_list_is_explained_by_each_incomplete_source() {
    let Pass { mut node, .. } = at(60);
    let sources = json!([
        { "name": "kubelet", "pods": 0, "missing": "it just started" },
        { "name": "runtime", "pods": 2 },
        { "name": "kube-api", "pods": 0, "missing": "refused" },
    ]);
    let sources = serde_json::from_value(sources).unwrap();
    node.pods = node.pods.map(|list| PodList { complete: false, sources, ..list });
    let plan = decide(&node, &safe(), Scope::Containers);
    let causes = plan.kept.iter().filter_map(|kept| match &kept.reason {
        KeepReason::PodsIncomplete { cause, .. } => Some(cause.as_str()),
        _ => None,
    });
    assert_eq!(causes.collect::<BTreeSet<_>>(), BTreeSet::from(["kubelet: it just started; kube-api: refused"]));
}
