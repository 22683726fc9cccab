//! `kubegc controller collect`.

use std::fs::{DirBuilder, OpenOptions};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, IsTerminal as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use indicatif::ProgressBar;
use serde_json::Value;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::object_args::ObjectArgs;
use super::source::{self, Source};
use super::{cluster_tables as render, pod_tables as render_pods};
use crate::cli::cli_error::{CliError, ErrorKind, note};
use crate::cli::input::session::block_on;
use crate::cli::render::format;
use crate::cli::render::output::Output;
use crate::cli::verbs::collect::{is_dry, observing};
use crate::controller::{ClusterOutcome, ClusterReport, CollectOptions, Keep, PodCollector, SaveOptions, collect};
use crate::daemon::now;
pub(super) use crate::daemon::process::signals;
use crate::kubernetes::Connection;
use crate::owners::ActionWord;

/// The longest name of a file without its end.
const LONGEST_NAME: usize = 220;
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
    #[arg(long, conflicts_with_all = ["namespaces", "namespace", "selector", "only", "ignore", "plan"])]
    pods_only: bool,
    /// Also delete the content of namespaces in deletion, then end the deletion
    ///
    /// Only for an API server without kube-controller-manager, which does this itself.
    #[arg(long)]
    namespaces: bool,
    #[command(flatten)]
    only: ObjectArgs,
    /// Save each object before its deletion, as a file in this directory that `kubectl create -f` takes
    ///
    /// An object that cannot be saved is not deleted. Owner references and the data of Secrets are left out.
    #[arg(long, value_name = "DIRECTORY", conflicts_with = "pods_only")]
    save: Option<PathBuf>,
    /// Save the data of Secrets too
    #[arg(long, requires = "save")]
    save_secrets: bool,
    /// Do not ask, on a terminal, if no flag names a context or a server
    #[arg(short, long)]
    yes: bool,
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
    let only = args.only.filter(source)?;
    let settings = source::with_namespaces(source, args.namespaces, !only.is_empty())?;
    let options = CollectOptions { dry_run, max_objects: args.max, timeout: args.timeout, only, save: args.saves()? };
    let bar = ProgressBar::new_spinner();
    let shown = bar.clone();
    let connection = Arc::new(source.patient_connection());
    let asks = args.asks(dry_run, source);
    let report = until_aborted(async |stop| {
        let cluster = confirm(&connection, asks, &stop).await?;
        let keep = source::history(source, "controller collect", cluster, dry_run)?;
        shown.enable_steady_tick(Duration::from_millis(200));
        let watch = move |outcome: &ClusterOutcome| {
            shown.set_message(outcome.object.to_string());
            shown.inc(1);
            keep(outcome);
        };
        Ok(collect(connection, settings, &options, now, stop, watch).await?)
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
    let (max, timeout, asks) = (args.max, args.timeout, args.asks(dry_run, source));
    let report = until_aborted(async |stop| {
        confirm(&connection, asks, &stop).await?;
        let end = stop.clone();
        tokio::spawn(async move {
            tokio::time::sleep(timeout).await;
            end.cancel();
        });
        Ok(collector.collect(max, &stop).await?)
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

// === impl Args ===

impl Args {
    /// Returns how objects are saved, for an existing or a new directory that no one else may read.
    fn saves(&self) -> Result<Option<SaveOptions>, CliError> {
        let Some(directory) = self.save.clone() else { return Ok(None) };
        let created = DirBuilder::new().recursive(true).mode(0o700).create(&directory);
        created.map_err(|error| CliError::message(ErrorKind::Usage, cannot_save(&directory, &error)))?;
        let keep: Keep = Arc::new(move |object| {
            let file = directory.join(file_name(object));
            let text = serde_json::to_vec_pretty(object).map_err(|error| error.to_string())?;
            let open = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&file);
            open.and_then(|mut open| open.write_all(&text)).map_err(|error| cannot_save(&file, &error))
        });
        Ok(Some(SaveOptions { keep, secrets: self.save_secrets }))
    }

    /// Returns whether a person is asked if this is the right cluster: a kubeconfig may have many, and its current context may
    /// be of yesterday.
    fn asks(&self, dry_run: bool, source: Source<'_>) -> bool {
        let on_terminal = io::stdin().is_terminal() && io::stderr().is_terminal();
        on_terminal && !dry_run && !self.yes && source.kubectl.names_no_cluster()
    }
}

/// Names the cluster, asks if it is the right one, and returns it.
async fn confirm(connection: &Connection, asks: bool, stop: &CancellationToken) -> Result<String, CliError> {
    let cluster = connection.cluster().await;
    if asks && !confirmed(&cluster, stop).await {
        let error = CliError::message(ErrorKind::Partial, "nothing was deleted: the answer was not yes");
        return Err(error.hint("--context names the cluster"));
    }
    if !asks && !cluster.is_empty() {
        note(&format!("collecting in {cluster}"));
    }
    Ok(cluster)
}

fn cannot_save(path: &Path, error: &io::Error) -> String {
    format!("cannot write {}: {error}", path.display())
}

/// Returns the name of a file for an object: kind, group, namespace and name. A tenant may have chosen them, so what is no name of
/// Kubernetes is escaped, and none is a path (G2).
fn file_name(object: &Value) -> PathBuf {
    let text = |at: &str| object.pointer(at).and_then(Value::as_str).unwrap_or_default();
    let (group, _) = text("/apiVersion").rsplit_once('/').unwrap_or_default();
    let parts = [text("/kind"), group, text("/metadata/namespace"), text("/metadata/name")];
    let escaped = |character: char| match character {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '.' => character.to_string(),
        other => format!("%{:X}", u32::from(other)),
    };
    let parts = parts.iter().filter(|part| !part.is_empty()).map(|part| part.chars().map(escaped).collect::<String>());
    let name = parts.collect::<Vec<_>>().join("_");
    // The longest name of a file has 255 bytes, and all characters are ASCII.
    match name.get(..LONGEST_NAME) {
        Some(start) if name.len() > LONGEST_NAME => {
            let mut hasher = DefaultHasher::new();
            name.hash(&mut hasher);
            PathBuf::from(format!("{start}_{:016x}.json", hasher.finish()))
        }
        _ => PathBuf::from(format!("{name}.json")),
    }
}

async fn confirmed(cluster: &str, stop: &CancellationToken) -> bool {
    eprint!("Delete in {} what `kubegc controller plan` shows? [y/N] ", format::printable(cluster));
    let (sender, answer) = oneshot::channel();
    // A thread of its own: the runtime would wait for an answer even after a signal.
    std::thread::spawn(move || sender.send(io::stdin().lines().next()));
    tokio::select! {
        answer = answer => matches!(answer, Ok(Some(Ok(line))) if ["y", "yes"].contains(&&*line.trim().to_lowercase())),
        () = stop.cancelled() => false,
    }
}

/// Runs a collection. The first signal ends it in order, the second at once.
fn until_aborted<T>(collection: impl AsyncFnOnce(CancellationToken) -> Result<T, CliError>) -> Result<T, CliError> {
    block_on(async {
        let (signals, stop, _) = signals::listen()?;
        tokio::select! {
            report = collection(stop) => report,
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
