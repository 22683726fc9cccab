//! `kubegc controller collect`.

use std::sync::Arc;
use std::time::Duration;

use indicatif::ProgressBar;
use tokio_util::sync::CancellationToken;

use super::source::Source;
use super::{cluster_tables as render, pod_tables as render_pods};
use crate::cli::cli_error::{CliError, ErrorKind, note};
use crate::cli::input::session::block_on;
use crate::cli::render::format;
use crate::cli::render::output::Output;
use crate::cli::verbs::collect::{is_dry, observing};
use crate::controller::{ClusterOutcome, ClusterReport, CollectOptions, ControllerError, PodCollector, collect};
use crate::daemon::now;
pub(super) use crate::daemon::process::signals;
use crate::owners::ActionWord;

/// What continues a collection that its timeout has ended.
const AGAIN: &str = "run it again, or raise --timeout or --kube-api-qps";

/// Delete what `controller plan` shows, and what follows from it
///
/// The command ends when a check of all objects finds nothing to do. It lists the objects that wait only for finalizers of
/// other controllers. It needs no watch and no service.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Make all checks, but change nothing
    #[arg(long)]
    dry_run: bool,
    /// Change at most this number of objects
    ///
    /// An owner and the dependents that lose their reference to it count as one.
    #[arg(long, value_name = "NUMBER")]
    max: Option<usize>,
    /// Stop after this time, even if objects remain
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = humantime::parse_duration)]
    timeout: Duration,
    /// Delete pods that no kubelet finishes, instead of objects whose owners are deleted
    ///
    /// Pods of a missing node are kept unless `pod_gc.node_quarantine` is 0: a single command cannot measure how long the
    /// node has been missing.
    #[arg(long)]
    pods_only: bool,
}

/// Collects and prints what was done.
pub(super) fn run(args: &Args, source: Source<'_>, output: &mut Output) -> Result<(), CliError> {
    let dry_run = is_dry(args.dry_run, source.loaded);
    if args.pods_only {
        pods(args, dry_run, source, output)?;
    } else {
        objects(args, dry_run, source, output)?;
    }
    if dry_run && !args.dry_run { Err(observing()) } else { Ok(()) }
}

fn objects(args: &Args, dry_run: bool, source: Source<'_>, output: &mut Output) -> Result<(), CliError> {
    let options = CollectOptions { dry_run, max_objects: args.max, timeout: args.timeout };
    let bar = ProgressBar::new_spinner();
    bar.enable_steady_tick(Duration::from_millis(200));
    let shown = bar.clone();
    let watch = move |outcome: &ClusterOutcome| {
        shown.set_message(outcome.object.to_string());
        shown.inc(1);
    };
    let connection = Arc::new(source.patient_connection());
    let settings = source.settings().controller.clone();
    let report = until_aborted(async |stop| {
        let cluster = connection.cluster().await;
        if !cluster.is_empty() {
            note(&format!("collecting in {cluster}"));
        }
        collect(connection, settings, &options, now, stop, watch).await
    })?;
    bar.finish_and_clear();
    let deleted = report.outcomes.iter().filter(|outcome| outcome.action == ActionWord::Delete);
    let (names, paint) = (deleted.map(|outcome| render::name(&outcome.object)), output.paint);
    output.list(&report, names, |wide| render::report(&report, dry_run, wide, paint))?;
    verdict(&report, args)
}

fn pods(args: &Args, dry_run: bool, source: Source<'_>, output: &mut Output) -> Result<(), CliError> {
    let connection = Arc::new(source.patient_connection());
    let mut collector = PodCollector::new(&connection, source.settings().pods_of_cluster(), dry_run, now, |_| {});
    let (max, timeout) = (args.max, args.timeout);
    let report = until_aborted(async |stop| {
        let end = stop.clone();
        tokio::spawn(async move {
            tokio::time::sleep(timeout).await;
            end.cancel();
        });
        collector.collect(max, &stop).await
    })?;
    let deleted = report.outcomes.iter().filter(|outcome| outcome.result.is_deletion());
    let names = deleted.map(|outcome| render_pods::name(&outcome.action));
    output.list(&report, names, |_| render_pods::report(&report))?;
    match report.failures.first().map(|failure| &failure.cause).or(report.errors.first()) {
        _ if report.interrupted => Err(CliError::message(ErrorKind::Partial, "stopped before all objects were done")),
        None => Ok(()),
        Some(cause) => Err(CliError::message(ErrorKind::Partial, cause.clone())),
    }
}

/// Runs a collection. The first signal ends it in order, the second at once.
fn until_aborted<T>(
    collection: impl AsyncFnOnce(CancellationToken) -> Result<T, ControllerError>,
) -> Result<T, CliError> {
    block_on(async {
        let (signals, stop, _) = signals::listen()?;
        tokio::select! {
            report = collection(stop) => Ok(report?),
            signal = signals.aborted() => Err(CliError::aborted(signal)),
        }
    })
}

/// Returns an error if garbage may be left.
fn verdict(report: &ClusterReport, args: &Args) -> Result<(), CliError> {
    let mut faults = Vec::new();
    if report.interrupted {
        faults.push(format!(
            "stopped before all objects were done, by a signal or after {}",
            humantime::format_duration(args.timeout)
        ));
    }
    if let Some(failure) = report.failures.first() {
        let others = report.failures.len() - 1;
        let others =
            if others == 0 { String::new() } else { format!(", and {} more", format::count(others, "object")) };
        faults.push(format!("{}: {}{others}", failure.object, failure.cause));
    }
    faults.extend(report.errors.iter().cloned());
    match faults.as_slice() {
        [] => Ok(()),
        faults => {
            let error = CliError::message(ErrorKind::Partial, faults.join("; "));
            Err(if report.interrupted { error.hint(AGAIN) } else { error })
        }
    }
}
