//! The node of one cell and its agent, in one runtime.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use kubegc::config::Settings;
use kubegc::cri::Endpoint;
use kubegc::daemon::node::LocalNode;
use kubegc::daemon::{Cycle, PassKind};
use kubegc::model::{ImageName, Memory, PodList};
use kubegc::observe::DiskFn;
use kubegc::plan::{Pass, Pressure, Scope};
use kubegc::record::Store;
use kubegc::sim::{Sim, Streaming};
use tokio_util::sync::CancellationToken;

use super::clock::TestClock;
use super::node::{self, KEEP_PATTERN, POD_WITH_DIRECTORY, PULLING, Size};
use crate::listed::Listed;

/// The limit for one call.
pub const LIMIT: Duration = Duration::from_secs(10);
/// Lists shorter than this percentage of the last ones are not trusted. A list that lacks half of its items is shorter.
const FALL_PERCENT: u64 = 90;

/// A node, its agent and their clock.
pub struct Stage {
    pub sim: Sim,
    pub clock: Arc<TestClock>,
    pub pods: PodList,
    cycle: Option<Cycle>,
}

/// A pass as the service makes it.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Kind {
    Containers,
    Images,
    ContainersUnderPressure,
    ImagesUnderPressure,
}

// === impl Stage ===

impl Stage {
    /// Creates a node that the agent has in its memory, with a store in memory.
    pub fn new(size: Size, streaming: Streaming) -> Self {
        Self::with_store(size, streaming, |_| Store::without_file(Memory::default()))
    }

    /// Creates the same with the store that `open` opens in the directory of the node.
    pub fn with_store(size: Size, streaming: Streaming, open: impl FnOnce(&Path) -> Store) -> Self {
        let sim = Sim::start_here(node::node(size, streaming)).unwrap();
        let clock = TestClock::at(sim.state().time());
        sim.set_listening_since(clock.now() - SignedDuration::from_hours(24)).unwrap();
        plant_files(&sim);
        let store = open(sim.dir());
        store.change_blocking(|state| state.learn(|_| node::past(&sim, clock.now())));
        let mut stage = Self { sim, clock, pods: node::pods(), cycle: None };
        stage.start_agent(store);
        stage
    }

    /// Stops the agent, if one runs, and starts one with this store.
    pub fn start_agent(&mut self, store: Store) {
        self.cycle = None;
        let endpoint = Endpoint::at(self.sim.endpoint());
        let disks = Arc::new(DiskFn(self.sim.disk_reader()));
        let pods = Arc::new(Listed(self.pods.clone()));
        let node = LocalNode::new(endpoint, disks, pods);
        let started = self.clock.now();
        let cycle = Cycle::live(settings(&self.sim), &node, store, started).with_clock(self.clock.as_clock());
        self.cycle = Some(cycle.with_monotonic(self.clock.as_monotonic()));
    }

    /// Makes one pass.
    pub async fn pass(&mut self, kind: Kind) -> Pass {
        let (stop, cycle) = (CancellationToken::new(), self.cycle.as_mut().unwrap());
        let pressure = Pressure::Requested {};
        let kind = match kind {
            Kind::Containers => PassKind::Regular(Scope::Containers),
            Kind::Images => PassKind::Regular(Scope::Images),
            Kind::ContainersUnderPressure => PassKind::Pressure(pressure, Scope::Containers),
            Kind::ImagesUnderPressure => PassKind::Pressure(pressure, Scope::Images),
        };
        cycle.pass(kind, &stop, |_, _| {}).await
    }
}

// === impl Kind ===

impl Kind {
    pub fn is_under_pressure(self) -> bool {
        matches!(self, Self::ContainersUnderPressure | Self::ImagesUnderPressure)
    }
}

/// Creates files of the kubelet and of others: a pod directory, a pull in progress, and log entries with unrecognized
/// names.
fn plant_files(sim: &Sim) {
    let (kubelet, roots) = (sim.dir().join("kubelet"), sim.log_roots());
    let pulling = kubelet.join("image_manager/pulling");
    for dir in [kubelet.join("pods").join(POD_WITH_DIRECTORY), pulling.clone(), roots.pods.join("lost+found")] {
        std::fs::create_dir_all(dir).unwrap();
    }
    let intent = serde_json::json!({ "kind": "ImagePullIntent", "image": PULLING }).to_string();
    std::fs::write(pulling.join(format!("sha256-{:064}", 1)), intent).unwrap();
    std::fs::write(roots.pods.join("README"), "ours").unwrap();
    std::os::unix::fs::symlink("nowhere", roots.containers.join("other.txt")).unwrap();
}

fn settings(sim: &Sim) -> Settings {
    let roots = sim.log_roots();
    let mut settings = Settings { kubelet_root: sim.dir().join("kubelet"), ..Settings::default() };
    let options = &mut settings.runtime.options;
    (options.read_timeout, options.removal_timeout) = (LIMIT, LIMIT);
    let policy = &mut settings.policy;
    (policy.logs.pods_root, policy.logs.containers_root) = (roots.pods, roots.containers);
    policy.images.keep = vec![ImageName::from(KEEP_PATTERN)];
    policy.guards.fall_percent = FALL_PERCENT;
    settings
}

/// Adds the names of all entries beneath a directory, relative to `root`.
pub fn entries(dir: &Path, root: &Path, all: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        all.insert(path.strip_prefix(root).unwrap().display().to_string());
        if path.symlink_metadata().unwrap().is_dir() {
            entries(&path, root, all);
        }
    }
}
