use std::sync::{Arc, Mutex};

use async_trait::async_trait;

use super::*;
use crate::model::{Container, Phase, Pod, PodList, Sandbox};
use crate::plan::PodKnowledge;
use crate::sim::{Fault, Times};

/// The lookups and removals, in order.
type Journal = Arc<Mutex<Vec<String>>>;

/// A pod source with scripted answers.
struct Scripted {
    answer: fn(&PodRef) -> Seen<bool>,
    journal: Journal,
    known: Vec<Pod>,
}

#[async_trait]
impl PodSource for Scripted {
    fn name(&self) -> &'static str {
        "kube-api"
    }

    async fn list(&self, _: &Seen<Vec<Container>>, _: &Seen<Vec<Sandbox>>) -> Seen<PodList> {
        Seen::NotSeen("no list here".to_owned())
    }

    async fn cached_pods(&self) -> Vec<Pod> {
        self.known.clone()
    }

    async fn still_exists(&self, pod: &PodRef) -> Seen<bool> {
        self.journal.lock().unwrap().push(format!("looked up {pod} {}", pod.uid));
        (self.answer)(pod)
    }
}

/// A node with objects of deleted pods, and a pod source with these answers.
fn bench(answer: fn(&PodRef) -> Seen<bool>) -> (Bench, Journal) {
    let node = Node::new()
        .image(WEB, &[])
        .id("s1")
        .pod("default", "web", "u1")
        .stopped()
        .id("c1")
        .exited("app", WEB)
        .id("c2")
        .exited("side", WEB)
        .orphan_logs("default", "db", "u2");
    let journal = Journal::default();
    let mut bench = Bench::new(node);
    bench.pods = Arc::new(Scripted { answer, journal: Arc::clone(&journal), known: Vec::new() });
    for (method, nth) in [(Rpc::RemoveContainer, 1), (Rpc::RemoveContainer, 2), (Rpc::RemovePodSandbox, 1)] {
        let journal = Arc::clone(&journal);
        bench.sim.on_call(method, nth, move |_| journal.lock().unwrap().push(method.to_string()));
    }
    (bench, journal)
}

/// All objects of the first pod, and the remaining logs of the second.
fn leftovers(bench: &Bench) -> Vec<Action> {
    let dir = |name: &str, pod| Action { pod, ..action(Target::RemoveLogDir { path: bench.pods(name) }) };
    let db = PodRef { uid: "u2".into(), namespace: "default".into(), name: "db".into() };
    vec![exited("c1"), exited("c2"), sandbox("s1"), dir("default_web_u1", Some(web())), dir("default_db_u2", Some(db))]
}

fn taken(journal: &Journal) -> Vec<String> {
    std::mem::take(&mut *journal.lock().unwrap())
}

#[tokio::test]
async fn each_pod_is_queried_once_before_any_removal() {
    let (bench, journal) = bench(|_| Seen::Seen(false));
    let knowledge = PodKnowledge { source: "kube-api".into(), ..PodKnowledge::default() };
    let plan = Plan { pods: Seen::Seen(knowledge), ..plan(leftovers(&bench)) };
    let (lines, reports, _) = bench.carry_out_plan(&plan).await;
    assert!(reports.iter().all(|report| report.proven_by.as_deref() == Some("kube-api")));
    let all = ["c1 removed", "c2 removed", "s1 removed", "default_web_u1 removed", "default_db_u2 removed"];
    assert_eq!(lines, all);
    let order = [
        "looked up default/web u1",
        "RemoveContainer",
        "RemoveContainer",
        "RemovePodSandbox",
        "looked up default/db u2",
    ];
    assert_eq!(taken(&journal), order);
}

#[tokio::test]
async fn nothing_of_an_existing_pod_is_removed() {
    let (bench, journal) = bench(|pod| Seen::Seen(pod.name == "web"));
    let before = bench.files();
    let lines = bench.carry_out(leftovers(&bench)).await;
    let back = ["c1", "c2", "s1", "default_web_u1"].map(|id| format!("{id} refused: its pod is back"));
    assert_eq!(lines[..4], back);
    assert_eq!(lines[4..], ["default_db_u2 removed"]);
    assert_eq!(taken(&journal), ["looked up default/web u1", "looked up default/db u2"]);
    assert_eq!(bench.writes(), Vec::<String>::new());
    let db = bench.pods("default_db_u2");
    assert_eq!(bench.files().len(), before.keys().filter(|path| !path.starts_with(&db)).count());
}

