//! Tests of whole snapshots of a simulated node: the order of the calls, and the result of each failure.

use std::time::Duration;

use async_trait::async_trait;
use tonic::Code;

use super::*;
use crate::cri::CriOptions;
use crate::model::{ContainerId, PartKind};
use crate::sim::{Fault, MIB, Node, Rpc, Sim, Streaming, Times};

const ENDS: [Part; 1] = [Part::Ends];
const VOLUMES: [Part; 1] = [Part::ImageVolumes];
const NOON: &str = "2026-11-21T12:00:00Z";

fn noon() -> Timestamp {
    NOON.parse().unwrap()
}

/// A disk that always returns the same numbers.
struct Disk(FileSystem);

#[async_trait]
impl Disks for Disk {
    async fn measure(&self, mountpoint: &Path) -> Result<FileSystem, ObserveError> {
        let measured = FileSystem { mountpoint: mountpoint.to_owned(), ..self.0.clone() };
        Ok(measured)
    }
}

fn node() -> Node {
    Node::new()
        .streaming(Streaming::Batches(1))
        .image("docker.io/library/web:1", &[("base", 50 * MIB)])
        .image("docker.io/library/data:1", &[("data", 5 * MIB)])
        .pod("default", "web-0", "u1")
        .exited("app", "docker.io/library/web:1")
        .finished("2026-11-21T11:30:00Z".parse().unwrap())
        .running("app", "docker.io/library/web:1")
        .mounting("docker.io/library/data:1")
        .pod("default", "job-0", "u2")
        .stopped()
}

fn observer(sim: &Sim) -> Observer {
    let options = CriOptions { read_timeout: Duration::from_secs(2), ..CriOptions::default() };
    let reader = RuntimeReader::new(&sim.endpoint(), &sim.endpoint(), options);
    let roots = sim.log_roots();
    let places = Places {
        kubelet_root: sim.dir().join("kubelet"),
        pod_logs: roots.pods.clone(),
        container_logs: roots.containers.clone(),
        ..Places::default()
    };
    let disk = Disk(FileSystem { capacity_bytes: 100, available_bytes: 9, ..FileSystem::default() });
    Observer::new(reader, places, "n1", Arc::new(RuntimePods), Arc::new(disk))
}

async fn observed(sim: &Sim) -> Snapshot {
    observer(sim).observe(noon(), Memory::default()).await
}

fn id(sim: &Sim, pod: &str, name: &str) -> ContainerId {
    sim.state().container_id(pod, name).unwrap().into()
}

fn volumes<'a>(snapshot: &'a Snapshot, id: &ContainerId) -> &'a [String] {
    &snapshot.containers.as_ref().unwrap().iter().find(|container| container.id == *id).unwrap().image_volumes
}

// --- one snapshot ----------------------------------------------------------------------------------------------------

