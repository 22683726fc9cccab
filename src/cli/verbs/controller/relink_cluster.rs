//! `kubegc controller relink`.

use std::sync::Arc;

use super::RELINKED;
use super::change_args::{ChangeArgs, Question, until_aborted};
use super::cluster_tables as render;
use super::source;
use crate::cli::cli_error::CliError;
use crate::cli::input::cluster::Source;
use crate::cli::render::format;
use crate::cli::render::output::{Document, Output};
use crate::cli::verb::{LIST, LOOKS, Start, Verb, VerbFacts};
use crate::cli::verbs::collect::{is_dry, observing};
use crate::controller::{CollectOptions, RelinkReport, RelinkResult, RelinkedReference, relink};
use crate::owners::plan_under;

const QUESTION: Question = Question { doing: "relinking", change: "Change", shown_by: "relink --dry-run" };

/// Correct owner references whose owner has another uid, after a restore
///
/// A restore from a backup gives owners new uids, so that their dependents are garbage. This sets the uid of the object that
/// has the apiVersion, the kind and the name of the reference, in the namespace of the object or without a namespace. Nothing
/// else changes. Objects and owners in deletion, and objects with another reference to that owner, are left as they are.
///
/// WARNING: an object that was deleted and created again under the same name is another owner. If a StatefulSet or a Job was,
/// its controller adopts the pods of the earlier one. Check what --dry-run shows, and limit it by -n, -l, --only and --ignore.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    change: ChangeArgs,
}

// === impl Args: the command ===

impl Verb for Args {
    fn facts() -> &'static VerbFacts {
        &VerbFacts {
            name: "controller relink",
            examples: &[
                ("Show what would be changed after a restore", "kubegc controller relink -n shop --dry-run"),
                ("Change at most 100 objects", "kubegc controller relink -n shop --max 100"),
            ],
            formats: LIST,
            ..LOOKS
        }
    }

    fn run(&self, start: &Start<'_>, output: &mut Output) -> Result<(), CliError> {
        let loaded = start.load()?;
        let source = Source::new(&loaded, start);
        let (dry_run, source) = (is_dry(self.change.dry_run, source.loaded), source.within(self.change.timeout));
        let ChangeArgs { max: max_objects, only: selected, .. } = &self.change;
        let (max_objects, only, settings) = (*max_objects, selected.filter(source)?, &source.settings().controller);
        let plan = plan_under(&source::observe(source, selected.select.namespace.get())?, &settings.guards);
        let options = CollectOptions { dry_run, max_objects, timeout: source.left(), only, save: None };
        let connection = Arc::new(source.patient_connection());
        let asks = self.change.asks(dry_run, source) && plan.stale_references().next().is_some();
        let report = until_aborted(async |stop| {
            let cluster = QUESTION.confirm(&connection, asks, &stop).await?;
            let keep = source::history(source, "controller relink", cluster, dry_run)?;
            Ok(relink(connection, &plan, settings, &options, stop, keep).await?)
        })?;
        let relinked = report.references.iter().filter(|it| is_relinked(it));
        output.list(&Document::of(&report), relinked.map(|it| render::name(&it.object)), || text(&report, dry_run))?;
        let failures = report.failures.iter().map(|failure| (&failure.object, &*failure.cause));
        self.change.verdict(report.interrupted, failures, &report.errors)?;
        if dry_run && !self.change.dry_run { Err(observing()) } else { Ok(()) }
    }
}

fn is_relinked(reference: &RelinkedReference) -> bool {
    matches!(reference.result, RelinkResult::Relinked | RelinkResult::DryRun)
}

/// Formats a report: one line for each reference, then the totals.
fn text(report: &RelinkReport, dry_run: bool) -> String {
    let rows = report.references.iter().map(|RelinkedReference { object, owner, old_uid, result }| {
        let [kind, namespace, name] = render::columns(object);
        let owner_name = format!("{}/{}", owner.kind.kind, owner.name);
        let result = result.to_string().replace('_', " ");
        [kind, namespace, name, owner_name, old_uid.to_string(), owner.uid.to_string(), result]
    });
    let table = if report.references.is_empty() { String::new() } else { RELINKED.text(rows) + "\n" };
    let verb = if dry_run { "would be relinked" } else { "relinked" };
    let relinked = report.references.iter().filter(|it| is_relinked(it)).count();
    let skipped = report.references.len() - relinked;
    format!("{table}{} {verb}, {skipped} skipped.\n", format::count(relinked, "reference"))
}
