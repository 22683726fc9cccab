//! Tests that carry out plans on a simulated node: the remaining objects, the order of calls, and the reports.

#![expect(clippy::disallowed_methods, reason = "a test may remove its own files")]

mod as_root;
mod confirm_deletion;
mod containers;
mod hang;
mod image_leases;
mod images;
mod kubelet_files;
mod log_limits;
mod logs;
mod run;
mod sandboxes;
mod side_by_side;
mod space;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::*;
use crate::cri::{CriOptions, InProgress, RuntimeWriter};
use crate::host_path::HostFs;
use crate::model::{ContainerState, PodRef, Seen};
use crate::observe::{DiskFn, NoPods};
use crate::plan::{
    Action, ImageSummary, LogPolicy, Measure, Outcome, Plan, Profile, Refusal, RemoveReason, Summary, Target,
};
use crate::sim::{Node, Rpc, Sim};

const WEB: &str = "docker.io/library/web:1";

/// A simulated node and the options of its executor.
struct Bench {
    sim: Sim,
    options: ExecuteOptions,
    cri: CriOptions,
    pods: Arc<dyn PodSource>,
    /// `None` = the disk of `sim`.
    disks: Option<Arc<dyn Disks>>,
    /// The host. If its root is `/`, the log roots are those beneath the directory of `sim`.
    host: HostFs,
    gate: Arc<dyn RemovalGate>,
}

impl Bench {
    fn new(node: Node) -> Self {
        let options = ExecuteOptions { space_settle: Duration::ZERO, ..ExecuteOptions::default() };
        Self {
            sim: Sim::start(node).unwrap(),
            options,
            cri: CriOptions::default(),
            pods: Arc::new(NoPods),
            disks: None,
            host: HostFs::default(),
            gate: Arc::new(AlwaysOpen),
        }
    }

    fn roots(&self) -> LogRoots {
        let roots = self.sim.log_roots();
        let on_host = |path: PathBuf| Path::new("/").join(path.strip_prefix(self.host.root()).unwrap());
        let (pods_root, containers_root) = (on_host(roots.pods), on_host(roots.containers));
        let policy = LogPolicy { pods_root, containers_root, ..LogPolicy::default() };
        LogRoots { host: self.host.clone(), policy }
    }

    fn reader(&self) -> RuntimeReader {
        RuntimeReader::new(&self.sim.endpoint(), &self.sim.endpoint(), self.cri.clone())
    }

    fn executor(&self, reader: RuntimeReader, remover: Remover) -> Executor {
        let disks = self.disks.clone().unwrap_or_else(|| Arc::new(DiskFn(self.sim.disk_reader())));
        let pods = Arc::clone(&self.pods);
        let (image_names, roots, gate) = (Arc::default(), self.roots(), Arc::clone(&self.gate));
        Executor { reader, remover, pods, disks, image_names, roots, options: self.options.clone(), gate }
    }

    fn live(&self) -> Executor {
        let reader = self.reader();
        let writer = RuntimeWriter::new(&reader, &InProgress::default());
        self.executor(reader, Remover::Live { writer, roots: self.roots() })
    }

    fn dry(&self) -> Executor {
        self.executor(self.reader(), Remover::Dry)
    }

    async fn carry_out(&self, actions: Vec<Action>) -> Vec<String> {
        self.carry_out_plan(&plan(actions)).await.0
    }

    async fn carry_out_plan(&self, plan: &Plan) -> (Vec<String>, Vec<Report>, Summary) {
        let mut reports = Vec::new();
        let summary =
            self.live().carry_out(plan, &CancellationToken::new(), &mut |report: Report| reports.push(report)).await;
        (reports.iter().map(lines).collect(), reports, summary)
    }

    /// Carries out the actions as a dry run.
    async fn rehearse(&self, actions: Vec<Action>) -> Vec<String> {
        let mut reports = Vec::new();
        self.dry()
            .carry_out(&plan(actions), &CancellationToken::new(), &mut |report: Report| reports.push(lines(&report)))
            .await;
        reports
    }

    /// Returns the calls that change the runtime, in order, as `Rpc(id)`.
    fn writes(&self) -> Vec<String> {
        self.sim.calls().iter().filter(|call| call.method.changes()).map(ToString::to_string).collect()
    }

    /// Returns a path beneath the pod log root.
    fn pods(&self, path: &str) -> PathBuf {
        self.sim.log_roots().pods.join(path)
    }

    /// Returns a path beneath the container log root.
    fn links(&self, path: &str) -> PathBuf {
        self.sim.log_roots().containers.join(path)
    }

    /// Returns every entry beneath the node's directory with its content.
    fn files(&self) -> BTreeMap<PathBuf, String> {
        let mut all = BTreeMap::new();
        let mut ahead = vec![self.sim.dir().to_owned()];
        while let Some(dir) = ahead.pop() {
            for entry in fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                let meta = fs::symlink_metadata(&path).unwrap();
                if meta.is_dir() {
                    ahead.push(path.clone());
                }
                let content = if meta.is_file() { fs::read_to_string(&path).unwrap() } else { String::new() };
                all.insert(path, format!("{:o} {content}", meta.mode()));
            }
        }
        all
    }
}

fn plan(actions: Vec<Action>) -> Plan {
    Plan {
        taken_at: Node::new().time(),
        node: String::new(),
        profile: Profile::Safe,
        pressure: None,
        endpoint: String::new(),
        pods: Seen::default(),
        disks: Vec::new(),
        lists: Vec::new(),
        workloads: Vec::new(),
        actions,
        kept: Vec::new(),
        images: ImageSummary::default(),
        rules: Vec::new(),
        log_limits: Vec::new(),
        errors: Vec::new(),
    }
}

fn web() -> PodRef {
    PodRef { uid: "u1".into(), namespace: "default".into(), name: "web".into() }
}

fn action(target: Target) -> Action {
    Action { pod: Some(web()), ..target.remove(RemoveReason::PodDeleted {}) }
}

fn container(id: &str, state: ContainerState) -> Action {
    action(Target::RemoveContainer { id: id.into(), name: "app".to_owned(), state, keeps_logs: false })
}

fn exited(id: &str) -> Action {
    container(id, ContainerState::Exited)
}

fn sandbox(id: &str) -> Action {
    action(Target::RemoveSandbox { id: id.into() })
}

/// Formats an action and its outcome as one line.
fn lines(report: &Report) -> String {
    let id = report.action.target.id();
    let id = Path::new(&id).file_name().unwrap_or_default().to_string_lossy();
    match &report.outcome {
        Outcome::Refused { refusal } => format!("{id} refused: {refusal}"),
        Outcome::Failed { error, .. } => format!("{id} failed: {error}"),
        other => format!("{id} {}", other.kind()),
    }
}

fn is_there(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}