#[tokio::test]
async fn a_snapshot_holds_what_every_source_told() {
    let sim = Sim::start(node()).unwrap();
    std::fs::create_dir_all(sim.dir().join("kubelet/pods/u1")).unwrap();
    let pulling = sim.dir().join("kubelet/image_manager/pulling");
    std::fs::create_dir_all(&pulling).unwrap();
    std::fs::write(pulling.join("sha256-01"), r#"{"image":"docker.io/library/new:1"}"#).unwrap();
    let memory = Memory { agent_started_at: Some(noon()), ..Memory::default() };
    let snapshot = observer(&sim).observe(noon(), memory.clone()).await;

    assert_eq!((snapshot.taken_at, snapshot.node.as_str(), &snapshot.memory), (noon(), "n1", &memory));
    assert_eq!(snapshot.containers.as_ref().unwrap().len(), 2);
    assert_eq!(snapshot.sandboxes.as_ref().unwrap().len(), 2);
    assert_eq!(snapshot.images.as_ref().unwrap().len(), 2);
    assert_eq!(snapshot.image_filesystem.as_ref().unwrap().available_bytes, 9);
    assert_eq!(snapshot.log_dirs.as_ref().unwrap().len(), 1);
    assert_eq!(snapshot.log_links.as_ref().unwrap().len(), 2);
    let pods: Vec<_> = snapshot.pods.as_ref().unwrap().pods.iter().map(|pod| pod.uid.as_str()).collect();
    assert_eq!(pods, ["u1"]);
    assert_eq!(snapshot.pod_dirs, Seen::Seen(vec!["u1".into()]));
    assert_eq!(snapshot.pulling, ["docker.io/library/new:1"]);
    assert_eq!(snapshot.image_uses, Seen::Seen(()));
    assert!(snapshot.listening_since.as_ref().unwrap().is_some());
}

/// The runtime walks through a writable layer for its size, so a pass that only estimates removals does not ask.
#[tokio::test]
async fn the_sizes_of_writable_layers_are_read_for_an_account_only() {
    let sim = Sim::start(node()).unwrap();
    for (needs, is_read) in [(&[Part::Store][..], false), (&Part::ACCOUNT, true)] {
        let snapshot = observer(&sim).snapshot(&needs.iter().copied().collect(), noon(), Memory::default()).await;
        let store = snapshot.store.as_ref().unwrap();
        let is_sized = |kind| {
            let of_kind: Vec<_> = store.parts.iter().filter(|part| part.kind == kind).collect();
            assert!(!of_kind.is_empty(), "{kind:?}");
            of_kind.iter().all(|part| part.bytes.is_some())
        };
        assert_eq!((is_sized(PartKind::Layer), is_sized(PartKind::Writable)), (true, is_read));
        assert_eq!((store.missing.as_slice(), store.missing_sizes.as_slice()), (&[][..], &[][..]));
    }
}

#[tokio::test]
async fn the_listening_time_is_known_without_a_version() {
    let sim = Sim::start(node().sandbox_image("registry.k8s.io/pause:3.9")).unwrap();
    sim.fault(Rpc::Version, Fault::Fail(Code::Internal), Times::Forever);
    let snapshot = observed(&sim).await;
    assert!(snapshot.listening_since.as_ref().unwrap().is_some());
    assert_eq!(snapshot.sandbox_image(), Seen::Seen(Some("registry.k8s.io/pause:3.9")));
}

#[tokio::test]
async fn reconnecting_to_the_runtimes_socket_is_no_restart() {
    let sim = Sim::start(node()).unwrap();
    filetime(sim.socket(), std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000));
    let observer = observer(&sim);
    for _ in 0..2 {
        let since = observer.observe(noon(), Memory::default()).await.listening_since;
        assert_eq!(since, Seen::Seen(Some(Timestamp::from_second(1_000_000).unwrap())), "the socket shows restarts");
        sim.cut_connections();
    }
}

/// Sets the modification time of a socket file.
fn filetime(path: &std::path::Path, at: std::time::SystemTime) {
    use nix::sys::stat::{UtimensatFlags, utimensat};
    let at = nix::sys::time::TimeSpec::from(at.duration_since(std::time::UNIX_EPOCH).unwrap());
    utimensat(nix::fcntl::AT_FDCWD, path, &at, &at, UtimensatFlags::FollowSymlink).unwrap();
}

#[tokio::test]
async fn images_and_sandboxes_are_listed_before_containers() {
    let sim = Sim::start(node()).unwrap();
    observed(&sim).await;
    let lists = [Rpc::StreamImages, Rpc::StreamPodSandboxes, Rpc::StreamContainers];
    let order: Vec<Rpc> = sim.calls().into_iter().map(|call| call.method).filter(|m| lists.contains(m)).collect();
    assert_eq!(order, lists);
}

/// A pod that is created during the pass is in the later lists, and its directory is not in the earlier one.
#[tokio::test]
async fn log_directories_are_listed_before_the_runtime() {
    let sim = Sim::start(node()).unwrap();
    let late = sim.log_roots().pods.join("default_late_u9");
    sim.on_call(Rpc::Version, 1, move |_| std::fs::create_dir(late).unwrap());
    let snapshot = observed(&sim).await;
    assert!(snapshot.log_dirs.as_ref().unwrap().iter().all(|dir| dir.name != "default_late_u9"));
}

