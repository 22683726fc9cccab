//! A node with garbage of each kind, and the agent that removes it, both in this process.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use kubegc::config::Settings;
use kubegc::cri::Endpoint;
use kubegc::daemon::node::LocalNode;
use kubegc::daemon::{Cycle, PassKind, now};
use kubegc::model::{Absence, ImageMemory, Memory, Phase, Pod, PodList};
use kubegc::observe::DiskFn;
use kubegc::plan::{Outcome, Pass, Scope};
use kubegc::record::{RunEntry, Store, StoreReader};
use kubegc::sim::{GIB, MIB, Node, Sim, Streaming};
use tokio_util::sync::CancellationToken;

use crate::listed::Listed;

pub const WEB: &str = "docker.io/library/web:2";
pub const OLD: [&str; 2] = ["docker.io/library/web:0", "docker.io/library/web:1"];
/// The number of running pods. They are more than the garbage, so that a pass does not make the lists much shorter.
const LIVE: usize = 8;
/// The deleted pods.
const GONE: [&str; 2] = ["gone-0", "gone-1"];
/// A deleted pod with only a sandbox left.
const BARE: &str = "bare-0";
/// A container that is not started for so long that a pass plans its removal.
pub const WAITING: &str = "waiting";
/// A pod whose container crashes, and one with a container of unknown state.
const CRASHING: &str = "crash-0";
const LOST: &str = "lost-0";
/// The longest time for a pass under any fault.
const BOUND: Duration = Duration::from_secs(30);

/// A node with an agent.
pub struct Bench {
    pub sim: Sim,
    cycle: Cycle,
}

// === impl Bench ===

impl Bench {
    /// Creates a node with an agent that has no limit for calls.
    pub fn new(streaming: Streaming) -> Self {
        Self::limited(streaming, BOUND)
    }

    /// Creates a node with an agent that has this limit for each call.
    pub fn limited(streaming: Streaming, limit: Duration) -> Self {
        let sim = Sim::start_here(node().streaming(streaming)).unwrap();
        let store = Store::open_blocking(&settings(&sim, limit).state.path).unwrap();
        store.change_blocking(|state| state.learn(|_| past(&sim)));
        drop(store);
        let cycle = cycle(&sim, limit);
        Self { sim, cycle }
    }

    /// Returns the same node with a restarted agent that has no limit for calls.
    pub fn unlimited(self) -> Self {
        let Self { sim, cycle: ended } = self;
        drop(ended);
        let cycle = cycle(&sim, BOUND);
        Self { sim, cycle }
    }

    /// Makes one pass, which must end in time.
    pub async fn pass(&mut self) -> Pass {
        self.pass_of(Scope::All).await
    }

    pub async fn pass_of(&mut self, scope: Scope) -> Pass {
        let stop = CancellationToken::new();
        let pass = self.cycle.pass(PassKind::Regular(scope), &stop, |_, _| {});
        tokio::time::timeout(BOUND, pass).await.expect("the pass ends in time")
    }

    /// Returns everything on the node: containers, sandboxes, images, log entries.
    pub fn remains(&self) -> BTreeSet<String> {
        let node = self.sim.state();
        let named = |kind: &str, names: Vec<String>| -> Vec<String> {
            names.into_iter().map(|name| format!("{kind} {name}")).collect()
        };
        let mut all = BTreeSet::new();
        all.extend(named("container", node.container_names()));
        all.extend(named("sandbox", node.sandbox_names()));
        all.extend(named("image", node.image_names()));
        drop(node);
        let roots = self.sim.log_roots();
        for root in [&roots.pods, &roots.containers] {
            entries(root, self.sim.dir(), &mut all);
        }
        all
    }

    /// Says whether the memory has a last use of an image.
    pub fn has_last_use(&self, image: &str) -> bool {
        let store = StoreReader::open(&self.sim.dir().join("state/kubegc.db")).unwrap().unwrap();
        let memory = store.memory().unwrap();
        memory.images.iter().any(|known| known.id.as_str() == image && known.last_used.is_some())
    }

    /// Returns the newest recorded run.
    pub fn last_run(&self) -> RunEntry {
        let store = StoreReader::open(&self.sim.dir().join("state/kubegc.db")).unwrap().unwrap();
        store.runs(1).unwrap().remove(0)
    }
}

/// Returns the results of the actions that were not simply removals, as `id outcome`.
pub fn not_removed(pass: &Pass) -> Vec<String> {
    let is_left = |outcome: &Outcome| !matches!(outcome, Outcome::Removed {});
    let left = pass.reports.iter().filter(|report| is_left(&report.outcome));
    left.map(|report| format!("{} {}", report.action.target.id(), report.outcome.kind())).collect()
}

