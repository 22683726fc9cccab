//! `kubegc controller collect`.

use std::fs::{self, DirBuilder, OpenOptions};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Write as _};
use std::iter;
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
use crate::cli::render::output::{Document, Output};
use crate::cli::verb::{LIST, LOOKS, Start, Verb, VerbFacts};
use crate::cli::verbs::collect::{is_dry, observing};
use crate::controller::{ClusterOutcome, CollectOptions, Keep, PodCollector, SaveOptions, collect};
use crate::daemon::now;
use crate::owners::ActionWord;

/// The longest name of a file without its end.
const LONGEST_NAME: usize = 220;
const COPIES: usize = 1000;
const QUESTION: Question = Question { doing: "collecting", change: "Delete", shown_by: "plan" };

/// Delete what `controller plan` shows, and what follows from it
///
/// The command ends when a check of all objects finds nothing to do. It lists the objects that wait only for finalizers of
/// other controllers. It needs no watch and no service.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    change: ChangeArgs,
    /// Delete orphaned, unscheduled and surplus terminated pods, instead of objects whose owners are deleted
    ///
    /// Pods of a missing node are kept unless `pod_gc.node_quarantine` is 0: a single command cannot measure how long the
    /// node has been missing.
    #[arg(long, conflicts_with_all = ["namespaces", "only", "ignore"])]
    pods_only: bool,
    /// Also delete the content of namespaces in deletion, then end the deletion
    ///
    /// Only for an API server without kube-controller-manager, which does this itself.
    #[arg(long)]
    namespaces: bool,
    /// Save each object before its deletion, as a file in this directory that `kubectl create -f` takes
    ///
    /// An object that cannot be saved is not deleted, nor is a namespace or a definition of a resource, whose content would go with
    /// it. Owner references and the data of Secrets are left out. Files are never replaced: another object of a name gets NAME~2.json.
    #[arg(long, value_name = "DIRECTORY", conflicts_with = "pods_only")]
    save: Option<PathBuf>,
    /// Save the data of Secrets too
    #[arg(long, requires = "save")]
    save_secrets: bool,
}

// === impl Args: the command ===

impl Verb for Args {
    fn facts() -> &'static VerbFacts {
        &VerbFacts {
            name: "controller collect",
            examples: &[
                ("Make all checks, but change nothing", "kubegc controller collect --dry-run"),
                ("Delete at most 100 objects", "kubegc controller collect --max 100"),
            ],
            formats: LIST,
            ..LOOKS
        }
    }

    fn run(&self, start: &Start<'_>, output: &mut Output) -> Result<(), CliError> {
        let loaded = start.load()?;
        let source = Source::new(&loaded, start);
        let (dry_run, source) = (is_dry(self.change.dry_run, source.loaded), source.within(self.change.timeout));
        if self.pods_only {
            pods(self, dry_run, source, output)?;
        } else {
            objects(self, dry_run, source, output)?;
        }
        if dry_run && !self.change.dry_run { Err(observing()) } else { Ok(()) }
    }
}

fn objects(args: &Args, dry_run: bool, source: Source<'_>, output: &mut Output) -> Result<(), CliError> {
    let (max_objects, only) = (args.change.max, args.change.only.filter(source)?);
    let settings = source::with_namespaces(source, args.namespaces, !only.is_empty())?;
    let options = CollectOptions { dry_run, max_objects, timeout: source.left(), only, save: args.saves()? };
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
    output.list(&Document::of(&report), names, || render::report(&report, dry_run, paint))?;
    let failures = report.failures.iter().map(|failure| (&failure.object, &*failure.cause));
    args.change.verdict(report.interrupted, failures, &report.errors)
}

fn pods(args: &Args, dry_run: bool, source: Source<'_>, output: &mut Output) -> Result<(), CliError> {
    let connection = Arc::new(source.patient_connection());
    let collector = PodCollector::new(&connection, source.settings().pods_of_cluster(), dry_run, now, |_| {});
    let mut collector = collector.of(args.change.only.filter_of_pods()?);
    let (max, timeout, asks) = (args.change.max, source.left(), args.change.asks(dry_run, source));
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
    output.list(&Document::of(&report), names, || render_pods::report(&report))?;
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
            let text = serde_json::to_vec_pretty(object).map_err(|error| error.to_string())?;
            keep_in(&directory, &file_name(object), &text)
        });
        Ok(Some(SaveOptions { keep, secrets: self.save_secrets }))
    }
}

