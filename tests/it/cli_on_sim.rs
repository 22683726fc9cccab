//! The binary and a simulated node behind a real socket.

mod kubelet_leftovers;
mod large_mess;
mod log_archive;
mod log_limits;
pub mod restarted_together;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use kubegc::model::Snapshot;
use kubegc::plan::{Action, Plan};
use kubegc::record::Lock;
use kubegc::sim::{FakeSocket, Fault, GIB, MIB, Node, Rpc, Sim, Times};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tonic::Code;

use crate::shell::Shell;

/// The longest wait for something that must happen.
const SOON: Duration = Duration::from_mins(3);

/// A shell and a node.
pub struct Host {
    pub shell: Shell,
    pub sim: Sim,
}

impl Host {
    pub fn new() -> Self {
        Self::with(node())
    }

    pub fn with(node: Node) -> Self {
        let sim = Sim::start(node).unwrap();
        // The binary measures this machine's disk and would find its kubelet, so no test may depend on either.
        let config = format!(
            "images.high_threshold_percent = 100\npods.source = \"none\"\nnode = \"n1\"\nruntime.endpoint = \"{}\"\nlogs.pods_root = \"{}\"\nlogs.containers_root = \"{}\"\n\
             state.path = \"{}\"\nstate.lock = \"{}\"\nkubelet_root = \"{}\"\nleftovers.networks_root = \"{}\"\nguards.settle = \"0s\"\n",
            sim.endpoint(),
            sim.log_roots().pods.display(),
            sim.log_roots().containers.display(),
            sim.dir().join("state/kubegc.db").display(),
            sim.dir().join("run/kubegc.lock").display(),
            sim.dir().join("kubelet").display(),
            sim.dir().join("networks").display(),
        );
        Self { shell: Shell::new().with("kubegc.toml", &config), sim }
    }

    pub fn run(&self, arguments: &[&str]) -> String {
        self.shell.run(arguments).replace(&self.sim.dir().display().to_string(), "DIR")
    }

    /// Returns what is left on the node.
    pub fn rest(&self) -> [Vec<String>; 3] {
        let node = self.sim.state();
        [node.container_names(), node.sandbox_names(), node.image_names()]
    }

    pub fn spawn(&self, arguments: &[&str]) -> Child {
        self.shell.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }
}

/// Returns a node with a running pod, a crash-looping pod, a pod that ran twice, and unused images.
pub fn node() -> Node {
    let (minute, hour) = (Duration::from_mins(1), Duration::from_hours(1));
    let node = Node::new().now(Timestamp::now()).disk(100 * GIB, 50 * GIB).ago(48 * hour);
    let node = ["web:1", "web:2", "job:1", "old:1", "older:1"]
        .iter()
        .fold(node, |node, name| node.image(&format!("r.example/{name}"), &[("base", 40 * MIB), (name, 8 * MIB)]));
    let node =
        node.ago(3 * hour).id("s-web").pod("default", "web", "u-web").id("webapp01").running("app", "r.example/web:2");
    let node = node.ago(2 * hour).id("s-crash").pod("default", "crash", "u-crash");
    let node = (1..=4)
        .fold(node, |node, n| node.ago((60 - n) * minute).id(&format!("c-crash-{n}")).exited("app", "r.example/web:1"));
    let node = node.ago(5 * hour).id("s-job-0").pod("default", "job", "u-job").stopped();
    node.ago(4 * hour)
        .id("s-job-1")
        .pod("default", "job", "u-job")
        .id("c-job")
        .exited("job", "r.example/job:1")
        .stopped()
}

#[test]
fn a_node_plan_equals_the_plan_of_its_snapshot() {
    let host = Host::new();
    let text = host.shell.run(&["plan", "-o", "json"]);
    let live: Plan = serde_json::from_str(&text).unwrap();
    let snapshot = host.shell.run(&["snapshot"]);
    assert_eq!(serde_json::from_str::<Snapshot>(&snapshot).unwrap().node, "n1");
    let text = host.shell.run_on(&snapshot, &["plan", "--snapshot", "-", "-o", "json"]);
    let offline: Plan = serde_json::from_str(&text).unwrap();
    let ids = |plan: &Plan| plan.actions.iter().map(Action::key).collect::<Vec<_>>();
    assert_eq!(ids(&live), ids(&offline));
    assert_eq!(ids(&live).len(), 4);
    let kept = |plan: &Plan| plan.kept.iter().map(|kept| (kept.id.clone(), kept.reason.kind())).collect::<Vec<_>>();
    assert_eq!(kept(&live), kept(&offline));
}

#[test]
fn a_command_reads_no_status_that_a_pass_read() {
    let host = Host::new();
    let statuses = |arguments: &[&str]| {
        let before = host.sim.calls_of(Rpc::ContainerStatus).len();
        host.run(arguments);
        host.sim.calls_of(Rpc::ContainerStatus).len() - before
    };
    assert_eq!(statuses(&["plan"]), 1, "the mounts of the running container");
    host.run(&["collect"]);
    assert_eq!(statuses(&["plan"]), 0, "the store has them");
}

/// As after a rollback.
#[test]
fn a_store_of_a_newer_version_hides_nothing_else() {
    let host = Host::new();
    host.run(&["collect"]);
    let store = rusqlite::Connection::open(host.sim.dir().join("state/kubegc.db")).unwrap();
    store.pragma_update(None, "user_version", 99).unwrap();
    drop(store);
    let cause = "the store DIR/state/kubegc.db has schema version 99, but this kubegc supports versions up to";
    let status = host.run(&["status"]);
    let has_line = |head: &str, text: &str| status.lines().any(|it| it.starts_with(head) && it.contains(text));
    assert!(has_line("Store:", cause) && has_line("Runtime:", "cri.sock"), "{status}");
    assert!(status.ends_with("! error: no agent runs on this node\n"), "{status}");
    let plan = host.run(&["plan"]);
    assert!(plan.contains(cause) && plan.contains("planning without memory"), "{plan}");
    let collect = host.run(&["collect"]);
    assert!(collect.contains(cause) && !collect.contains("Removed"), "{collect}");
}

#[test]
fn a_snapshot_always_contains_image_volumes() {
    let host = Host::with(
        node().in_sandbox("s-web").id("side").running("side", "r.example/web:2").mounting("r.example/old:1"),
    );
    std::fs::write(host.shell.path("s.json"), host.shell.run(&["snapshot"])).unwrap();
    let why = host.run(&["why", "--snapshot", "s.json", "r.example/old:1", "--set", "images.all_unused=true"]);
    assert!(why.contains("container side mounts it as an image volume"), "{why}");
}

