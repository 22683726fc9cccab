//! The rechecks on random nodes: on a node that has not changed no planned removal is refused, in a dry run and in a
//! real pass.
//!
//! The node is simulated, with its sockets and its files. Plan and rechecks read the same objects with different calls.

#[allow(dead_code, reason = "the properties of the core use all of it")]
#[path = "../../src/core/tests/it/properties/nodes.rs"]
mod nodes;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use kubegc::cri::{CriOptions, InProgress, RuntimeReader, RuntimeWriter};
use kubegc::execute::{AlwaysOpen, ExecuteOptions, Executor, LogRoots, Remover};
use kubegc::model::{
    Confirms, Container, ContainerState, EntryKind, LinkTarget, Pod, PodList, PodRef, Sandbox, SandboxState, Seen,
    Snapshot,
};
use kubegc::observe::{DiskFn, Observer, Part, Places, PodSource};
use kubegc::plan::{Guards, Outcome, Plan, Policy, Report, Scope, decide};
use kubegc::sim::{GIB, MIB, Node, Sim};
use nodes::{a_node, a_policy, now};
use proptest::prelude::*;
use tokio_util::sync::CancellationToken;

/// The name of a log directory in the old format.
const UID_ALONE: &str = "c7a0b3f2d9e84a6fb1c5d0e7f6a98b12";

/// A pod source whose live lookup agrees with its list.
struct Listed(Seen<PodList>);

/// A simulated node and everything that a pass needs.
struct Bench {
    sim: Sim,
    pods: Arc<Listed>,
    policy: Policy,
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn on_an_unchanged_node_no_planned_removal_is_refused(node in a_node(), policy in a_policy(), guards in some_guards(), by_name: bool) {
        let bench = Bench::new(&node, Policy { guards, ..policy }, by_name);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (plan, dry, live) = runtime.block_on(bench.pass(&node));
        prop_assert_eq!(bad(&dry), Vec::<String>::new(), "dry run of {:#?}", plan.actions);
        prop_assert_eq!(bad(&live), Vec::<String>::new(), "{:#?}", plan.actions);
        prop_assert!(dry.len() >= plan.actions.len() && live.len() >= plan.actions.len());
    }
}

/// Returns the number of cases. A node with sockets and files takes longer than one in memory.
fn cases() -> u32 {
    ProptestConfig::default().cases.div_ceil(8)
}

/// Generates guards that are on and off, except `match_image_names`: without it the plan ignores some uses, as the
/// kubelet does.
fn some_guards() -> impl Strategy<Value = Guards> {
    let durations = || prop_oneof![Just(Duration::ZERO), Just(Duration::from_mins(1))];
    let switches = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    (durations(), durations(), durations(), switches).prop_map(
        |(gone_after, sandbox_grace, created_grace, (newest, foreign, unrecognized, pod_images, pause))| Guards {
            gone_after,
            sandbox_grace,
            created_grace,
            keep_newest_instance: newest,
            keep_foreign: foreign,
            keep_unrecognized_logs: unrecognized,
            keep_pod_images: pod_images,
            keep_sandbox_image: pause,
            // The socket of the simulated runtime is new.
            settle: Duration::ZERO,
            ..Guards::default()
        },
    )
}

fn bad(reports: &[Report]) -> Vec<String> {
    let is_bad = |outcome: &Outcome| matches!(outcome, Outcome::Refused { .. } | Outcome::Failed { .. });
    let bad = reports.iter().filter(|report| is_bad(&report.outcome));
    bad.map(|report| format!("{} {:?} {:?}", report.action.target.id(), report.outcome, report.note)).collect()
}

// === impl Bench ===