#[tokio::test]
async fn a_host_without_a_kubelet_has_empty_log_roots() {
    let sim = Sim::start(node().without_logs()).unwrap();
    let mut observer = observer(&sim);
    observer.places.pod_logs = sim.dir().join("absent");
    observer.places.container_logs = sim.dir().join("absent");
    let snapshot = observer.observe(noon(), Memory::default()).await;
    assert_eq!(snapshot.log_dirs, Seen::Seen(Vec::new()));
    assert_eq!(snapshot.log_links, Seen::Seen(Vec::new()));
    assert_eq!(snapshot.pod_dirs, Seen::Seen(Vec::new()));
    assert_eq!(snapshot.pulling, [""; 0]);
}

/// A pod source with pods of a kubelet.
struct OfKubelet;

#[async_trait]
impl PodSource for OfKubelet {
    fn name(&self) -> &'static str {
        "of-kubelet"
    }

    async fn list(&self, _: &Seen<Vec<Container>>, _: &Seen<Vec<Sandbox>>) -> Seen<crate::model::PodList> {
        let details =
            Some(Box::new(crate::model::PodDetails { owner_kind: Some("Job".to_owned()), ..Default::default() }));
        let pods = vec![crate::model::Pod { uid: "u1".into(), details, ..Default::default() }];
        let node_labels = Some([("pool".to_owned(), "build".to_owned())].into());
        Seen::Seen(crate::model::PodList { pods, node_labels, ..Default::default() })
    }
}

/// A snapshot is shown to people, so what authors of pods wrote is in it only for a rule.
#[tokio::test]
async fn details_of_pods_are_left_out_unless_they_are_needed() {
    let sim = Sim::start(node()).unwrap();
    let observer = Observer { pods: Arc::new(OfKubelet), ..observer(&sim) };
    for (needs, is_there) in [(&ENDS[..], false), (&[Part::Ends, Part::PodDetails], true), (&Part::ALL, false)] {
        let snapshot = observer.snapshot(&needs.iter().copied().collect(), noon(), Memory::default()).await;
        let list = snapshot.pods.as_ref().unwrap();
        assert_eq!((list.pods[0].details.is_some(), list.node_labels.is_some()), (is_there, is_there), "{needs:?}");
    }
}

/// Returns the kubelet's directories of pods in a snapshot of this host, with `web-0` (u1) running or nothing.
async fn pod_dirs(runs: bool, dirs: &[&str], has_kubelet: bool) -> Seen<Vec<crate::model::PodUid>> {
    let sim = Sim::start(if runs { node() } else { Node::new() }).unwrap();
    for dir in dirs {
        std::fs::create_dir_all(sim.dir().join(dir)).unwrap();
    }
    let mut observer = observer(&sim);
    observer.places = Places { host: HostFs::new(sim.dir()), ..Places::default() };
    if has_kubelet {
        observer.pods = Arc::new(OfKubelet);
    }
    observer.observe(noon(), Memory::default()).await.pod_dirs
}

#[tokio::test]
async fn a_kubelet_root_without_running_pods_is_unavailable() {
    let none = "no running pod has a directory in /var/lib/kubelet/pods";
    let missing = "cannot list /var/lib/kubelet/pods: entity not found";
    let root = "; hint: set kubelet_root to the --root-dir of the kubelet";
    let k0s = "; hint: set kubelet_root = \"/var/lib/k0s/kubelet\"";
    let microk8s = "; hint: set kubelet_root = \"/var/snap/microk8s/common/var/lib/kubelet\"";
    let (default, of_k0s) = ("var/lib/kubelet/pods", "var/lib/k0s/kubelet/pods");
    for (row, runs, dirs, cause) in [
        ("the root is missing", true, &[][..], format!("{none}{root}")),
        ("the root is empty", true, &["var/lib/kubelet"][..], format!("{none}{root}")),
        ("a CSI driver made it", true, &[default, of_k0s][..], format!("{none}{k0s}")),
        ("an older kubelet left its own", true, &["var/lib/kubelet/pods/u9", of_k0s][..], format!("{none}{k0s}")),
        ("k0s", true, &[of_k0s][..], format!("{none}{k0s}")),
        ("MicroK8s", true, &["var/snap/microk8s/common/var/lib/kubelet/pods"][..], format!("{none}{microk8s}")),
        ("nothing runs, and there is another root", false, &[of_k0s][..], format!("{missing}{k0s}")),
    ] {
        assert_eq!(pod_dirs(runs, dirs, true).await.cause(), Some(&*cause), "{row}");
        assert!(pod_dirs(runs, dirs, false).await.cause().is_none(), "{row}, without a kubelet");
    }
    let right = &["var/lib/kubelet/pods/u1", "var/lib/kubelet/pods/u9", of_k0s][..];
    assert_eq!(pod_dirs(true, right, true).await, Seen::Seen(vec!["u1".into(), "u9".into()]));
    assert_eq!(pod_dirs(false, &[default], true).await, Seen::Seen(Vec::new()), "a node before its first pod");
}