#[test]
fn a_collection_does_what_its_dry_run_showed() {
    let host = Host::new();
    let before = host.rest();
    insta::assert_snapshot!(host.run(&["collect", "--dry-run"]), @"
    KIND       ID         NAME               OUTCOME       WHY
    container  c-crash-1  default/crash/app  would remove  over containers.max_per_pod_container (1)
    container  c-crash-2  default/crash/app  would remove  over containers.max_per_pod_container (1)
    container  c-crash-3  default/crash/app  would remove  over containers.max_per_pod_container (1)
    sandbox    s-job-0    default/job        would remove  pod has a newer sandbox

    KIND       WOULD REMOVE  ALREADY REMOVED  REFUSED  FAILED  NOT NEEDED
    container  3             0                0        0       0
    sandbox    1             0                0        0       0

    Would be removed: 3 containers and 1 sandbox. 20 kept.
    ! warning: no history yet: ages count from this command; run the service, or `kubegc collect --wait`
    ");
    assert_eq!(host.rest(), before);
    let writes = [Rpc::StopContainer, Rpc::RemoveContainer, Rpc::StopPodSandbox, Rpc::RemovePodSandbox];
    assert!(writes.iter().all(|write| host.sim.calls_of(*write).is_empty()));
    assert!(!host.sim.dir().join("state").exists());

    insta::assert_snapshot!(host.run(&["collect"]), @"
    KIND       ID         NAME               OUTCOME  FREED    WHY
    container  c-crash-1  default/crash/app  removed  ~4.0KiB  over containers.max_per_pod_container (1)
    container  c-crash-2  default/crash/app  removed  ~4.0KiB  over containers.max_per_pod_container (1)
    container  c-crash-3  default/crash/app  removed  ~4.0KiB  over containers.max_per_pod_container (1)
    sandbox    s-job-0    default/job        removed  unknown  pod has a newer sandbox

    KIND       REMOVED  ALREADY REMOVED  REFUSED  FAILED  NOT NEEDED  FREED
    container  3        0                0        0       0           12.0KiB
    sandbox    1        0                0        0       0

    Removed: 3 containers and 1 sandbox, 12.0KiB reclaimed (measured). 20 kept.
    ! warning: no history yet: ages count from this command; run the service, or `kubegc collect --wait`
    ");
    insta::assert_snapshot!(host.rest().concat().join("\n"), @r#"
    crash/app#3 exited
    job/job#0 exited
    web/app#0 running
    crash#0 ready
    job#1 not_ready
    web#0 ready
    r.example/job:1
    r.example/old:1
    r.example/older:1
    r.example/web:1
    r.example/web:2
    "#);
    insta::assert_snapshot!(host.run(&["collect"]), @"Nothing removed. 17 kept.");
    assert_eq!(host.run(&["history", "-o", "json"]).lines().count(), 4);
}

#[test]
fn the_collection_schema_accepts_collections_only() {
    let host = Host::new();
    let json = |arguments: &[&str]| serde_json::from_str::<serde_json::Value>(&host.shell.run(arguments)).unwrap();
    let schema = jsonschema::validator_for(&json(&["config", "schema", "collection"])).unwrap();
    let dry = json(&["collect", "--dry-run", "--pressure", "-o", "json"]);
    let done = json(&["collect", "--evict-terminated-pods", "-o", "json"]);
    for document in [&dry, &done] {
        assert!(schema.is_valid(document), "{document}");
        assert_ne!(document["reports"], serde_json::json!([]));
    }
    assert!(!schema.is_valid(&json(&["plan", "-o", "json"])));
}

#[test]
fn a_failure_is_reported_and_other_removals_continue() {
    let host = Host::new();
    host.sim.fault(Rpc::RemovePodSandbox, Fault::Fail(Code::Internal), Times::Forever);
    insta::assert_snapshot!(host.run(&["collect"]), @"
    exit Some(1)
    KIND       ID         NAME               OUTCOME  FREED    WHY
    container  c-crash-1  default/crash/app  removed  ~4.0KiB  over containers.max_per_pod_container (1)
    container  c-crash-2  default/crash/app  removed  ~4.0KiB  over containers.max_per_pod_container (1)
    container  c-crash-3  default/crash/app  removed  ~4.0KiB  over containers.max_per_pod_container (1)
    sandbox    s-job-0    default/job        failed            RemovePodSandbox: a fault that the test requested (Internal)

    KIND       REMOVED  ALREADY REMOVED  REFUSED  FAILED  NOT NEEDED  FREED
    container  3        0                0        0       0           12.0KiB
    sandbox    0        0                0        1       0

    Removed: 3 containers, 12.0KiB reclaimed (measured). 1 failed. 20 kept.
    ! warning: no history yet: ages count from this command; run the service, or `kubegc collect --wait`
    ! error: 1 removal failed
    ");
    // The next pass is in back-off and does not try again.
    let why = host.run(&["why", "s-job-0"]);
    assert!(why.contains("keep: its removal failed once"), "{why}");
    assert!(why.contains("setting: profile = \"safe\" (built-in)"), "{why}");
}

#[test]
fn all_unused_images_are_removed_on_request() {
    let host = Host::new();
    let text = host.run(&[
        "collect",
        "--scope",
        "images",
        "--set",
        "images.all_unused=true",
        "--set",
        "images.min_age=0",
        "-o",
        "json",
    ]);
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["kind"], "Collection");
    assert_eq!(document["reports"].as_array().unwrap().len(), 2, "{document:#}");
    assert_eq!(host.rest()[2], ["r.example/job:1", "r.example/web:1", "r.example/web:2"]);
}

/// Below the threshold the service removes everything unused within seconds.
#[test]
fn a_configured_pressure_counts_for_every_command() {
    let host = Host::new();
    let short = |command: &[&str]| {
        host.run(&[command, &["--set=pressure.free_bytes=1000TiB", "--set=images.min_age=0s"]].concat())
    };
    let plan = short(&["plan"]);
    assert!(plan.contains("Pressure: ") && plan.contains("r.example/older:1"), "{plan}");
    let images = short(&["images"]);
    assert!(images.lines().any(|line| line.starts_with("r.example/older:1") && line.contains("remove: ")), "{images}");
    assert!(!host.run(&["plan", "--set=images.min_age=0s"]).contains("r.example/older:1"), "without pressure it stays");
    short(&["collect"]);
    assert!(!host.rest()[2].contains(&"r.example/older:1".to_owned()), "{:?}", host.rest());
}

#[test]
fn a_saved_plan_skips_objects_that_changed() {
    let host = Host::new();
    let shell = &host.shell;
    std::fs::write(shell.path("plan.json"), shell.run(&["plan", "-o", "json"])).unwrap();
    // One more crash, which the plan does not contain.
    let now = Timestamp::now();
    host.sim
        .state()
        .also(|node| node.at(now).in_sandbox("s-crash").id("c-crash-5").exited("app", "r.example/web:1"))
        .unwrap();
    let text = host.run(&["collect", "--plan", "plan.json", "-o", "json"]);
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    let gone: Vec<_> =
        document["reports"].as_array().unwrap().iter().map(|report| report["action"]["id"].as_str().unwrap()).collect();
    insta::assert_snapshot!(gone.join(" "), @"c-crash-1 c-crash-2 c-crash-3 s-job-0");
    insta::assert_snapshot!(host.rest()[0].join("\n"), @r#"
    crash/app#3 exited
    crash/app#4 exited
    job/job#0 exited
    web/app#0 running
    "#);
    std::fs::write(shell.path("snapshot.json"), shell.run(&["snapshot"])).unwrap();
    insta::assert_snapshot!(host.run(&["collect", "--plan", "snapshot.json"]), @r#"
    exit Some(2)
    ! error: snapshot.json is not a plan to carry out: it is a Snapshot
    ! hint: `kubegc plan -o json` prints one
    "#);
}

#[test]
fn a_saved_kubelet_plan_obeys_the_current_guards() {
    let host = Host::new();
    let shell = &host.shell;
    let arguments = ["plan", "--profile", "kubelet", "--set", "containers.max_per_pod_container=0", "-o", "json"];
    std::fs::write(shell.path("plan.json"), shell.run(&arguments)).unwrap();
    let text = host.run(&["collect", "--plan", "plan.json", "-o", "json"]);
    assert!(text.ends_with("! error: 2 removals refused\n"), "{text}");
    let document: serde_json::Value = serde_json::from_str(text.lines().nth(1).unwrap()).unwrap();
    let reports = document["reports"].as_array().unwrap();
    let refused = reports.iter().filter(|report| report["outcome"] == "refused");
    let refused: Vec<_> = refused.map(|report| report["action"]["id"].as_str().unwrap()).collect();
    assert_eq!(refused, ["c-job", "c-crash-4"]);
    insta::assert_snapshot!(host.rest()[0].join("\n"), @r#"
    crash/app#3 exited
    job/job#0 exited
    web/app#0 running
    "#);
}

#[test]
fn why_explains_the_node() {
    let host = Host::new();
    insta::assert_snapshot!(host.run(&["why", "c-crash-4"]), @"
    container app c-crash-4, exited, of pod default/crash
      attempt 3, created 56m ago, exit code 0, finished 56m ago, logs 4.0KiB
      keep: kubegc keeps the newest dead container of this name in its pod, and this is it
      setting: containers.max_per_pod_container = 1 (built-in)
      changes when: its pod is deleted, a newer instance exits, or containers.max_per_pod_container is lower

    pods: no pod list available: pods.source is none
    ");
    insta::assert_snapshot!(host.run(&["why", "default/web"]), @r#"
    container app webapp01, running, of pod default/web
      attempt 0, created 3h ago, logs 4.0KiB
      keep: it is running
      changes when: it exits

    sandbox s-web, ready, of pod default/web
      created 3h ago
      keep: the sandbox is ready
      changes when: the runtime stops the sandbox

    log directory DIR/pods/default_web_u-web
      size 4.0KiB
      keep: no pod list is available, so every pod may exist
      setting: pods.source = "none" (kubegc.toml)
      changes when: a pod source is available

    log link DIR/containers/web_default_app-webapp01.log
      keep: the kubelet creates no entry with this name or type
      setting: profile = "safe" (built-in)
      changes when: it is removed by hand

    pods: no pod list available: pods.source is none
    "#);
}

#[test]
fn plan_and_collect_are_limited_to_named_objects() {
    let host = Host::new();
    let names = |arguments: &[&str]| host.run(&[&["plan", "-o", "name"], arguments].concat());
    assert_eq!(names(&[]), "container/c-crash-1\ncontainer/c-crash-2\ncontainer/c-crash-3\nsandbox/s-job-0\n");
    assert_eq!(names(&["--kind", "sandbox"]), "sandbox/s-job-0\n");
    assert_eq!(names(&["--namespace", "other"]), "");
    assert_eq!(names(&["container/c-crash-2", "s-job-0"]), "container/c-crash-2\nsandbox/s-job-0\n");
    let unknown = host.run(&["collect", "container/nothing-like-it"]);
    assert!(unknown.starts_with("exit Some(2)\n"), "{unknown}");
    assert!(unknown.contains("! error: no container, sandbox, image, pod or path"), "{unknown}");
    host.run(&["collect", "container/c-crash-2"]);
    let left = host.rest()[0].join(" ");
    assert!(!left.contains("crash/app#1 ") && left.contains("crash/app#0 ") && left.contains("crash/app#3 "), "{left}");
    // A running container is kept whatever is named (I1).
    host.run(&["collect", "container/webapp01"]);
    assert!(host.rest()[0].join(" ").contains("web/app#0 running"));
}

/// Serves a kubelet's read-only port with one pod until it is dropped.
fn kubelet_with(uid: &str) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let list = format!(
        r#"{{"kind":"PodList","apiVersion":"v1","items":[{{"metadata":{{"uid":"{uid}","namespace":"default","name":"web","annotations":{{
            "kubernetes.io/config.source":"api","kubernetes.io/config.seen":"2026-01-02T11:00:00Z"}}}}}}]}}"#
    );
    let serve = move |mut stream: std::net::TcpStream| {
        let mut request = String::new();
        BufReader::new(&stream).read_line(&mut request).unwrap();
        let body = if request.contains("/pods") { list.as_str() } else { "ok" };
        let head = format!("HTTP/1.1 200 OK\r\ndate: Fri, 02 Jan 2026 12:00:00 GMT\r\ncontent-length: {}", body.len());
        stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).unwrap();
    };
    std::thread::spawn(move || listener.incoming().map(Result::unwrap).for_each(serve));
    format!("--set=pods.kubelet_endpoint=http://{address}")
}

