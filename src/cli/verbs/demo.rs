//! `kubegc demo`: a busy node in memory, its plan, a pass, and the node after it.
//!
//! The demo uses the same code as a real node, over a real socket. Only the runtime behind the socket is simulated.

pub(super) mod demo_node;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::cli::cli_error::{CliError, ErrorKind};
use crate::cli::input::session::block_on;
use crate::cli::render::output::Output;
use crate::cli::render::{self, Paint, format};
use crate::cli::verb::{READS_FILES, Start, Verb, VerbFacts};
use crate::config::Settings;
use crate::cri::Endpoint;
use crate::daemon::node::LocalNode;
use crate::daemon::{Cycle, PassKind, now};
use crate::model::{FileSystem, Memory, PodList, Seen};
use crate::observe::{DiskFn, Needs, PodSource};
use crate::plan::{Plan, Scope};
use crate::record::Store;
use crate::sim::Sim;

/// Collect a simulated node (no root or runtime needed)
#[derive(Debug, clap::Args)]
pub struct Args {}

/// The API server of the demo.
struct DemoPods(PodList);

/// The numbers of objects on a node, and its disk usage, for display.
struct Inventory {
    containers: usize,
    sandboxes: usize,
    images: usize,
    disk: FileSystem,
}

// === impl Args: the command ===

impl Verb for Args {
    fn facts() -> &'static VerbFacts {
        &VerbFacts { name: "demo", ..READS_FILES }
    }

    fn run(&self, _: &Start<'_>, output: &mut Output) -> Result<(), CliError> {
        run(self, output)
    }
}

fn run(Args {}: &Args, output: &mut Output) -> Result<(), CliError> {
    let busy = demo_node::busy(now());
    let sim = Sim::start(busy.node).map_err(|error| CliError::new(ErrorKind::Internal, error))?;
    block_on(show(&sim, busy.pods, &busy.memory, output))
}

async fn show(sim: &Sim, pods: PodList, memory: &Memory, output: &mut Output) -> Result<(), CliError> {
    let paint = output.paint;
    let settings = settings(sim);
    let endpoint = Endpoint::at(sim.endpoint());
    let disks = Arc::new(DiskFn(sim.disk_reader()));
    let node = LocalNode::new(endpoint, disks, Arc::new(DemoPods(pods)));

    title("A node in memory", &Inventory::of(sim), paint, output)?;
    let cycle = Cycle::live(settings, &node, Store::without_file(memory.clone()), now());
    let (_, plan) = cycle.plan_now(Scope::All, Needs::new()).await;
    // The socket of the simulated runtime says nothing.
    let plan = Plan { endpoint: String::new(), ..plan };
    output.page(&format!("\n{}\n{}\n", paint.bold("$ kubegc plan"), render::plan(&plan, paint)))?;

    let pass = cycle.pass(PassKind::Regular(Scope::All), &CancellationToken::new(), |_, _| {}).await;
    output.page(&format!("{}\n{}\n", paint.bold("$ kubegc collect"), render::collection(&pass, paint)))?;
    title("The node after", &Inventory::of(sim), paint, output)?;
    output.text("\nOn a real node, as root: kubegc plan   (changes nothing)\n")
}

/// Returns settings without the guard against a runtime that has just started: the simulated one always has.
fn settings(sim: &Sim) -> Settings {
    let roots = sim.log_roots();
    let (kubelet_root, networks_root) = (sim.dir().join("kubelet"), sim.dir().join("networks"));
    let mut settings = Settings { node: "demo".to_owned(), kubelet_root, networks_root, ..Settings::default() };
    settings.policy.logs.pods_root = roots.pods;
    settings.policy.logs.containers_root = roots.containers;
    settings.policy.guards.settle = Duration::ZERO;
    settings
}

fn title(what: &str, inventory: &Inventory, paint: Paint, output: &mut Output) -> Result<(), CliError> {
    output.page(&format!("{} {}\n", paint.bold(&format!("{what}:")), inventory.text()))
}

// === impl Inventory ===

impl Inventory {
    fn of(sim: &Sim) -> Self {
        let node = sim.state();
        let (containers, sandboxes, images) =
            (node.container_ids().len(), node.sandbox_ids().len(), node.image_ids().len());
        Self { containers, sandboxes, images, disk: node.file_system() }
    }

    fn text(&self) -> String {
        let used = self.disk.capacity_bytes.saturating_sub(self.disk.available_bytes);
        let percent = used.saturating_mul(100).div_ceil(self.disk.capacity_bytes.max(1));
        let things = [(self.containers, "container"), (self.sandboxes, "sandbox"), (self.images, "image")];
        let things = things.map(|(count, thing)| format::count(count, thing));
        let (used, all) = (format::size(used), format::size(self.disk.capacity_bytes));
        format!("{}; disk {percent} % full, {used} of {all}.", format::list(&things))
    }
}

// === impl DemoPods ===

#[async_trait]
impl PodSource for DemoPods {
    fn name(&self) -> &'static str {
        "demo"
    }

    fn has_kubelet(&self) -> bool {
        false
    }

    async fn list(
        &self,
        _: &Seen<Vec<crate::model::Container>>,
        _: &Seen<Vec<crate::model::Sandbox>>,
    ) -> Seen<PodList> {
        Seen::Seen(self.0.clone())
    }
}