#[tokio::test]
async fn a_kubelet_without_a_pods_directory_is_unavailable() {
    let cause = "cannot list /var/lib/kubelet/pods: entity not found; \
                 hint: set kubelet_root to the --root-dir of the kubelet";
    for dirs in [&[][..], &["var/lib/kubelet"]] {
        assert_eq!(pod_dirs(false, dirs, true).await.cause(), Some(cause));
        assert_eq!(pod_dirs(false, dirs, false).await, Seen::Seen(Vec::new()), "without a kubelet");
    }
    assert_eq!(pod_dirs(false, &["var/lib/kubelet/pods"], true).await, Seen::Seen(Vec::new()));
}

// --- sources that fail -----------------------------------------------------------------------------------------------

/// Returns the unavailable sources, by the snapshot's names for them.
fn not_seen(snapshot: &Snapshot) -> Vec<String> {
    let document = serde_json::to_value(snapshot).unwrap();
    let fields = document.as_object().unwrap().iter();
    fields.filter(|(_, value)| value.get("not_seen").is_some()).map(|(name, _)| name.clone()).collect()
}

#[tokio::test]
async fn a_failed_call_makes_only_its_data_unavailable() {
    use Rpc::{ImageFsInfo, Status, StreamContainers, StreamImages, StreamPodSandboxes, Version};
    let rows: [(Rpc, &[&str]); 6] = [
        (Version, &["runtime"]),
        (Status, &["sandbox_image"]),
        (StreamImages, &["images"]),
        (StreamPodSandboxes, &["pods", "sandboxes"]),
        (StreamContainers, &["containers", "pods"]),
        (ImageFsInfo, &["image_filesystem"]),
    ];
    for (method, sources) in rows {
        for fault in [Fault::Fail(Code::Internal), Fault::Fail(Code::Unavailable)] {
            let sim = Sim::start(node()).unwrap();
            sim.fault(method, fault, Times::Forever);
            assert_eq!(not_seen(&observed(&sim).await), sources, "{method:?} {fault:?}");
        }
    }
}

#[tokio::test]
async fn a_list_that_hangs_is_not_seen() {
    let sim = Sim::start(node()).unwrap();
    sim.fault(Rpc::StreamContainers, Fault::Hang, Times::Forever);
    let snapshot = observed(&sim).await;
    assert_eq!(snapshot.containers.cause(), Some("StreamContainers: no answer within 2 s"));
}

#[tokio::test]
async fn a_unary_list_that_fails_is_not_seen_either() {
    let sim = Sim::start(node().streaming(Streaming::Unimplemented)).unwrap();
    sim.fault(Rpc::ListContainers, Fault::Fail(Code::ResourceExhausted), Times::Forever);
    assert_eq!(not_seen(&observed(&sim).await), ["containers", "pods"]);
}

#[tokio::test]
async fn all_data_of_a_stopped_runtime_is_unavailable() {
    let mut sim = Sim::start(node()).unwrap();
    sim.stop_listening();
    let snapshot = observed(&sim).await;
    let sources = [
        "containers",
        "image_filesystem",
        "images",
        "listening_since",
        "pods",
        "runtime",
        "sandbox_image",
        "sandboxes",
    ];
    assert_eq!(not_seen(&snapshot), sources);
    assert!(snapshot.images.cause().unwrap().contains("no such socket"), "{:?}", snapshot.images);
    assert_eq!(snapshot.log_dirs.as_ref().unwrap().len(), 1, "the host is looked at all the same");
}