fn cannot_save(path: &Path, error: &io::Error) -> String {
    format!("cannot write {}: {error}", path.display())
}

/// Writes a new file, whatever files there are. What a file has already needs no other one: a deletion may be tried again.
fn keep_in(directory: &Path, name: &str, text: &[u8]) -> Result<(), String> {
    for number in 1..=COPIES {
        let end = if number == 1 { String::new() } else { format!("~{number}") };
        let file = directory.join(format!("{name}{end}.json"));
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&file) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if fs::read(&file).is_ok_and(|before| before == text) {
                    return Ok(());
                }
            }
            opened => {
                // Some file systems say only then that they are full.
                let written = opened.and_then(|mut open| open.write_all(text).and_then(|()| open.sync_all()));
                return written.map_err(|error| cannot_save(&file, &error));
            }
        }
    }
    Err(format!("cannot write {name}.json to {}: it has {COPIES} other ones of this name", directory.display()))
}

/// Returns the name of a file for an object without its end: kind and group, namespace, name. A tenant may have chosen them, so what
/// is no name of Kubernetes is escaped, and none is a path (G2). Each object has another one.
fn file_name(object: &Value) -> String {
    let text = |at: &str| object.pointer(at).and_then(Value::as_str).unwrap_or_default();
    let (group, _) = text("/apiVersion").rsplit_once('/').unwrap_or_default();
    let group = if group.is_empty() { String::new() } else { format!(".{}", escaped(group)) };
    let kind = escaped(text("/kind")).replace('.', "%2E") + &group;
    let parts = [escaped(text("/metadata/namespace")), escaped(text("/metadata/name"))];
    let parts: Vec<_> = iter::once(kind).chain(parts.into_iter().filter(|part| !part.is_empty())).collect();
    let name = parts.join("_");
    // The longest name of a file has 255 bytes, and all characters are ASCII.
    match name.get(..LONGEST_NAME) {
        Some(start) if name.len() > LONGEST_NAME => {
            let mut hasher = DefaultHasher::new();
            name.hash(&mut hasher);
            format!("{start}_{:016x}", hasher.finish())
        }
        _ => name,
    }
}

/// Escapes all bytes that are in no name of Kubernetes, each with two digits.
fn escaped(text: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    text.bytes().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;

    #[test]
    fn each_object_has_a_file_name_of_its_own() {
        let object = |version: &str, kind: &str, namespace: &str, name: &str| json!({"apiVersion": version, "kind": kind, "metadata": {"namespace": namespace, "name": name}});
        let objects = [
            object("v1", "Secret", "ns1", "a\nB"),
            object("v1", "Secret", "ns1", "a«"),
            object("v1", "Secret", "ns1", "a_b"),
            object("v1", "Secret", "ns1", "a%5Fb"),
            object("v1", "Secret", "", "ns1_a%0AB"),
            object("b.c/v1", "A", "", "d"),
            object("c/v1", "A.b", "", "d"),
            object("v1", "A", "b.c", "d"),
            object("v1", "A", "", &"n".repeat(300)),
            object("v1", "A", "", &"n".repeat(301)),
            object("v1", "A", "..", "/../../etc"),
        ];
        let names: BTreeSet<_> = objects.iter().map(file_name).collect();
        assert_eq!(names.len(), objects.len(), "{names:?}");
        assert!(names.iter().all(|name| name.len() < 250 && !name.contains('/')), "{names:?}");
        assert_eq!(file_name(&object("apps/v1", "Deployment", "ns1", "web")), "Deployment.apps_ns1_web");
    }

    #[test]
    fn a_file_that_is_there_is_never_written_again() {
        let directory = tempfile::tempdir().unwrap();
        for text in ["first", "second", "first", "second"] {
            keep_in(directory.path(), "a", text.as_bytes()).unwrap();
        }
        let text = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap();
        assert_eq!((text("a.json"), text("a~2.json")), ("first".to_owned(), "second".to_owned()));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
        std::os::unix::fs::symlink(directory.path().join("elsewhere"), directory.path().join("b.json")).unwrap();
        keep_in(directory.path(), "b", b"third").unwrap();
        assert_eq!(text("b~2.json"), "third", "a link is not followed");
        assert!(keep_in(Path::new("/proc/self"), "a", b"x").unwrap_err().contains("/proc/self/a.json"));
    }
}
