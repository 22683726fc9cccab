//! `kubegc controller run`.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::object_args::SelectArgs;
use super::source;
use crate::cli::cli_error::{CliError, ErrorKind};
use crate::cli::input::cluster::Source;
use crate::cli::input::session::block_on;
use crate::cli::render::output::Output;
use crate::cli::verb::{LOOKS, Start, Verb, VerbFacts};
use crate::cli::verbs::collect::is_dry;
use crate::config::{Loaded, Settings};
use crate::controller::{Attention, Candidate, ObjectFilter, OwnersService, PodCollector, PodNotice, PodsService};
use crate::daemon::now;
pub(super) use crate::daemon::process::file_watch::FileWatch;
pub(super) use crate::daemon::process::signals::{self, Reload};
use crate::daemon::reload::{CONFIGURATION, load_again, needing_restart};
use crate::kubernetes::Connection;
use crate::metrics::ControllerMetrics;
use crate::serve::{Health, Pages, Server};

/// The fact about the Lease that readiness shows.
const LEASE: &str = "lease";
/// One thread does all the work. How long something may block it until the process counts as hanging.
const THREAD: &str = "the thread";
const LONGEST_BLOCK: Duration = Duration::from_mins(1);

/// What loads the settings again. The level of the log changes at once. Other settings need a restart, with which the
/// brake forgets its pauses: that is for a person to decide.
struct Reloads<'a, F> {
    load: F,
    started_with: &'a Settings,
    metrics: &'a ControllerMetrics,
    health: &'a Health,
}

/// Collect garbage until a signal stops it
///
/// It watches the metadata of all objects and deletes those whose owners are all deleted. It completes deletions with the
/// policies foreground and orphan. Every 20 s it deletes orphaned, unscheduled and surplus terminated pods: those of deleted nodes, and
/// terminated ones over a limit. kube-controller-manager does the same.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    select: SelectArgs,
    /// Log changes without making them, as with mode = "observe"
    #[arg(long)]
    dry_run: bool,
    /// Collect only while this process holds the Lease, and exit when it is lost
    #[arg(long)]
    leader_elect: bool,
    /// Only delete orphaned, unscheduled and surplus terminated pods
    #[arg(long, conflicts_with_all = ["owners_only", "only", "ignore"])]
    pods_only: bool,
    /// Only collect by owner references
    #[arg(long)]
    owners_only: bool,
    /// Also delete the content of namespaces in deletion, then end the deletion
    ///
    /// Only for an API server without kube-controller-manager, which does this itself.
    #[arg(long, conflicts_with = "pods_only")]
    namespaces: bool,
}

// === impl Args: the command ===

impl Verb for Args {
    fn facts() -> &'static VerbFacts {
        &VerbFacts {
            name: "controller run",
            examples: &[("Run the controller", "kubegc controller run --kubeconfig admin.conf")],
            is_service: true,
            ..LOOKS
        }
    }

    fn run(&self, start: &Start<'_>, _: &mut Output) -> Result<(), CliError> {
        run(self, Source::new(&start.load()?, start), start)
    }
}

fn run(args: &Args, source: Source<'_>, start: &Start<'_>) -> Result<(), CliError> {
    let files = FileWatch::new(start.files());
    let load = || {
        files.before_load();
        start.load()
    };
    block_on(async {
        let (signals, stop, reload) = signals::listen()?;
        let connection = Arc::new(source.connection());
        let filter = args.select.filter();
        let dry_run = is_dry(args.dry_run, source.loaded);
        if dry_run {
            tracing::warn!("nothing is changed: --dry-run or mode = \"observe\"");
        }
        let settings = source::with_namespaces(source, args.namespaces, !filter.is_empty())?;
        let keep = source::history(source, "controller run", connection.cluster().await, dry_run)?;
        let owners = OwnersService::new(&connection, settings, filter.clone(), dry_run, now).with_history(keep);
        let (metrics, pages, attention) = (owners.metrics().clone(), owners.pages(), owners.attention());
        let health = pages.health.clone();
        let _server = serve_pages(source, pages);
        let reloads = Reloads { load, started_with: source.settings(), metrics: &metrics, health: &health };
        let pods = pods(source, (filter, dry_run), &connection, (&metrics, &health));
        let service = collect(args, owners, pods, stop.clone());
        tokio::select! {
            ended = serve(args, source, &connection, (&metrics, &health, attention), service, &stop) => ended,
            () = reloads.run(&reload) => Ok(()),
            () = health.progress().beat(THREAD, LONGEST_BLOCK) => Ok(()),
            () = files.run(&reload) => Ok(()),
            signal = signals.aborted() => Err(CliError::aborted(signal)),
        }
    })
}