#[tokio::test]
async fn a_runtime_that_hangs_costs_one_deadline() {
    let sim = Sim::start(node()).unwrap();
    sim.fault(Rpc::Version, Fault::Hang, Times::Forever);
    let snapshot = observed(&sim).await;
    assert!(snapshot.containers.cause().unwrap().contains("did not answer Version"), "{:?}", snapshot.containers);
    let methods: Vec<Rpc> = sim.calls().into_iter().map(|call| call.method).collect();
    assert_eq!(methods, [Rpc::Version]);
}

#[tokio::test]
async fn a_runtime_hanging_mid_observation_costs_one_time_out() {
    let sim = Sim::start(node()).unwrap();
    sim.fault(Rpc::Version, Fault::Late(Duration::ZERO), Times::N(1));
    for method in Rpc::all() {
        sim.fault(method, Fault::Hang, Times::Forever);
    }
    let snapshot = observed(&sim).await;
    let calls: Vec<_> = sim.calls().into_iter().map(|call| call.method).collect();
    assert_eq!(calls, [Rpc::Version, Rpc::Status, Rpc::Version]);
    let expected = ["images", "sandboxes", "containers", "image_filesystem", "pods"];
    let mut not_seen = not_seen(&snapshot);
    not_seen.retain(|line| expected.iter().any(|source| line.starts_with(source)));
    assert_eq!(not_seen.len(), expected.len(), "{not_seen:?}");
}

#[tokio::test]
async fn a_runtime_lost_mid_observation_leaves_earlier_data() {
    let mut sim = Sim::start(node()).unwrap();
    sim.fault(Rpc::StreamContainers, Fault::Vanish, Times::N(1));
    let observer = observer(&sim);
    let snapshot = observer.observe(noon(), Memory::default()).await;
    assert_eq!(not_seen(&snapshot), ["containers", "image_filesystem", "listening_since", "pods"]);
    sim.listen_again().unwrap();
    assert_eq!(not_seen(&observer.observe(noon(), Memory::default()).await), [""; 0]);
}

#[tokio::test]
async fn a_restart_during_the_pass_changes_the_socket_age() {
    let sim = Sim::start(node()).unwrap();
    let socket = sim.socket().to_owned();
    let long_ago = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
    set_modified(&socket, long_ago);
    assert_eq!(since(&observed(&sim).await).as_second(), 1_000_000);
    let restarted = socket.clone();
    sim.on_call(Rpc::StreamPodSandboxes, 1, move |_| {
        set_modified(&restarted, long_ago + Duration::from_secs(1_000_000));
    });
    assert_eq!(since(&observed(&sim).await).as_second(), 2_000_000);
}

fn since(snapshot: &Snapshot) -> Timestamp {
    snapshot.listening_since.as_ref().unwrap().unwrap()
}

