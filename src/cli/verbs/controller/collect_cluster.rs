//! `kubegc controller collect`.

use std::fs::{DirBuilder, OpenOptions};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use indicatif::ProgressBar;
use serde_json::Value;

use super::change_args::{ChangeArgs, Question, until_aborted};
use super::source;
use super::{cluster_tables as render, pod_tables as render_pods};
use crate::cli::cli_error::{CliError, ErrorKind};
use crate::cli::input::cluster::Source;
use crate::cli::render::output::Output;
use crate::cli::verbs::collect::{is_dry, observing};
use crate::controller::{ClusterOutcome, CollectOptions, Keep, PodCollector, SaveOptions, collect};
use crate::daemon::now;
use crate::owners::ActionWord;

/// The longest name of a file without its end.
const LONGEST_NAME: usize = 220;
const QUESTION: Question = Question { doing: "collecting", change: "Delete", shown_by: "plan" };

/// Delete what `controller plan` shows, and what follows from it
///
/// The command ends when a check of all objects finds nothing to do. It lists the objects that wait only for finalizers of
/// other controllers. It needs no watch and no service.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    change: ChangeArgs,
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
    /// Save each object before its deletion, as a file in this directory that `kubectl create -f` takes
    ///
    /// An object that cannot be saved is not deleted. Owner references and the data of Secrets are left out.
    #[arg(long, value_name = "DIRECTORY", conflicts_with = "pods_only")]
    save: Option<PathBuf>,
    /// Save the data of Secrets too
    #[arg(long, requires = "save")]
    save_secrets: bool,
}

/// Collects and prints what was done.
pub(super) fn run(args: &Args, source: Source<'_>, output: &mut Output) -> Result<(), CliError> {
    let dry_run = is_dry(args.change.dry_run, source.loaded);
    if args.pods_only {
        pods(args, dry_run, source, output)?;
    } else {
        objects(args, dry_run, source, output)?;
    }
    if dry_run && !args.change.dry_run { Err(observing()) } else { Ok(()) }
}

fn objects(args: &Args, dry_run: bool, source: Source<'_>, output: &mut Output) -> Result<(), CliError> {
    let ChangeArgs { max: max_objects, timeout, .. } = args.change;
    let only = args.change.only.filter(source)?;
    let settings = source::with_namespaces(source, args.namespaces, !only.is_empty())?;
    let options = CollectOptions { dry_run, max_objects, timeout, only, save: args.saves()? };
    let bar = ProgressBar::new_spinner();
    let shown = bar.clone();
    let connection = Arc::new(source.patient_connection());
    let asks = args.change.asks(dry_run, source);
    let report = until_aborted(async |stop| {
        let cluster = QUESTION.confirm(&connection, asks, &stop).await?;
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
    let failures = report.failures.iter().map(|failure| (&failure.object, &*failure.cause));
    args.change.verdict(report.interrupted, failures, &report.errors)
}

fn pods(args: &Args, dry_run: bool, source: Source<'_>, output: &mut Output) -> Result<(), CliError> {
    let connection = Arc::new(source.patient_connection());
    let mut collector = PodCollector::new(&connection, source.settings().pods_of_cluster(), dry_run, now, |_| {});
    let (ChangeArgs { max, timeout, .. }, asks) = (&args.change, args.change.asks(dry_run, source));
    let (max, timeout) = (*max, *timeout);
    let report = until_aborted(async |stop| {
        QUESTION.confirm(&connection, asks, &stop).await?;
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