#[test]
fn the_kubelet_is_the_pod_source() {
    let host = Host::new();
    let endpoint = kubelet_with("u-web");
    let plan = |flags: &[&str]| -> Snapshot {
        let text = host.shell.run(&[&["snapshot", &endpoint], flags].concat());
        serde_json::from_str(&text).unwrap()
    };
    let shown = plan(&["--pod-source=kubelet"]);
    let list = shown.pods.as_ref().unwrap();
    assert_eq!((list.source.as_str(), list.complete, list.pods.len()), ("kubelet", true, 1));
    assert_eq!(list.sources[0].chosen_by, "pods.source");
    let why = host.run(&["why", &endpoint, "--pod-source=kubelet", "default/crash"]);
    assert!(why.contains("its pod still has a running container or a ready sandbox"), "{why}");
}

#[test]
fn a_missing_directory_of_pods_is_unavailable() {
    let host = Host::with(Node::new());
    let endpoint = kubelet_with("u-web");
    let text = host.shell.run(&["snapshot", &endpoint, "--pod-source=kubelet"]);
    let dirs = serde_json::from_str::<Snapshot>(&text).unwrap().pod_dirs;
    assert!(dirs.cause().unwrap().contains("kubelet/pods: entity not found"));
}

#[test]
fn an_unreachable_runtime_has_status_3_and_a_cause() {
    let shell = Shell::new();
    let silent = FakeSocket::silent().unwrap();
    let deserted = FakeSocket::deserted().unwrap();
    let old = Sim::start(Node::new().only_v1alpha2()).unwrap();
    let plan = |endpoint: &str| {
        let text = shell.run(&["plan", "-r", endpoint]);
        text.replace(endpoint.trim_start_matches("unix://"), "SOCKET")
    };
    insta::assert_snapshot!(plan("/nowhere.sock"), @r#"
    exit Some(3)
    ! error: SOCKET: no such socket; start the runtime, or name its socket with --runtime-endpoint or runtime.endpoint
    "#);
    insta::assert_snapshot!(plan(&deserted.endpoint()), @r#"
    exit Some(3)
    ! error: SOCKET: nothing listens on this socket; start the runtime
    "#);
    insta::assert_snapshot!(plan(&silent.endpoint()), @r#"
    exit Some(3)
    ! error: SOCKET: accepts connections but did not answer Version within 5 s; the runtime hangs, or this is not a CRI socket
    "#);
    insta::assert_snapshot!(plan(&old.endpoint()), @r#"
    exit Some(3)
    ! error: SOCKET: the runtime supports only CRI v1alpha2, and kubegc needs v1; upgrade it (containerd 1.6 or CRI-O 1.23, or newer)
    "#);
    for verb in [&["collect"][..], &["collect", "--dry-run"], &["snapshot"], &["why", "web"]] {
        let arguments = [verb, &["-r", "/nowhere.sock", "--state", "s/kubegc.db", "--lock", "s/kubegc.lock"]].concat();
        assert!(shell.run(&arguments).starts_with("exit Some(3)\n"), "{verb:?}");
    }
}

#[test]
fn a_failed_source_makes_the_plan_a_partial_failure() {
    let host = Host::new();
    host.sim.fault(Rpc::ImageFsInfo, Fault::Fail(Code::Internal), Times::Forever);
    let text = host.run(&["plan", "--image-gc-high-threshold=85"]);
    assert!(text.starts_with("exit Some(1)\n"), "{text}");
    insta::assert_snapshot!(text.lines().rev().take(4).collect::<Vec<_>>().join("\n"), @"
    ! error: image_filesystem unavailable: ImageFsInfo: a fault that the test requested (Internal)
    ! warning: no history yet: ages count from this command; run the service, or `kubegc collect --wait`
    To remove: 3 containers and 1 sandbox. 20 kept.
    Error: image_filesystem unavailable: ImageFsInfo: a fault that the test requested (Internal)
    ");
}

#[test]
fn one_agent_collects_on_a_node() {
    let host = Host::new();
    let _lock = Lock::take(&host.sim.dir().join("run/kubegc.lock"), "run").unwrap();
    let text = host.run(&["collect"]).replace(&std::process::id().to_string(), "PID");
    insta::assert_snapshot!(text, @"
    exit Some(5)
    ! warning: no history yet: ages count from this command; run the service, or `kubegc collect --wait`
    ! error: another kubegc (pid PID, run) holds DIR/run/kubegc.lock; one agent collects on a node
    ! hint: `kubegc plan` works without the lock
    ");
    assert!(host.run(&["plan"]).contains("To remove: 3 containers"));
}

/// Opens a connection of another program that holds the store's write lock until it is dropped.
fn locked_store(host: &Host) -> rusqlite::Connection {
    let other = rusqlite::Connection::open(host.sim.dir().join("state/kubegc.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    other
}

#[test]
fn an_unwritable_store_makes_collection_a_partial_failure() {
    let host = Host::new();
    host.run(&["collect", "--scope", "images"]);
    let other = locked_store(&host);
    let text = host.run(&["collect"]);
    assert!(text.starts_with("exit Some(1)\n") && text.contains("Removed: 3 containers and 1 sandbox"), "{text}");
    let error = "! error: cannot use the store DIR/state/kubegc.db: database is locked; continuing in memory, so this \
                 pass is not in the history\n";
    assert!(text.ends_with(error), "{text}");
    drop(other);
    assert_eq!(host.run(&["collect"]), "Nothing removed. 17 kept.\n");
}

#[tokio::test]
async fn a_service_reports_an_unwritable_store_until_it_recovers() {
    let host = Host::new();
    host.run(&["collect", "--scope", "images"]);
    let other = locked_store(&host);
    let home = crate::agent::Home::new(&host.sim, "containers.interval = \"1s\"");
    let path = host.sim.dir().join("state/kubegc.db");
    let mut service = home.start(&["run", "--state", path.to_str().unwrap()]);
    service.says("pass is not recorded on disk").await;
    service.says("pass done").await;
    assert_eq!(host.rest()[0].len(), 2, "it removed what was to be removed");
    let status = ["status", "--state", path.to_str().unwrap()];
    let shown = String::from_utf8(home.run(&status).stdout).unwrap();
    assert!(shown.contains("Store:      cannot use the store /") && shown.contains("database is locked"), "{shown}");
    drop(other);
    service.says("the store is written to disk again").await;
    service.says("pass done").await;
    service.says("pass done").await;
    let shown = String::from_utf8(home.run(&status).stdout).unwrap();
    assert!(!shown.contains("Store:") && shown.contains("Last pass:  containers"), "{shown}");
    service.signal(Signal::SIGTERM);
    assert_eq!(service.ended().await.code(), Some(0));
    let history = host.run(&["history", "-o", "json"]);
    assert!(history.lines().count() >= 3, "what was removed meanwhile is in the history: {history}");
}

#[tokio::test]
async fn a_store_overwritten_during_service_is_set_aside() {
    let host = Host::new();
    let home = crate::agent::Home::new(&host.sim, "containers.interval = \"1s\"");
    let mut service = home.start(&["run"]);
    service.says("pass done").await;
    std::fs::write(home.store(), vec![7; 50_000]).unwrap();
    service.says("the store was damaged; created a new one").await;
    service.says("the store is written to disk again").await;
    service.says("pass done").await;
    service.signal(Signal::SIGTERM);
    assert_eq!(service.ended().await.code(), Some(0));
    assert_eq!(std::fs::read(home.store().with_extension("db.corrupt-1")).unwrap(), vec![7; 50_000]);
    let history = String::from_utf8(home.run(&["history", "-o", "json"]).stdout).unwrap();
    assert!(history.contains("c-crash-1"), "what the service knew is in the fresh file: {history}");
}

#[test]
fn the_service_collects_at_once_and_stops_on_signal() {
    let host = Host::new();
    let mut service = host.spawn(&["run", "--set", "log.format=json"]);
    let mut log = BufReader::new(service.stderr.take().unwrap()).lines();
    let (sender, lines) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        while let Some(Ok(line)) = log.next() {
            sender.send(line).ok();
        }
    });
    let deadline = Instant::now() + SOON;
    let await_line = |what: &str, times: usize| {
        let mut seen = 0;
        while seen < times {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = lines.recv_timeout(left).unwrap_or_else(|_| panic!("the log did not say {what:?}"));
            let entry: serde_json::Value = serde_json::from_str(&line).unwrap();
            seen += usize::from(entry["fields"]["message"] == what);
        }
    };
    await_line("pass done", 2);
    assert_eq!(host.rest()[0], ["crash/app#3 exited", "job/job#0 exited", "web/app#0 running"]);
    let pid = Pid::from_raw(i32::try_from(service.id()).unwrap());
    kill(pid, Signal::SIGTERM).unwrap();
    await_line("stopped", 1);
    assert!(service.wait().unwrap().success());
    reader.join().unwrap();
}

/// Starts `collect`, waits for the first removal, and sends these signals.
pub async fn interrupted(host: &Host, signals: &[Signal]) -> std::process::Output {
    let collection = host.spawn(&["collect"]);
    let pid = Pid::from_raw(i32::try_from(collection.id()).unwrap());
    host.sim.await_call(Rpc::RemoveContainer).await.unwrap();
    for signal in signals {
        kill(pid, *signal).unwrap();
    }
    let end = tokio::task::spawn_blocking(|| collection.wait_with_output().unwrap());
    tokio::time::timeout(SOON, end).await.expect("the collection does not end").unwrap()
}

#[tokio::test]
async fn a_signal_ends_collection_after_the_current_action() {
    let host = Host::new();
    host.sim.fault(Rpc::RemoveContainer, Fault::Slow(Duration::from_secs(1)), Times::N(1));
    let output = interrupted(&host, &[Signal::SIGTERM]).await;
    assert_eq!(output.status.code(), Some(128 + 15));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.ends_with("error: 3 removals not begun, because of SIGTERM\n"), "{error}");
    assert_eq!(host.rest()[0].len(), 5);
    assert_eq!(host.run(&["history", "-o", "json"]).lines().count(), 1);
}

#[test]
fn a_collection_names_removals_that_a_hang_prevented() {
    let host = Host::new();
    host.sim.fault(Rpc::RemoveContainer, Fault::Hang, Times::Forever);
    let output = host.run(&["collect", "--set", "runtime.removal_timeout=1s"]);
    let cause = "container removals ended early: RemoveContainer: no answer within 1 s (1 action not begun)";
    assert!(output.contains(&format!("Error: {cause}")), "{output}");
    assert!(output.starts_with("exit Some(1)"), "{output}");
    assert!(output.contains(&format!("! error: 2 removals failed and {cause}")), "{output}");
    assert_eq!(host.sim.calls_of(Rpc::RemoveContainer).len(), 2);
    assert!(host.run(&["history", "--runs", "-o", "json"]).contains(cause), "the record has the cause");
}

#[tokio::test]
async fn a_second_signal_ends_a_collection_at_once() {
    let host = Host::new();
    host.sim.fault(Rpc::RemoveContainer, Fault::Hang, Times::Forever);
    // Two equal signals, sent at the same time, may arrive as one.
    let output = interrupted(&host, &[Signal::SIGTERM, Signal::SIGINT]).await;
    assert!([Some(128 + 15), Some(128 + 2)].contains(&output.status.code()), "{output:?}");
    // The lock is free, and the next run does the work.
    host.sim.heal();
    assert!(host.run(&["collect"]).contains("Removed: 3 containers"));
}

/// After 100 lines the sum at the end of the table has left the screen.
#[test]
fn a_long_plan_begins_with_its_sum() {
    let plan = |count: usize| {
        let container = |number: usize| {
            serde_json::json!({ "id": format!("c{number:04}"), "name": "app", "attempt": number, "state": "exited",
                "pod": { "uid": "u", "namespace": "shop", "name": "web" }, "created_at": "2026-11-21T11:00:00Z" })
        };
        let node = serde_json::json!({ "taken_at": "2026-11-21T12:00:00Z", "sandboxes": { "seen": [] },
            "containers": { "seen": (0..=count).map(container).collect::<Vec<_>>() } });
        Shell::new().run_on(&node.to_string(), &["plan", "--scope", "containers", "--snapshot", "-"])
    };
    let [short, long] = [100, 101].map(plan);
    let sum =
        "To remove: 101 containers. 1 kept.\n  101 containers   over containers.max_per_pod_container (1)\n\nKIND ";
    assert!(long.contains(sum) && long.contains("\nTo remove: 101 containers. 1 kept.\n"), "{long}");
    assert_eq!(short.matches("To remove: ").count(), 1, "{short}");
}

#[test]
fn the_status_shows_the_agent_and_its_data_sources() {
    let mut host = Host::new();
    let lines = |text: &str| -> Vec<String> {
        // The disk usage of this machine and the age of a pass vary, so the test ignores them.
        let fixed = text.lines().filter(|line| !line.contains(" disk:"));
        fixed.map(|line| line.split(" ago").next().unwrap().trim_end_matches(char::is_numeric).to_owned()).collect()
    };
    insta::assert_snapshot!(lines(&host.run(&["status"])).join("\n"), @"
    exit Some(1)
    Node:       n
    Agent:      none
    Runtime:    sim 0.1.0 at DIR/cri.sock
    Pods:       no pod list available: pods.source is none
    To remove:  4 objects
    ! error: no agent runs on this node
    ");
    assert!(host.run(&["collect"]).contains("Removed"));
    let _lock = Lock::take(&host.sim.dir().join("run/kubegc.lock"), "run").unwrap();
    let shown = host.run(&["status"]);
    assert!(shown.contains(&format!("Agent:      pid {}, run\n", std::process::id())), "{shown}");
    assert!(shown.contains("To remove:  0 objects\n"), "{shown}");
    assert!(shown.contains("Last pass:  all, ") && shown.contains("s ago: removed "), "{shown}");
    let document: serde_json::Value = serde_json::from_str(host.run(&["status", "-o", "json"]).trim()).unwrap();
    assert_eq!((&document["kind"], &document["last_runs"][0]["scope"]), (&"Status".into(), &"all".into()));
    host.sim.stop_listening();
    let shown = host.run(&["status"]);
    assert!(shown.starts_with("exit Some(3)") && shown.contains("Runtime:    unavailable: "), "{shown}");
    let disks = host.run(&["plan"]);
    assert!(disks.starts_with("exit Some(3)\nDisk: "), "{disks}");
    assert!(shown.contains("Log disk:"), "{shown}");
    assert!(shown.contains("Last pass:  all, "), "what is recorded needs no runtime: {shown}");
}

/// The files of the agent are where the sound settings say. The node is looked at with them, and without a credential.
#[test]
fn the_status_names_the_faults_of_the_configuration() {
    let host = Host::new();
    std::fs::create_dir(host.shell.path("conf.d")).unwrap();
    std::fs::write(host.shell.path("conf.d/10.toml"), "[images]\nmin_age = 5\n").unwrap();
    let _lock = Lock::take(&host.sim.dir().join("run/kubegc.lock"), "run").unwrap();
    let fault = "conf.d/10.toml:2:1: images.min_age = 5: expected a unit: \"5s\" for seconds, \"5m\" for minutes";
    let shown = host.run(&["status"]);
    assert!(shown.starts_with("exit Some(1)") && shown.contains(&format!("Config:     {fault}\n")), "{shown}");
    assert!(shown.contains(&format!("Agent:      pid {}, run\n", std::process::id())), "{shown}");
    assert!(shown.contains("! error: 1 fault in the configuration\n! hint: `kubegc config check`"), "{shown}");
    assert!(shown.contains("Runtime:    sim 0.1.0 at "), "the runtime is sound: {shown}");
    let json = host.shell.command(&["status", "-o", "json"]).output().unwrap().stdout;
    let document: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert!(document["config_faults"][0].as_str().unwrap().ends_with(fault), "{document:#}");
    let typed = host.run(&["status", "--set", "images.min_age=5"]);
    assert!(typed.starts_with("exit Some(2)"), "{typed}");
}

#[test]
fn why_names_the_removal_of_an_object() {
    let host = Host::new();
    host.run(&["collect", "--set=images.all_unused=true", "--set=images.min_age=0s"]);
    let removed = |word: &str, kind: &str, what: &str| {
        let why = host.run(&["why", word]);
        let missing =
            format!("exit Some(2)\n! error: no container, sandbox, image, pod or path matches {word:?}; {kind} ");
        assert!(why.starts_with(&missing) && why.contains(what), "{word}: {why}");
        assert!(why.contains(" was removed at 20") && why.contains("Z by run 1: "), "{why}");
        assert!(why.contains("! hint: `kubegc history 1` shows the run"), "{why}");
    };
    removed("old:1", "image", "r.example/old:1 was removed");
    removed("image/r.example/old", "image", ": unused (images.all_unused)");
    removed("c-crash-1", "container", "default/crash/app (c-crash-1) was");
    let never = host.run(&["why", "nowhere:1"]);
    assert!(never.contains("matches \"nowhere:1\"\n! hint"), "{never}");
    let other = host.run(&["why", "c-crash-1", "-n", "kube-system"]);
    assert!(!other.contains("was removed"), "{other}");
}

#[test]
fn plan_and_status_report_lists_too_large_to_send() {
    let host = Host::with(node().send_limit(1600));
    let plan = host.run(&["plan"]);
    assert!(plan.contains("Lists: containers received in"), "{plan}");
    let status = host.run(&["status"]);
    assert!(status.contains("Warning:") && status.contains("usual limit on one message is 16.0MiB"), "{status}");
    assert!(status.contains("hint: "), "{status}");
    let whole = Host::new();
    assert!(!whole.run(&["plan"]).contains("Lists:") && !whole.run(&["status"]).contains("Warning:"));
}

#[test]
fn the_account_of_the_disk_has_tables_a_document_and_a_snapshot() {
    let host = Host::with(node().other_client("moby", "their-container", "r.example/older:1"));
    let text = host.run(&["disk", "--top=1"]);
    for line in ["images in use ", "images removable ", "everything else ", "4 more images: --top 0"] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let schema: serde_json::Value = serde_json::from_str(&host.run(&["config", "schema", "disk-account"])).unwrap();
    let account: serde_json::Value = serde_json::from_str(&host.run(&["disk", "-o", "json"])).unwrap();
    assert!(jsonschema::is_valid(&schema, &account), "{account:#}");
    assert!(host.run(&["disk", "--top=0"]).contains("unused, kept for now: "), "{text}");
    let state = |name: &str| {
        let images = account["images"].as_array().unwrap();
        let image = images.iter().find(|image| image["name"] == name).unwrap();
        (image["category"].as_str().unwrap().to_owned(), image["own_bytes"].as_u64().unwrap() / MIB)
    };
    assert_eq!(state("r.example/web:2"), ("images_in_use".to_owned(), 0), "its container holds its layers too");
    assert_eq!(state("r.example/old:1"), ("images_removable".to_owned(), 8));
    assert_eq!(account["reclaimable_bytes"].as_u64().map(|bytes| bytes / MIB), Some(8), "what the others hold stays");

    std::fs::write(host.shell.path("node.json"), host.run(&["snapshot"])).unwrap();
    let of_snapshot = host.run(&["disk", "--top=1", "--snapshot", "node.json"]);
    // The rest of the disk is the machine's, and other programs write to it meanwhile.
    let images = |text: &str| {
        let row = text.lines().find(|line| line.starts_with("images in use")).unwrap();
        row.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(images(&of_snapshot), images(&text), "{of_snapshot}");
    let full_disk = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/snapshots/full_disk.json");
    let old = host.run(&["disk", "--snapshot", full_disk]);
    assert!(old.starts_with("exit Some(1)") && old.contains("the snapshot has no store of the runtime"), "{old}");
}

#[test]
fn the_space_of_pods_has_tables_a_document_and_a_snapshot() {
    let host = Host::new();
    let pods = host.sim.dir().join("kubelet/pods");
    for (path, kib) in [("u-web/volumes/kubernetes.io~empty-dir/cache/big", 3 << 10), ("u-gone/etc-hosts", 64)] {
        std::fs::create_dir_all(pods.join(path).parent().unwrap()).unwrap();
        std::fs::write(pods.join(path), vec![7; kib << 10]).unwrap();
    }
    let text = host.run(&["disk", "--by", "pod"]);
    let row = |text: &str, name: &str| text.lines().find(|line| line.starts_with(name)).map(str::to_owned);
    let web = row(&text, "default/web ").unwrap_or_else(|| panic!("{text}"));
    assert!(web.ends_with("empty-dir \"cache\" 3.0MiB"), "{text}");
    assert!(row(&text, "uid u-gone ").is_some(), "{text}");
    assert!(row(&text, "uid u-gone ").is_some_and(|row| row.contains("  -  ")), "no writable layer was read: {text}");
    let by_namespace = host.run(&["disk", "--by", "namespace", "--full"]);
    assert!(row(&by_namespace, "default ").is_some() && row(&by_namespace, "not known  1").is_some(), "{by_namespace}");
    let schema: serde_json::Value = serde_json::from_str(&host.run(&["config", "schema", "disk-by-pod"])).unwrap();
    let document: serde_json::Value = serde_json::from_str(&host.run(&["disk", "--by=pod", "-o=json"])).unwrap();
    assert!(jsonschema::is_valid(&schema, &document), "{document:#}");
    host.shell.write("node.json", &host.run(&["snapshot"]));
    assert_eq!(row(&host.run(&["disk", "--by=pod", "--snapshot=node.json"]), "default/web "), Some(web));
}

/// A full disk is when a runtime is down.
#[test]
fn the_account_of_the_disk_needs_no_runtime_and_no_sound_configuration() {
    let host = Host::new();
    let text = host.run(&["disk", "--runtime-endpoint=unix:///none.sock"]);
    assert!(text.starts_with("exit Some(3)") && text.contains("/none.sock: no such socket"), "{text}");
    // What is large on this machine's disk differs; `whole_disk` names it on a disk of its own.
    for part in ["Disk of pod logs", "files of other programs ", "Not read: image file system: "] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let config = std::fs::read_to_string(host.shell.path("kubegc.toml")).unwrap();
    host.shell.write("kubegc.toml", &(config + "images.min_age = \"soon\"\n"));
    let text = host.run(&["disk", "--top=1"]);
    assert!(text.starts_with("exit Some(2)") && text.contains("images.min_age"), "{text}");
    assert!(text.contains("images in use ") && text.contains("r.example/older:1"), "{text}");
}

#[test]
fn blocks_reserved_for_root_count_as_used_in_every_command() {
    let host = Host::new();
    let mut snapshot: serde_json::Value = serde_json::from_str(&host.run(&["snapshot"])).unwrap();
    let disk = &mut snapshot["image_filesystem"]["seen"];
    for (field, gib) in [("capacity_bytes", 100), ("available_bytes", 50), ("free_bytes", 90)] {
        disk[field] = (gib * GIB).into();
    }
    host.shell.write("node.json", &snapshot.to_string());
    let flags =
        ["--snapshot", "node.json", "--set=images.high_threshold_percent=40", "--set=images.low_threshold_percent=30"];
    let run = |command| host.run(&[&[command], &flags[..]].concat());
    let account = run("disk");
    assert!(account.contains(": 50.0GiB of 100.0GiB used (50.0 %)"), "{account}");
    let reserved = account.lines().find(|line| line.starts_with("reserved blocks")).unwrap_or_default();
    assert_eq!(reserved.split_whitespace().collect::<Vec<_>>()[2..], ["40.0GiB", "40.0", "%", "-"], "{account}");
    assert!(run("images").contains("Image disk: 50.0GiB of 100.0GiB used."), "{}", run("images"));
    assert!(run("plan").contains("Image disk: 50% used"), "{}", run("plan"));
}

/// The account says what is missing, and images are removed all the same.
#[test]
fn a_store_that_cannot_be_read_is_named() {
    let host = Host::new();
    host.sim.fault(Rpc::Leases, Fault::Fail(Code::PermissionDenied), Times::Forever);
    let text = host.run(&["disk"]);
    assert!(
        text.contains("Not read: leases of namespace k8s.io: Leases/List: ") && text.contains("images in use"),
        "{text}"
    );
    host.sim.fault(Rpc::Namespaces, Fault::Fail(Code::Internal), Times::Forever);
    let text = host.run(&["disk"]);
    assert!(text.starts_with("exit Some(1)") && text.contains("store of the runtime: Namespaces/List"), "{text}");
    host.run(&["collect", "--set=images.all_unused=true", "--set=images.min_age=0s"]);
    assert_eq!(host.rest()[2], ["r.example/job:1", "r.example/web:1", "r.example/web:2"]);
}

#[test]
fn an_image_of_another_client_is_kept_and_explained() {
    let host = Host::with(node().other_client("moby", "their-container", "r.example/older:1"));
    host.run(&["collect", "--set=images.all_unused=true", "--set=images.min_age=0s"]);
    assert_eq!(host.rest()[2], ["r.example/job:1", "r.example/older:1", "r.example/web:1", "r.example/web:2"]);
    let why = host.run(&["why", "r.example/older:1", "--set=images.all_unused=true", "--set=images.min_age=0s"]);
    assert!(why.contains("container their-container in the namespace moby of the runtime uses it"), "{why}");
    let user = "used by: container their-container of another client of the runtime, in its namespace moby";
    let why = host.run(&["why", "r.example/older:1", "--set=images.keep=r.example/*"]);
    assert!(why.contains("keep: the pattern") && why.contains(user), "also beside another reason: {why}");
}

/// An image that another order selects is not among the least recently used.
#[test]
fn the_order_that_selects_an_image_is_named() {
    let host = Host::with(node().disk(100 * GIB, 10 * GIB));
    let why = |set: &str| {
        let full = ["--set=images.high_threshold_percent=1", "--set=images.low_threshold_percent=0"];
        host.run(&[&["why", "r.example/old:1", "--set=images.min_age=0s", "--set", set], &full[..]].concat())
    };
    let by_size = why("images.order=image.size_bytes");
    assert!(by_size.contains("this image is among the first by images.order"), "{by_size}");
    assert!(by_size.contains("  order: images.order = \"image.size_bytes\" (--set), score 50331648\n"), "{by_size}");
    let usual = why("images.order=least-recently-used");
    assert!(usual.contains("  order: images.order = \"least-recently-used\" (--set)\n"), "{usual}");
}

/// Rules in the file decide a whole pass: what a rule keeps stays, what a rule removes goes although the disk has space, and
/// what neither names stays as the settings say.
#[test]
fn rules_keep_and_remove_on_a_node() {
    let rules = "[[rule]]\nname = 'old stays'\nfor = 'image'\nwhen = \"image.repository == 'r.example/old'\"\n\
                 then = 'keep'\nnote = 'ask platform@'\n\
                 [[rule]]\nname = 'old ones go'\nfor = 'image'\nwhen = \"image.repository.contains('/old')\"\nthen = 'remove'\n\
                 [[rule]]\nname = 'crashes stay'\nfor = 'container'\nwhen = \"pod.name == 'crash' && container.attempt < 2\"\n\
                 then = 'keep'\n";
    let host = Host::new();
    let set: toml::Table = rules.parse().unwrap();
    let set = format!("rule={}", toml::Value::Array(set["rule"].as_array().unwrap().clone()));
    let with = |words: &[&str]| host.run(&[words, &["--set", &set, "--set", "images.min_age=0s"]].concat());
    let why = with(&["why", "r.example/old:1"]);
    assert!(
        why.contains("keep: the rule \"old stays\" keeps it (ask platform@)") && why.contains("setting: rule"),
        "{why}"
    );
    let before = host.rest();
    let plan: Plan = serde_json::from_str(&with(&["plan", "-o", "json"])).unwrap();
    let decided: Vec<_> = plan.rules.iter().map(|note| (note.rule.as_str(), note.objects, note.errors)).collect();
    assert_eq!(decided, [("old stays", 1, 0), ("old ones go", 1, 0), ("crashes stay", 2, 0)]);
    let table = with(&["config", "rules"]);
    let rows: Vec<Vec<_>> =
        table.lines().map(|line| line.split("  ").filter(|cell| !cell.is_empty()).map(str::trim).collect()).collect();
    assert_eq!(rows[0], ["RULE", "FOR", "THEN", "OBJECTS", "SIZE", "UNTIL"], "{table}");
    assert_eq!(rows[1][..4], ["old stays", "image", "keep", "1"], "{table}");
    assert_eq!(rows[3][..4], ["crashes stay", "container", "keep", "2"], "{table}");
    let json: serde_json::Value = serde_json::from_str(&with(&["config", "rules", "-o", "json"])).unwrap();
    assert_eq!(
        (&json["kind"], &json["rules"][0]["rule"], &json["rules"][0]["note"]),
        (&"Rules".into(), &"old stays".into(), &"ask platform@".into())
    );
    with(&["collect"]);
    let [containers, _, images] = host.rest();
    let gone = |before: &[String], after: &[String]| -> Vec<String> {
        before.iter().filter(|name| !after.contains(name)).cloned().collect()
    };
    assert_eq!(gone(&before[2], &images), ["r.example/older:1"]);
    assert_eq!(gone(&before[0], &containers).len(), 1, "of four, two stay by the rule and one by its limit");
}

/// A scanner names images; those go that nothing uses and no guard keeps, and each line of the list has an answer.
#[test]
fn a_list_of_images_is_removed_as_far_as_the_guards_allow() {
    let host = Host::new();
    let id = host.sim.state().image_id("r.example/older:1").unwrap();
    let list = format!("# from a scanner\nr.example/old:1\n\nr.example/web:2\nr.example/absent:9\n{id}\n");
    let shell = &host.shell;
    std::fs::write(shell.path("list.txt"), &list).unwrap();
    std::fs::write(shell.path("keep.txt"), "r.example/older:1\n").unwrap();
    let lines = |text: &str| -> Vec<serde_json::Value> {
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let outcomes = |text: &str| -> Vec<String> {
        lines(text).iter().map(|line| line["outcome"].as_str().unwrap().to_owned()).collect()
    };
    let before = host.rest();
    let now = ["--set", "images.min_age=0s"];
    let run = |words: &[&str]| host.run(&[words, &now].concat());
    let dry =
        run(&["collect", "images", "--remove-list", "list.txt", "--keep-list", "keep.txt", "--dry-run", "-o", "json"]);
    assert_eq!(outcomes(&dry), ["would_remove", "kept", "absent", "kept"], "{dry}");
    assert_eq!(host.rest(), before);
    let table = host.shell.run_on(&list, &["collect", "--remove-list", "-", "--keep-list", "keep.txt", now[0], now[1]]);
    let rows: Vec<_> = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(rows[0], "IMAGE RESULT FREED WHY", "{table}");
    assert!(rows[1].starts_with("r.example/old:1 removed"), "{table}");
    assert_eq!(rows[2..4], ["r.example/web:2 kept in use by a container", "r.example/absent:9 absent"], "{table}");
    assert_eq!(rows[4], format!("{id} kept matches images.keep (r.example/older:1)"), "{table}");
    let [containers, sandboxes, images] = host.rest();
    assert_eq!([&containers, &sandboxes], [&before[0], &before[1]], "images alone");
    assert_eq!(images, ["r.example/job:1", "r.example/older:1", "r.example/web:1", "r.example/web:2"]);
    let rest = run(&["collect", "--remove-list", "list.txt", "-o", "json"]);
    assert_eq!(outcomes(&rest), ["absent", "kept", "absent", "removed"], "{rest}");
    assert_eq!(lines(&rest)[1]["why"], "in use by a container");
}

/// The forms are those that kubegc prints, and a part of a name may mean an image that this node does not have.
#[test]
fn a_line_of_a_list_has_every_form_and_removes_no_other_image() {
    let host = Host::new();
    let [old, older] = ["old", "older"].map(|name| host.sim.state().image_id(&format!("r.example/{name}:1")).unwrap());
    let used = host.sim.state().image_id("r.example/web:2").unwrap();
    let list = format!("image/{used}\n{}\nimage/r.example/old:1\nolde\n", &used["sha256:".len()..][..13]);
    let shown = host.shell.run_on(&list, &["collect", "--remove-list", "-", "--set", "images.min_age=0s"]);
    let rows: Vec<_> = shown.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert!(shown.starts_with("exit Some(1)"), "{shown}");
    for wanted in [" kept in use by a container", "olde ambiguous only a part of the name of r.example/older:1"] {
        assert!(rows.iter().any(|row| row.ends_with(wanted)), "{wanted}: {shown}");
    }
    assert!(rows.iter().any(|row| row.starts_with("image/r.example/old:1 removed")), "{shown}");
    assert!(shown.contains("error: cannot remove images for 1 line of the list: ambiguous"), "{shown}");
    let images = host.rest()[2].join(" ");
    assert!(
        !images.contains("old:1") && images.contains("older:1") && images.contains("web:2"),
        "{images} {old} {older}"
    );
    let history = host.run(&["history"]);
    assert!(history.contains("removed by list (--remove-list)"), "{history}");
    assert!(host.run(&["history", "--sums"]).contains("removed by list (--remove-list)"));
}

#[test]
fn sums_separate_flags_from_settings() {
    let host = Host::new();
    host.run(&["collect", "image/r.example/older:1", "--set", "images.min_age=0s"]);
    host.run(&["collect", "--pressure", "--set", "images.min_age=0s"]);
    let sums = host.run(&["history", "--sums"]);
    assert!(sums.contains("named in the command\n") && sums.contains("unused (--pressure)\n"), "{sums}");
}

/// The example in the help. What is not removed has its reason.
#[test]
fn a_named_image_is_removed_or_its_reason_is_shown() {
    let host = Host::new();
    let before = host.rest();
    let young = host.run(&["collect", "image/r.example/old:1", "--set", "images.min_age=300h"]);
    assert!(young.contains("kept     younger than min_age") && young.contains("Nothing removed. 1 kept."), "{young}");
    assert!(young.starts_with("exit Some(1)") && young.contains("! error: 1 named object kept"), "{young}");
    let used = host.run(&["collect", "image/r.example/web:2", "--set", "images.min_age=0s"]);
    assert!(used.contains("kept     in use by a container"), "{used}");
    let json = host.shell.command(&["collect", "image/r.example/web:2", "-o", "json"]).output().unwrap().stdout;
    let document: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(document["named"][0]["reason"], "in_use", "{document}");
    assert_eq!(host.rest(), before);
    let plan = host.run(&["plan", "image/r.example/old:1", "--set", "images.min_age=0s"]);
    assert!(plan.contains("named in the command"), "{plan}");
    let removed = host.run(&["collect", "image/r.example/old:1", "--set", "images.min_age=0s"]);
    assert!(removed.contains("Removed: 1 image"), "{removed}");
    let images = before[2].iter().filter(|name| *name != "r.example/old:1").cloned().collect();
    assert_eq!(host.rest(), [before[0].clone(), before[1].clone(), images]);
    assert!(host.run(&["history"]).contains("named in the command"));
}

#[tokio::test]
async fn a_signal_during_the_wait_for_ages_ends_with_its_status() {
    use std::io::BufRead as _;
    for (signal, status) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
        let host = Host::new();
        let mut collection =
            host.spawn(&["collect", "--wait", "--set", "images.min_age=1h", "--set", "images.all_unused=true"]);
        let mut said = std::io::BufReader::new(collection.stderr.take().unwrap()).lines();
        let waits = |line: Result<String, _>| line.unwrap().contains("waiting ");
        assert!(said.by_ref().any(waits), "it does not wait");
        kill(Pid::from_raw(i32::try_from(collection.id()).unwrap()), signal).unwrap();
        let rest = said.map(Result::unwrap).collect::<Vec<_>>().join("\n");
        assert_eq!(collection.wait().unwrap().code(), Some(status), "{rest}");
        assert!(rest.contains("interrupted before the end of the wait; nothing was removed"), "{rest}");
    }
}

#[test]
fn in_a_pipe_each_removal_is_a_line_as_soon_as_it_ends() {
    use std::io::BufRead as _;
    let host = Host::new();
    host.sim.fault(Rpc::RemoveImage, Fault::Hang, Times::Forever);
    let flags = ["--set", "images.all_unused=true", "--set", "images.min_age=0s"];
    let mut collection = host.spawn(&[&["collect"], &flags[..]].concat());
    let mut lines = std::io::BufReader::new(collection.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line == "removed: container default/crash/app"), "it prints no line");
    assert_eq!(collection.try_wait().unwrap(), None, "the removal of an image hangs");
    collection.kill().unwrap();
    collection.wait().unwrap();
}

#[test]
fn a_list_with_a_bad_line_removes_nothing() {
    let host = Host::new();
    let before = host.rest();
    for (list, arguments, message) in [
        ("r.example/old:1\nr.example/*\n", &["--remove-list", "-"][..], "-:2: \"r.example/*\" names no image"),
        ("", &["--remove-list", "-", "--keep-list", "-"], "only one list can be standard input"),
        ("", &["r.example/old:1", "--remove-list", "-"], "--remove-list names the images; omit OBJECT"),
        ("", &["--remove-list", "/does/not/exist"], "cannot read /does/not/exist"),
        ("", &["--remove-list", "-", "--pressure"], "cannot be used with"),
    ] {
        let said = host.shell.run_on(list, &[&["collect"], arguments].concat());
        assert!(said.contains(message) && said.starts_with("exit Some(2)"), "{arguments:?}: {said}");
    }
    assert_eq!(host.rest(), before);
}