/// Sets the modification time by path, because a socket cannot be opened.
fn set_modified(path: &Path, to: std::time::SystemTime) {
    let seconds = to.duration_since(std::time::SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let time = nix::sys::time::TimeSpec::new(i64::try_from(seconds).unwrap(), 0);
    let flags = nix::sys::stat::UtimensatFlags::NoFollowSymlink;
    nix::sys::stat::utimensat(nix::fcntl::AT_FDCWD, path, &time, &time, flags).unwrap();
}

#[tokio::test]
async fn log_roots_that_cannot_be_listed_are_not_seen() {
    let sim = Sim::start(node()).unwrap();
    let file = sim.dir().join("file");
    std::fs::write(&file, "").unwrap();
    let mut observer = observer(&sim);
    observer.places.pod_logs = file.clone();
    observer.places.container_logs = file.join("x");
    observer.places.kubelet_root = file;
    let snapshot = observer.observe(noon(), Memory::default()).await;
    assert_eq!(not_seen(&snapshot), ["image_uses", "log_dirs", "log_links", "pod_dirs"]);
}

#[tokio::test]
async fn under_a_host_root_all_places_are_the_hosts() {
    let sim = Sim::start(node()).unwrap();
    std::fs::create_dir_all(sim.dir().join("var/lib/kubelet/pods/u7")).unwrap();
    let mut observer = observer(&sim);
    let of_host = |path: &Path| Path::new("/").join(path.strip_prefix(sim.dir()).unwrap());
    observer.places = Places {
        host: HostFs::new(sim.dir()),
        pod_logs: of_host(&sim.log_roots().pods),
        container_logs: of_host(&sim.log_roots().containers),
        ..Places::default()
    };
    let snapshot = observer.observe(noon(), Memory::default()).await;
    assert_eq!(snapshot.pod_dirs, Seen::Seen(vec!["u7".into()]));
    assert_eq!(snapshot.log_dirs.as_ref().unwrap().len(), 1);
    assert_eq!(snapshot.log_links.as_ref().unwrap().len(), 2);
}

// --- statuses --------------------------------------------------------------------------------------------------------

#[tokio::test]
async fn a_status_is_queried_once_for_its_volumes() {
    let sim = Sim::start(node()).unwrap();
    let mut memory = Memory::default();
    for _ in 0..2 {
        // Another process, with the memory of the one before.
        let observer = observer(&sim);
        let mut snapshot = observer.observe(noon(), memory).await;
        let running = id(&sim, "web-0", "app");
        assert_eq!(volumes(&snapshot, &running), [""; 0]);
        observer.fill(&mut snapshot, &VOLUMES.into()).await;
        assert_eq!(volumes(&snapshot, &running), [sim.state().image_id("docker.io/library/data:1").unwrap()]);
        assert_eq!(snapshot.image_uses, Seen::Seen(()));
        memory = Memory { image_volumes: snapshot.image_volumes.unwrap(), ..snapshot.memory };
    }
    assert_eq!(sim.calls_of(Rpc::ContainerStatus).len(), 1, "one, for the container that may have images mounted");
}

#[tokio::test]
async fn a_deleted_container_is_no_error() {
    let sim = Sim::start(node()).unwrap();
    let observer = observer(&sim);
    let mut snapshot = observer.observe(noon(), Memory::default()).await;
    sim.fault(Rpc::ContainerStatus, Fault::Fail(Code::NotFound), Times::N(1));
    observer.fill(&mut snapshot, &VOLUMES.into()).await;
    assert_eq!(snapshot.image_uses, Seen::Seen(()));
    assert_eq!(snapshot.containers.as_ref().unwrap().len(), 2);
}

/// Returns of how many containers the mounts are known.
fn known_volumes(snapshot: &Snapshot) -> usize {
    snapshot.image_volumes.as_ref().unwrap().len()
}

/// Returns why the image volumes of a container are unknown.
fn unknown_volumes<'a>(snapshot: &'a Snapshot, id: &ContainerId) -> Option<&'a str> {
    let mut containers = snapshot.listed_containers()?.iter();
    containers.find(|container| container.id == *id)?.image_volumes_unknown.as_deref()
}

#[tokio::test]
async fn a_failed_status_affects_only_its_container_volumes() {
    let node = node().pod("default", "web-1", "u3").running("app", "docker.io/library/web:1");
    let sim = Sim::start(node.mounting("docker.io/library/data:1")).unwrap();
    let (first, second) = (id(&sim, "web-0", "app"), id(&sim, "web-1", "app"));
    let observer = observer(&sim);
    for broken in [&first, &second] {
        sim.fault_of(Rpc::ContainerStatus, broken.as_str(), Fault::Fail(Code::Internal), Times::N(1));
        let observer = super::tests::observer(&sim);
        let mut snapshot = observer.observe(noon(), Memory::default()).await;
        observer.fill(&mut snapshot, &VOLUMES.into()).await;
        for id in [&first, &second] {
            assert_eq!(unknown_volumes(&snapshot, id).is_some(), id == broken);
            assert_eq!(volumes(&snapshot, id).len(), usize::from(id != broken));
        }
        assert!(unknown_volumes(&snapshot, broken).unwrap().starts_with("ContainerStatus: "));
        assert_eq!(snapshot.image_uses, Seen::Seen(()));
    }
    let mut snapshot = observer.observe(noon(), Memory::default()).await;
    observer.fill(&mut snapshot, &VOLUMES.into()).await;
    assert_eq!(unknown_volumes(&snapshot, &first), None, "known as soon as the status answers");
}