impl Bench {
    fn new(node: &Snapshot, policy: Policy, by_name: bool) -> Self {
        let sim = Sim::start(built(node)).unwrap();
        let roots = sim.log_roots();
        add_log_entries(node, &roots.pods, &roots.containers);
        for uid in node.pod_dirs.as_ref().into_iter().flatten() {
            fs::create_dir_all(sim.dir().join("kubelet/pods").join(uid.as_str())).unwrap();
        }
        let confirms = if by_name { Confirms::ByName } else { Confirms::ByUid };
        let pods = Arc::new(Listed(node.pods.clone().map(|list| PodList { confirms, ..list })));
        let mut policy = policy;
        (policy.logs.pods_root, policy.logs.containers_root) = (roots.pods, roots.containers);
        Self { sim, pods, policy }
    }

    /// Makes a plan and carries it out twice: first in a dry run.
    async fn pass(&self, node: &Snapshot) -> (Plan, Vec<Report>, Vec<Report>) {
        let observer = self.observer();
        let mut memory = node.memory.clone();
        memory.last_counts = None;
        let snapshot = observer.snapshot(&[Part::ImageVolumes, Part::LeftoverLogs].into(), now(), memory).await;
        let plan = decide(&snapshot, &self.policy, Scope::All);
        let dry = carried_out(&self.executor(Remover::Dry), &plan).await;
        let writer = RuntimeWriter::new(&self.reader(), &InProgress::default());
        let live = carried_out(&self.executor(Remover::Live { writer, roots: self.roots() }), &plan).await;
        (plan, dry, live)
    }

    fn observer(&self) -> Observer {
        let roots = self.sim.log_roots();
        let places = Places {
            kubelet_root: self.kubelet_root(),
            pod_logs: roots.pods,
            container_logs: roots.containers,
            ..Places::default()
        };
        let disks = Arc::new(DiskFn(self.sim.disk_reader()));
        Observer::new(self.reader(), places, "n1", Arc::clone(&self.pods) as Arc<dyn PodSource>, disks)
    }

    /// Creates the executor as the daemon does for these guards.
    fn executor(&self, remover: Remover) -> Executor {
        let asks = !self.policy.guards.gone_after.is_zero();
        let options = ExecuteOptions {
            kubelet_pods: asks.then(|| self.kubelet_root().join("pods")),
            confirms_deletions: asks,
            keeps_pod_images: self.policy.guards.keep_pod_images,
            space_settle: Duration::ZERO,
            ..ExecuteOptions::default()
        };
        let disks = Arc::new(DiskFn(self.sim.disk_reader()));
        let pods = Arc::clone(&self.pods) as Arc<dyn PodSource>;
        let (reader, image_names, roots) = (self.reader(), Arc::default(), self.roots());
        Executor { reader, remover, pods, disks, image_names, roots, options, gate: Arc::new(AlwaysOpen) }
    }

    fn reader(&self) -> RuntimeReader {
        RuntimeReader::new(&self.sim.endpoint(), &self.sim.endpoint(), CriOptions::default())
    }

    fn roots(&self) -> LogRoots {
        LogRoots::new("/", self.policy.logs.clone())
    }

    fn kubelet_root(&self) -> PathBuf {
        self.sim.dir().join("kubelet")
    }
}

async fn carried_out(executor: &Executor, plan: &Plan) -> Vec<Report> {
    let mut reports = Vec::new();
    executor.carry_out(plan, &CancellationToken::new(), &mut |report: Report| reports.push(report)).await;
    reports
}

/// Returns the runtime's part of a snapshot. Containers of a sandbox that is not listed are left out. The others belong
/// to the pod of their sandbox.
fn built(node: &Snapshot) -> Node {
    let mut built = Node::new().now(now()).disk(10 * GIB, 9 * GIB);
    for image in node.images.as_ref().into_iter().flatten() {
        let tag = &image.tags[0];
        built = built.id(image.id.as_str()).image(tag, &[(tag, image.size_bytes * 10 * MIB)]);
        built = if image.pinned { built.pinned() } else { built };
    }
    if let Some(image) = node.sandbox_image.as_ref().and_then(Option::as_deref) {
        built = built.sandbox_image(image);
    }
    let sandboxes = node.sandboxes.as_ref().map_or(&[][..], Vec::as_slice);
    built = sandboxes.iter().fold(built, with_sandbox);
    let is_placed = |container: &&Container| sandboxes.iter().any(|sandbox| sandbox.id == container.sandbox_id);
    node.containers.as_ref().into_iter().flatten().filter(is_placed).fold(built, with_container)
}

