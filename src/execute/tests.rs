//! A plan carried out on a simulated node: what remains, what was called in which order, and what was told.

#![expect(clippy::disallowed_methods, reason = "a test may remove its own files")]

mod containers;
mod images;
mod logs;
mod proof;
mod run;
mod sandboxes;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::*;
use crate::cri::{CriOptions, RuntimeWriter};
use crate::model::{ContainerState, PodRef, Seen};
use crate::observe::{NoPods, ToldDisk};
use crate::plan::{ImageSummary, LogPolicy, PlanKind, Profile, RemoveReason};
use crate::sim::{Method, Node, Sim};

const WEB: &str = "docker.io/library/web:1";

/// A node with something to carry out on it.
struct Bench {
    sim: Sim,
    options: ExecuteOptions,
    pods: Arc<dyn PodSource>,
}

impl Bench {
    fn new(node: Node) -> Self {
        let options = ExecuteOptions { space_settle: Duration::ZERO, ..ExecuteOptions::default() };
        Self { sim: Sim::start(node).unwrap(), options, pods: Arc::new(NoPods) }
    }

    fn roots(&self) -> LogRoots {
        let roots = self.sim.log_roots();
        let policy = LogPolicy { pods_root: roots.pods, containers_root: roots.containers };
        LogRoots { host_root: "/".into(), policy }
    }

    fn executor<H>(&self, hands: H) -> Executor<H> {
        let reader = RuntimeReader::new(&self.sim.endpoint(), &self.sim.endpoint(), CriOptions::default());
        let disks = Arc::new(ToldDisk(self.sim.disk_reader()));
        let pods = Arc::clone(&self.pods);
        Executor { reader, hands, pods, disks, roots: self.roots(), options: self.options.clone() }
    }

    fn live(&self) -> Executor<LiveHands> {
        let writer = RuntimeWriter::new(&self.sim.endpoint(), &self.sim.endpoint(), CriOptions::default());
        self.executor(LiveHands { writer, roots: self.roots() })
    }

    async fn carry_out(&self, actions: Vec<Action>) -> Vec<String> {
        self.carry_out_plan(&plan(actions)).await.0
    }

    async fn carry_out_plan(&self, plan: &Plan) -> (Vec<String>, Vec<Report>, Summary) {
        let mut reports = Vec::new();
        let summary = self.live().carry_out(plan, &Stop::never(), &mut |report| reports.push(report)).await;
        (reports.iter().map(told).collect(), reports, summary)
    }

    /// The same with hands that only take notes.
    async fn rehearse(&self, actions: Vec<Action>) -> Vec<String> {
        let mut reports = Vec::new();
        let dry = self.executor(NoteTaker::default());
        dry.carry_out(&plan(actions), &Stop::never(), &mut |report| reports.push(told(&report))).await;
        reports
    }

    /// What changed anything, in order, as `Method(id)`.
    fn writes(&self) -> Vec<String> {
        self.sim.calls().iter().filter(|call| call.method.changes()).map(ToString::to_string).collect()
    }

    /// A path beneath the pod log root.
    fn pods(&self, path: &str) -> PathBuf {
        self.sim.log_roots().pods.join(path)
    }

    /// A path beneath the container log root.
    fn links(&self, path: &str) -> PathBuf {
        self.sim.log_roots().containers.join(path)
    }

    /// Every entry beneath the node's directory with its content.
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
        kind: PlanKind::Plan,
        version: 1,
        taken_at: Node::new().time(),
        node: String::new(),
        profile: Profile::Safe,
        pressure: None,
        pods: Seen::default(),
        lists: Vec::new(),
        actions,
        kept: Vec::new(),
        images: ImageSummary::default(),
        errors: Vec::new(),
    }
}

fn web() -> PodRef {
    PodRef { uid: "u1".into(), namespace: "default".into(), name: "web".into() }
}

fn action(target: Target) -> Action {
    Action { target, pod: Some(web()), age_seconds: None, reason: RemoveReason::PodGone {} }
}

fn container(id: &str, state: ContainerState) -> Action {
    action(Target::RemoveContainer { id: id.into(), name: "app".to_owned(), state })
}

fn exited(id: &str) -> Action {
    container(id, ContainerState::Exited)
}

fn sandbox(id: &str) -> Action {
    action(Target::RemoveSandbox { id: id.into() })
}

/// An action and its outcome in a line.
fn told(report: &Report) -> String {
    let id = report.action.target.id();
    let id = Path::new(&id).file_name().unwrap_or_default().to_string_lossy();
    match &report.outcome {
        Outcome::Refused { refusal } => format!("{id} refused: {refusal}"),
        Outcome::Failed { error } => format!("{id} failed: {error}"),
        other => format!("{id} {}", other.kind()),
    }
}

fn is_there(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}