#[tokio::test]
async fn an_unavailable_finish_time_affects_only_its_container() {
    let node = node().pod("default", "web-1", "u3").exited("app", "docker.io/library/web:1");
    let sim = Sim::start(node.finished("2026-11-21T11:00:00Z".parse().unwrap())).unwrap();
    let healthy = sim.state().container_id("web-1", "app").unwrap();
    let is_exited = |state: &Node, id: &str| state.container_state(id) == Some(crate::model::ContainerState::Exited);
    let broken = {
        let state = sim.state();
        state.container_ids().into_iter().find(|id| *id != healthy && is_exited(&state, id)).unwrap()
    };
    sim.fault_of(Rpc::ContainerStatus, &broken, Fault::Fail(Code::Internal), Times::Forever);
    let observer = observer(&sim);
    let mut snapshot = observer.observe(noon(), Memory::default()).await;
    observer.fill(&mut snapshot, &ENDS.into()).await;
    let mut ends: Vec<_> = snapshot.containers.as_ref().unwrap().iter().filter_map(|c| c.finished_at).collect();
    ends.sort();
    assert_eq!(ends, ["2026-11-21T11:00:00Z".parse().unwrap(), noon()]);
}

/// 100 containers with 8 calls at once would take 13 deadlines. The first time-out ends the calls.
#[tokio::test]
async fn statuses_that_hang_cost_one_deadline() {
    let mut node = Node::new().without_logs().image("a:1", &[("a", MIB)]).pod("default", "web-0", "u1");
    for _ in 0..100 {
        node = node.running("app", "a:1");
    }
    let sim = Sim::start(node).unwrap();
    let observer = observer(&sim);
    let mut snapshot = observer.observe(noon(), Memory::default()).await;
    sim.fault(Rpc::ContainerStatus, Fault::Hang, Times::Forever);
    observer.fill(&mut snapshot, &VOLUMES.into()).await;
    let containers = snapshot.containers.as_ref().unwrap();
    assert!(containers.iter().all(|container| container.image_volumes_unknown.is_some()));
    assert_eq!(sim.calls_of(Rpc::ContainerStatus).len(), 8);
}

#[tokio::test]
async fn statuses_of_deleted_containers_are_dropped() {
    let sim = Sim::start(node().pod("default", "web-1", "u3").created("app", "docker.io/library/web:1")).unwrap();
    let observer = observer(&sim);
    let mut snapshot = observer.observe(noon(), Memory::default()).await;
    observer.fill(&mut snapshot, &VOLUMES.into()).await;
    observer.fill(&mut snapshot, &ENDS.into()).await;
    assert_eq!((known_volumes(&snapshot), observer.statuses.len()), (2, 1), "EXITED containers have nothing mounted");
    let Seen::Seen(containers) = &mut snapshot.containers else { unreachable!() };
    containers.retain(|container| container.name == "app" && container.state == crate::model::ContainerState::Running);
    observer.fill(&mut snapshot, &VOLUMES.into()).await;
    assert_eq!((known_volumes(&snapshot), observer.statuses.len()), (1, 0));
}

#[tokio::test]
async fn finish_times_are_queried_once_for_exited_containers() {
    let sim = Sim::start(node()).unwrap();
    let observer = observer(&sim);
    for _ in 0..2 {
        let mut snapshot = observer.observe(noon(), Memory::default()).await;
        observer.fill(&mut snapshot, &ENDS.into()).await;
        let ends: Vec<_> = snapshot.containers.as_ref().unwrap().iter().filter_map(|c| c.finished_at).collect();
        assert_eq!(ends, ["2026-11-21T11:30:00Z".parse().unwrap()]);
    }
    assert_eq!(sim.calls_of(Rpc::ContainerStatus).len(), 1);
}

#[tokio::test]
async fn a_container_exited_since_its_status_is_queried_again() {
    let sim = Sim::start(node()).unwrap();
    let observer = observer(&sim);
    let mut snapshot = observer.observe(noon(), Memory::default()).await;
    observer.fill(&mut snapshot, &VOLUMES.into()).await;
    let ended = id(&sim, "web-0", "app");
    sim.state().end_container(ended.as_str(), 0);
    let mut snapshot = observer.observe(noon(), Memory::default()).await;
    observer.fill(&mut snapshot, &ENDS.into()).await;
    assert!(snapshot.containers.as_ref().unwrap().iter().all(|container| container.finished_at.is_some()));
    assert_eq!(sim.calls_of(Rpc::ContainerStatus).len(), 3, "the running one twice, the exited one once");
}