fn with_sandbox(node: Node, sandbox: &Sandbox) -> Node {
    let node = node.at(sandbox.created_at).id(sandbox.id.as_str());
    let node = match &sandbox.pod {
        Some(PodRef { uid, namespace, name }) => node.pod(namespace, name, uid.as_str()),
        None => node.foreign("debug"),
    };
    if sandbox.state == SandboxState::Ready { node } else { node.stopped() }
}

fn with_container(node: Node, container: &Container) -> Node {
    let node = node.at(container.created_at).in_sandbox(container.sandbox_id.as_str()).id(container.id.as_str());
    // The instance before it is lost.
    let node = if container.attempt > 0 { node.lost(&container.name, 10) } else { node };
    let image = container.image.as_deref().or(container.image_id.as_deref()).unwrap_or("docker.io/library/i0:1");
    let node = match container.state {
        ContainerState::Created => node.created(&container.name, image),
        ContainerState::Running => node.running(&container.name, image),
        ContainerState::Exited => node.exited(&container.name, image),
        ContainerState::Unknown => node.unknown(&container.name, image),
    };
    container.image_volumes.iter().fold(node, |node, volume| node.mounting(volume))
}

/// Adds the log entries of a snapshot to those of the simulated runtime, and one directory in the old format.
fn add_log_entries(node: &Snapshot, pods: &Path, links: &Path) {
    fs::create_dir(pods.join(UID_ALONE)).unwrap();
    for dir in node.log_dirs.as_ref().into_iter().flatten().filter(|dir| dir.name != "..") {
        let path = pods.join(&dir.name);
        match dir.entry {
            _ if path.symlink_metadata().is_ok() => {}
            EntryKind::Directory => fs::create_dir_all(path.join("app")).unwrap(),
            _ => symlink("/nowhere", path).unwrap(),
        }
    }
    for log in node.leftover_logs.as_ref().into_iter().flatten() {
        let path = log.path(pods);
        // The directory of the pod may be a symlink.
        if path.symlink_metadata().is_err() && fs::create_dir_all(path.parent().unwrap()).is_ok() {
            fs::write(path, "text").unwrap();
        }
    }
    for link in node.log_links.as_ref().into_iter().flatten() {
        let path = links.join(&link.name);
        match link.target {
            _ if path.symlink_metadata().is_ok() => {}
            LinkTarget::Exists => symlink(pods, path).unwrap(),
            LinkTarget::Missing => symlink("/nowhere/0.log", path).unwrap(),
            LinkTarget::Unknown => symlink(&path, &path).unwrap(),
        }
    }
}

// === impl Listed ===

#[async_trait]
impl PodSource for Listed {
    fn name(&self) -> &'static str {
        "test"
    }

    fn has_kubelet(&self) -> bool {
        false
    }

    async fn list(&self, _: &Seen<Vec<Container>>, _: &Seen<Vec<Sandbox>>) -> Seen<PodList> {
        self.0.clone()
    }

    async fn cached_pods(&self) -> Vec<Pod> {
        self.0.as_ref().map(|list| list.pods.clone()).unwrap_or_default()
    }

    async fn still_exists(&self, pod: &PodRef) -> Seen<bool> {
        match self.0.as_ref().filter(|list| list.complete && list.confirms.can_look_up(pod)) {
            Some(list) => Seen::Seen(list.pods.iter().any(|listed| listed.uid == pod.uid)),
            None => Seen::NotSeen("no lookup is possible".to_owned()),
        }
    }
}