#[tokio::test]
async fn an_unanswered_lookup_removes_nothing_and_notes_why() {
    let (bench, journal) = bench(|_| Seen::NotSeen("the API server does not answer".to_owned()));
    let before = bench.files();
    let (lines, reports, _) = bench.carry_out_plan(&plan(leftovers(&bench))).await;
    assert!(
        lines.iter().all(|line| line.ends_with("refused: the deletion of its pod could not be confirmed")),
        "{lines:?}"
    );
    assert!(reports.iter().all(|report| report.note.as_deref() == Some("the API server does not answer")));
    assert_eq!(taken(&journal).len(), 2, "the missing answer is remembered too");
    assert_eq!(bench.writes(), Vec::<String>::new());
    assert_eq!(bench.files(), before);
}

#[tokio::test]
async fn the_next_pass_repeats_the_live_lookup() {
    let (bench, journal) = bench(|_| Seen::Seen(true));
    bench.carry_out(leftovers(&bench)).await;
    bench.carry_out(leftovers(&bench)).await;
    assert_eq!(taken(&journal).len(), 4);
}

#[tokio::test]
async fn a_removal_for_another_reason_needs_no_lookup() {
    let (bench, journal) = bench(|_| Seen::Seen(true));
    let because = |reason: RemoveReason, action: Action| Action { reason, ..action };
    let actions = vec![
        because(RemoveReason::OverMaxPerPodContainer { limit: 1 }, exited("c1")),
        because(RemoveReason::PodTerminal { pressure: false }, exited("c2")),
        because(RemoveReason::Superseded {}, sandbox("s1")),
    ];
    assert_eq!(bench.carry_out(actions).await, ["c1 removed", "c2 removed", "s1 removed"]);
    assert_eq!(taken(&journal), ["RemoveContainer", "RemoveContainer", "RemovePodSandbox"]);
}

#[tokio::test]
async fn a_dry_run_sends_live_lookups_too() {
    let (bench, journal) = bench(|pod| Seen::Seen(pod.name == "web"));
    let lines = bench.rehearse(leftovers(&bench)).await;
    assert_eq!(lines[0], "c1 refused: its pod is back");
    assert_eq!(lines[4], "default_db_u2 would_remove");
    assert_eq!(taken(&journal), ["looked up default/web u1", "looked up default/db u2"]);
}

#[tokio::test]
async fn no_lookup_where_absence_from_the_list_is_enough() {
    let (mut bench, journal) = bench(|_| Seen::Seen(true));
    bench.options.confirms_deletions = false;
    assert_eq!(bench.carry_out(vec![exited("c1")]).await, ["c1 removed"]);
    assert_eq!(taken(&journal), ["RemoveContainer"]);
}

#[tokio::test]
async fn a_log_directory_without_pod_is_queried_by_uid() {
    let (bench, journal) = bench(|_| Seen::NotSeen("it has no name".to_owned()));
    let dir = Action { pod: None, ..action(Target::RemoveLogDir { path: bench.pods("default_db_u2") }) };
    let lines = bench.carry_out(vec![dir]).await;
    assert_eq!(lines, ["default_db_u2 refused: the deletion of its pod could not be confirmed"]);
    assert_eq!(taken(&journal), ["looked up u2 u2"]);
}

/// A node with an unused image, and a pod source that has this pod in memory by now.
fn bench_with_image(phase: Phase, names: &str) -> (Bench, Action) {
    let mut bench = Bench::new(Node::new().id("sha256:aa").image(WEB, &[]));
    let known = Pod {
        namespace: "default".into(),
        name: "late".into(),
        phase,
        images: vec![names.to_owned()],
        ..Pod::default()
    };
    bench.pods = Arc::new(Scripted { answer: |_| Seen::Seen(false), journal: Journal::default(), known: vec![known] });
    let target = Target::RemoveImage {
        id: "sha256:aa".into(),
        tags: vec![WEB.to_owned()],
        digests: Vec::new(),
        estimated_bytes: 0,
    };
    (bench, Action { pod: None, reason: RemoveReason::Unused { pressure: false }, ..action(target) })
}