fn hours(hours: u64) -> Duration {
    Duration::from_hours(hours)
}

fn node() -> Node {
    let mut node = Node::new().now(now()).disk(100 * GIB, 10 * GIB).ago(hours(50));
    for tag in OLD.into_iter().chain([WEB]) {
        node = node.image(tag, &[("base", 100 * MIB), (tag, 10 * MIB)]);
    }
    for number in 0..LIVE {
        node = node.ago(hours(40)).pod("default", &format!("live-{number}"), &format!("live-{number}"));
        node = node.ago(hours(1)).running("app", WEB).logging(500);
    }
    node = node.ago(hours(40)).pod("default", CRASHING, CRASHING);
    for age in [6, 5, 4] {
        node = node.ago(hours(age)).exited("app", WEB).logging(500).rotated();
    }
    node = node.ago(hours(30)).id(WAITING).created("late", WEB).ago(hours(1)).created("late", WEB);
    node = node.ago(hours(2)).running("app", WEB).unknown("lost", WEB).ago(hours(1)).exited("lost", WEB);
    // Its sandbox is not ready, so this one does not run.
    node = node.ago(hours(40)).pod("default", LOST, LOST).stopped().ago(hours(2)).unknown("lost", WEB);
    node = node.ago(hours(1)).exited("lost", WEB);
    for name in GONE {
        node = node.ago(hours(30)).pod("default", name, name).exited("app", WEB).logging(500).stopped();
    }
    node = node.ago(hours(30)).pod("default", BARE, BARE).stopped();
    node = node.orphan_logs("default", "forgotten-0", "forgotten-0");
    node = node.dangling_link("default", "forgotten-0", "app", &"d".repeat(64));
    node.ago(hours(9)).foreign("debug").exited("shell", WEB)
}

fn pods() -> PodList {
    let pod = |name: String| Pod {
        uid: name.as_str().into(),
        namespace: "default".to_owned(),
        name,
        phase: Phase::Running,
        ..Pod::default()
    };
    let names = (0..LIVE).map(|number| format!("live-{number}")).chain([CRASHING, LOST].map(str::to_owned));
    PodList { source: "test".to_owned(), complete: true, pods: names.map(pod).collect(), ..PodList::default() }
}

/// Returns a memory in which images are known for two days, and deleted pods are missing for an hour.
fn past(sim: &Sim) -> Memory {
    let ago = |hours| -> Timestamp { now() - SignedDuration::from_hours(hours) };
    let image = |id: String| ImageMemory {
        id: id.into(),
        first_seen: Some(ago(48)),
        last_used: Some(ago(30)),
        last_used_by: None,
    };
    let gone = GONE.into_iter().chain([BARE, "forgotten-0"]);
    Memory {
        images: sim.state().image_ids().into_iter().map(image).collect(),
        absent_since: gone.map(|uid| Absence { uid: uid.into(), since: ago(1) }).collect(),
        ..Memory::default()
    }
}

fn cycle(sim: &Sim, limit: Duration) -> Cycle {
    let settings = settings(sim, limit);
    let store = Store::open_blocking(&settings.state.path).unwrap();
    let endpoint = Endpoint::at(sim.endpoint());
    let disks = Arc::new(DiskFn(sim.disk_reader()));
    let node = LocalNode::new(endpoint, disks, Arc::new(Listed(pods())));
    Cycle::live(settings, &node, store, now())
}

fn settings(sim: &Sim, limit: Duration) -> Settings {
    let roots = sim.log_roots();
    let mut settings = Settings { kubelet_root: sim.dir().join("kubelet"), ..Settings::default() };
    settings.state.path = sim.dir().join("state/kubegc.db");
    settings.runtime.options.read_timeout = limit;
    settings.runtime.options.removal_timeout = limit;
    settings.runtime.options.answer_timeout = limit;
    settings.runtime.options.patience = Duration::ZERO;
    let policy = &mut settings.policy;
    (policy.logs.pods_root, policy.logs.containers_root) = (roots.pods, roots.containers);
    policy.images.all_unused = true;
    policy.guards.settle = Duration::ZERO;
    policy.guards.retry_after = Duration::ZERO;
    settings
}

/// Adds every entry beneath a directory, without the directory itself.
fn entries(dir: &Path, root: &Path, all: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        all.insert(path.strip_prefix(root).unwrap().display().to_string());
        if path.symlink_metadata().unwrap().is_dir() {
            entries(&path, root, all);
        }
    }
}