/// Runs the service, with leader election only while this process has the Lease.
async fn serve(
    args: &Args,
    source: Source<'_>,
    connection: &Arc<Connection>,
    (metrics, health, attention): (&ControllerMetrics, &Health, Attention),
    service: impl Future<Output = ()>,
    stop: &CancellationToken,
) -> Result<(), CliError> {
    if !args.leader_elect {
        metrics.leads(true);
        service.await;
        return Ok(());
    }
    health.note(LEASE, "standby, another process may collect");
    let show = |fault: Option<String>| match fault {
        Some(cause) => health.lacks(LEASE, cause),
        None => health.has(LEASE),
    };
    let (lease, identity) = (source.settings().controller.lease.clone(), identity(&source.settings().node));
    let mut candidate = Candidate::new(Arc::clone(connection), lease, identity, now, attention);
    tokio::select! {
        () = candidate.lead(show) => {}
        () = stop.cancelled() => return Ok(()),
    }
    metrics.leads(true);
    health.has(LEASE);
    health.note(LEASE, "leading");
    let lost = tokio::select! {
        () = service => false,
        () = candidate.stay() => true,
    };
    if lost {
        return Err(CliError::message(ErrorKind::Internal, "the lease is lost; another replica may lead now"));
    }
    candidate.release().await;
    Ok(())
}

/// Serves metrics and health, if an address is set. A controller without them collects all the same.
fn serve_pages(source: Source<'_>, pages: Pages) -> Option<Server> {
    let address = source.settings().controller_address?;
    let server = Server::start().inspect_err(|error| tracing::warn!(%error, "cannot serve metrics and health")).ok()?;
    server.serve_pages(address, pages);
    Some(server)
}

fn pods(
    source: Source<'_>,
    (filter, dry_run): (ObjectFilter, bool),
    connection: &Arc<Connection>,
    (metrics, health): (&ControllerMetrics, &Health),
) -> PodsService {
    let counted = metrics.clone();
    let report = move |notice: PodNotice<'_>| notice.count_and_log(&counted);
    let collector = PodCollector::new(connection, source.settings().pods_of_cluster(), dry_run, now, report);
    PodsService::new(collector.of(filter)).with_monitoring(metrics, health)
}

async fn collect(args: &Args, owners: OwnersService, pods: PodsService, stop: CancellationToken) {
    match (args.owners_only, args.pods_only) {
        (true, _) => owners.run(stop).await,
        (_, true) => pods.run(stop).await,
        (false, false) => drop(tokio::join!(Box::pin(owners.run(stop.clone())), Box::pin(pods.run(stop)))),
    }
}

// === impl Reloads ===

impl<F: Fn() -> Result<Loaded, CliError>> Reloads<'_, F> {
    /// Loads the settings at each request. Never returns.
    async fn run(&self, reload: &Reload) {
        self.metrics.reloaded(Some(now()));
        loop {
            reload.requested().await;
            self.load();
        }
    }

    /// Shows the result after it is logged.
    fn load(&self) {
        let loaded = load_again(&self.load);
        if let Ok(loaded) = &loaded {
            tracing::info!(log_level = ?loaded.settings.log_level, "settings reloaded");
            needing_restart(self.started_with, &loaded.settings, |key| key != "log.level");
        }
        self.metrics.reloaded(loaded.is_ok().then(now));
        match loaded {
            Ok(_) => self.health.has(CONFIGURATION),
            Err(error) => self.health.lacks(CONFIGURATION, error.to_string()),
        }
    }
}

/// Returns a name that no other process has: two replicas may have the same node and the same process ID.
fn identity(node: &str) -> String {
    format!("{node}_{:016x}", RandomState::new().hash_one(std::process::id()))
}