#[tokio::test]
async fn an_image_that_a_pod_names_by_now_stays() {
    for name in ["web:1", WEB, "alias"] {
        let (bench, image) = bench_with_image(Phase::Pending, name);
        bench.sim.state().also(|node| node.alias("alias", WEB)).unwrap();
        let (lines, reports, _) = bench.carry_out_plan(&plan(vec![image.clone()])).await;
        assert_eq!(lines, ["sha256:aa refused: a pod names it"]);
        assert_eq!(reports[0].note.as_deref(), Some("the pod default/late names it"));
        assert_eq!(bench.rehearse(vec![image]).await, ["sha256:aa refused: a pod names it"]);
        assert_eq!(bench.writes(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn an_unresolved_name_keeps_images_with_the_same_ending() {
    for (name, expected) in [("quay.io/any/web:1", "refused: a pod names it"), ("quay.io/any/web:2", "removed")] {
        let (bench, image) = bench_with_image(Phase::Pending, name);
        bench.sim.fault(Rpc::ImageStatus, Fault::Slow(Duration::ZERO), Times::N(1));
        bench.sim.fault(Rpc::ImageStatus, Fault::Fail(tonic::Code::Internal), Times::N(1));
        assert_eq!(bench.carry_out(vec![image]).await, [format!("sha256:aa {expected}")], "{name}");
    }
}

#[tokio::test]
async fn unrelated_terminated_or_ignored_pods_keep_no_image() {
    for (phase, name, keeps) in
        [(Phase::Pending, "web:2", true), (Phase::Succeeded, WEB, true), (Phase::Pending, WEB, false)]
    {
        let (mut bench, image) = bench_with_image(phase, name);
        bench.options.keeps_pod_images = keeps;
        assert_eq!(bench.carry_out(vec![image]).await, ["sha256:aa removed"], "{phase:?} {name} {keeps}");
    }
}

/// A pod source that never answers within its own limit.
struct SilentSource(Journal);

#[async_trait]
impl PodSource for SilentSource {
    fn name(&self) -> &'static str {
        "mute"
    }

    async fn list(&self, _: &Seen<Vec<Container>>, _: &Seen<Vec<Sandbox>>) -> Seen<PodList> {
        Seen::NotSeen("no answer".to_owned())
    }

    async fn still_exists(&self, pod: &PodRef) -> Seen<bool> {
        self.0.lock().unwrap().push(pod.uid.to_string());
        tokio::time::sleep(Duration::from_secs(10)).await;
        Seen::NotSeen("no answer within 10 s".to_owned())
    }
}

/// This test sends nothing to the runtime, so the thread of the runtime does not affect the paused clock.
#[tokio::test(start_paused = true)]
async fn hanging_live_lookups_take_time_independent_of_pods() {
    let mut bench = Bench::new(Node::new());
    let journal = Journal::default();
    bench.pods = Arc::new(SilentSource(Arc::clone(&journal)));
    let actions = (0..12).map(|number| {
        let uid = format!("u{number}");
        let pod = PodRef { uid: uid.as_str().into(), namespace: "default".into(), name: "web".into() };
        let target = Target::RemoveLogDir { path: bench.pods(&format!("default_web_{uid}")) };
        Action { pod: Some(pod), ..action(target) }
    });
    let plan = plan(actions.collect());
    let start = tokio::time::Instant::now();
    let (_, reports, summary) = bench.carry_out_plan(&plan).await;
    assert_eq!((taken(&journal).len(), start.elapsed()), (3, Duration::from_secs(30)));
    assert_eq!((summary.total().refused, reports.len()), (12, 12));
    assert_eq!(reports[2].note.as_deref(), Some("no answer within 10 s"));
    assert_eq!(
        reports[3].note.as_deref(),
        Some("not looked up: earlier lookups of this pass took 30 s without an answer")
    );
}

/// The API server has no static pod under the uid of its directory: that is a hash of its manifest.
#[tokio::test]
async fn the_directory_of_a_pod_that_may_be_static_needs_the_list_of_the_kubelet() {
    let (mut bench, _) = bench(|_| Seen::Seen(false));
    bench.options.kubelet_root = bench.sim.dir().join("kubelet");
    let mut outcomes = Vec::new();
    for uid in ["fcba987654321fcba987654321fcba98", "247610f4-dedd-4ab7-a47d-07dbda19c81c"] {
        let removal = super::kubelet_files::pod_directory(&bench, uid);
        fs::create_dir_all(PathBuf::from(removal.target.id())).unwrap();
        outcomes.extend(bench.carry_out(vec![removal]).await);
    }
    let kept = format!("fcba987654321fcba987654321fcba98 refused: {}", Refusal::PodNotProven);
    assert_eq!(outcomes, [kept, "247610f4-dedd-4ab7-a47d-07dbda19c81c removed".to_owned()]);
}