#[tokio::test]
async fn an_unavailable_finish_time_defaults_to_now() {
    let sim = Sim::start(node()).unwrap();
    let observer = observer(&sim);
    let mut snapshot = observer.observe(noon(), Memory::default()).await;
    sim.fault(Rpc::ContainerStatus, Fault::Fail(Code::Internal), Times::Forever);
    observer.fill(&mut snapshot, &ENDS.into()).await;
    let ends: Vec<_> = snapshot.containers.as_ref().unwrap().iter().filter_map(|c| c.finished_at).collect();
    assert_eq!(ends, [noon()]);
    assert_eq!(snapshot.image_uses, Seen::Seen(()));
}

// --- lists that are too large to send --------------------------------------------------------------------------------

/// Returns a node with eight pods, each with an exited and a running container. A list of all containers is too large
/// to send.
fn crowded(limit: usize) -> Node {
    let mut node = Node::new().send_limit(limit).image("a:1", &[("a", MIB)]);
    for pod in 0..8 {
        node =
            node.pod("default", &format!("web-{pod}"), &format!("u{pod}")).exited("app", "a:1").running("app", "a:1");
    }
    node
}

#[tokio::test]
async fn a_list_in_parts_is_available_with_its_size() {
    let sim = Sim::start(crowded(4000)).unwrap();
    let snapshot = observed(&sim).await;
    assert_eq!(snapshot.containers.as_ref().map(Vec::len), Some(16));
    assert_eq!(snapshot.pods.as_ref().map(|list| list.pods.len()), Some(8));
    let receipt = snapshot.list_bytes.containers.as_ref().unwrap();
    assert!(receipt.bytes > 4000 && receipt.parts >= 4 && receipt.missing.is_empty(), "{receipt:?}");
    assert!(receipt.refused.as_ref().unwrap().contains("larger than max"), "{receipt:?}");
    let sandboxes = snapshot.list_bytes.sandboxes.as_ref().unwrap();
    assert_eq!((sandboxes.parts, sandboxes.refused.as_ref()), (1, None));
}

#[tokio::test]
async fn a_list_that_misses_a_part_is_unavailable() {
    let mut node = crowded(4000).pod("default", "crash", "u9");
    for _ in 0..20 {
        node = node.exited("app", "a:1");
    }
    let sim = Sim::start(node).unwrap();
    let snapshot = observed(&sim).await;
    let cause = snapshot.containers.cause().unwrap();
    assert!(cause.contains("exited containers of sandbox") && cause.contains("default/crash"), "{cause}");
    assert_eq!(snapshot.partial.containers.as_ref().map(Vec::len), Some(16));
    assert!(snapshot.pods.as_ref().is_some(), "the runtime as the source of pods needs what runs, and that is listed");
}

#[tokio::test]
async fn too_many_sandboxes_are_listed_by_pod_log_directory() {
    let mut node = Node::new().send_limit(2000).image("a:1", &[("a", MIB)]);
    for pod in 0..20 {
        node = node.pod("default", &format!("job-{pod}"), &format!("u{pod}")).exited("app", "a:1").logging(1).stopped();
    }
    let sim = Sim::start(node).unwrap();
    let snapshot = observed(&sim).await;
    let cause = snapshot.sandboxes.cause().unwrap();
    assert!(cause.contains("not_ready sandboxes of unknown pods"), "{cause}");
    assert_eq!(snapshot.partial.sandboxes.as_ref().map(Vec::len), Some(20));
    assert_eq!(snapshot.partial.containers.as_ref().map(Vec::len), Some(20));
}

#[tokio::test]
async fn an_image_list_that_is_too_large_is_unavailable() {
    let mut node = Node::new().send_limit(1000);
    for image in 0..20 {
        node = node.image(&format!("registry.example/app:{image}"), &[("a", MIB)]);
    }
    let snapshot = observed(&Sim::start(node).unwrap()).await;
    assert!(snapshot.images.cause().unwrap().contains("larger than max"), "{:?}", snapshot.images);
    assert!(snapshot.containers.as_ref().is_some());
}
