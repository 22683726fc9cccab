//! `kubegc collect`.

use std::path::PathBuf;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use schemars::JsonSchema;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::only::Only;
use super::overrides::Overrides;
use super::plan::ScopeArg;
use super::render::{self, Paint};
use super::session::{begun, block_on, lock_and_open, look, memory_only, node};
use super::{CliError, ErrorKind, Output, format, one_document};
use crate::config::Loaded;
use crate::daemon::schedule::Limits;
use crate::daemon::{Cycle, PassKind, now, signals};
use crate::execute::Remover;
use crate::plan::{Plan, PlanError, Report, Summary};
use crate::record::{Pass, StoreError};

/// Make one GC pass: remove what `plan` shows
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Make all checks, but remove nothing
    #[arg(long)]
    dry_run: bool,
    /// Carry out a plan saved with `plan -o json` (- for standard input)
    ///
    /// Only objects in the plan are removed. An object that has changed since is refused.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["scope", "evict_terminated_pods", "pressure"])]
    plan: Option<PathBuf>,
    /// Object kinds to collect
    #[arg(long, value_enum, default_value = "all")]
    scope: ScopeArg,
    #[command(flatten)]
    only: Only,
    #[command(flatten)]
    what_if: Overrides,
}

/// The result of a pass, for programs.
#[derive(JsonSchema, Serialize)]
pub(super) struct Collection<'a> {
    /// Always `Collection`.
    kind: &'static str,
    /// The version of the document, 1.
    version: u32,
    /// Whether the pass was a dry run, which removes nothing.
    dry_run: bool,
    /// Each action and its result, in order.
    reports: &'a [Report],
    /// The number of actions for each result.
    summary: &'a Summary,
    /// The number of objects kept.
    kept: usize,
    /// Why a step could not be completed.
    errors: &'a [PlanError],
}

/// Makes one pass.
pub fn run(args: &Args, loaded: &Loaded, output: &mut Output) -> Result<(), CliError> {
    let saved = args.plan.as_deref().map(one_document::plan).transpose()?;
    let loaded = &args.what_if.applied(loaded);
    let shutdown = Limits::default().shutdown;
    let pass = block_on(async {
        let (signals, stop, _) = signals::listen()?;
        tokio::select! {
            pass = collect(args, saved, loaded, &stop) => pass,
            signal = signals.aborted() => Err(CliError::aborted(signal)),
            () = async { stop.cancelled().await; tokio::time::sleep(shutdown).await } => Err(overdue(shutdown)),
        }
    })?;
    print(&pass, args.dry_run, output)?;
    verdict(&pass)
}

/// Returns the error of a shutdown that waits for an unresponsive runtime or disk.
fn overdue(shutdown: Duration) -> CliError {
    let message = format!("the pass did not end within {} s of the signal", shutdown.as_secs());
    CliError::message(ErrorKind::Partial, message)
}

async fn collect(
    args: &Args,
    saved: Option<Plan>,
    loaded: &Loaded,
    stop: &CancellationToken,
) -> Result<Pass, CliError> {
    let settings = loaded.settings.clone();
    let saved = if args.only.is_set() { Some(limited(args, saved, loaded).await?) } else { saved };
    if args.dry_run {
        let store = memory_only(&settings)?;
        let started_at = begun(&store)?;
        let cycle = Cycle::dry(settings, &node(loaded).await?, store, started_at);
        return Ok(Box::pin(one_pass(cycle, args, saved, stop)).await?);
    }
    let (_lock, store) = lock_and_open(&settings, "collect").await?;
    let started_at = store.call(|store| store.begun_at()).await?.unwrap_or_else(now);
    let cycle = Cycle::live(settings, &node(loaded).await?, store, started_at);
    Ok(Box::pin(one_pass(cycle, args, saved, stop)).await?)
}

/// Returns a plan of the objects that the flags name. It is carried out like a saved plan, so every guard applies again.
async fn limited(args: &Args, saved: Option<Plan>, loaded: &Loaded) -> Result<Plan, CliError> {
    let (snapshot, plan) = look(loaded, args.scope.into()).await?;
    args.only.limit(saved.unwrap_or(plan), &snapshot, &loaded.settings.policy)
}

async fn one_pass<H: Remover>(
    cycle: Cycle<H>,
    args: &Args,
    saved: Option<Plan>,
    stop: &CancellationToken,
) -> Result<Pass, StoreError> {
    let bar = progress();
    let show = |plan: &Plan, report: &Report| {
        bar.set_length(plan.actions.len() as u64);
        bar.set_message(report.action.target.id());
        bar.inc(1);
    };
    let kind = match (saved, args.what_if.pressure()) {
        (Some(plan), _) => PassKind::Saved(Box::new(plan)),
        (None, Some(pressure)) => PassKind::Pressure(pressure, args.scope.into()),
        (None, None) => PassKind::Regular(args.scope.into()),
    };
    let pass = cycle.pass(kind, stop, show).await;
    bar.finish_and_clear();
    cycle.close().await;
    pass
}

/// Returns a progress bar. It is drawn on standard error, and only on a terminal.
fn progress() -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {wide_msg}");
    ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// Prints the result of the pass.
fn print(pass: &Pass, dry_run: bool, output: &mut Output) -> Result<(), CliError> {
    let (kept, errors) = (pass.kept(), &pass.plan.errors);
    let (reports, summary) = (&pass.reports, &pass.summary);
    let document = Collection { kind: "Collection", version: 1, dry_run, reports, summary, kept, errors };
    let paint = Paint { on: output.color };
    output.result(&document, |wide| render::collection(pass, wide, paint))
}

/// Returns an error if a part of the pass failed: cron and scripts check only the exit status.
fn verdict(pass: &Pass) -> Result<(), CliError> {
    let blind = pass.plan.errors.iter().filter(|error| !matches!(error, PlanError::FreeDiskSpaceFailed { .. }));
    let (failed, left, blind) = (pass.summary.total().failed, pass.summary.not_begun, blind.count());
    let mut faults = Vec::new();
    if failed > 0 {
        faults.push(format!("{} failed", format::count(failed, "removal")));
    }
    let halted: usize = pass.summary.halts.iter().map(|halt| halt.not_begun).sum();
    if left > halted {
        faults.push(format!("{} not begun, because of a signal", format::count(left - halted, "removal")));
    }
    faults.extend(pass.summary.halts.iter().map(ToString::to_string));
    if blind > 0 {
        faults.push(format!("{} failed", format::count(blind, "step")));
    }
    if pass.summary.shortfall_bytes > 0 {
        faults.push(format!("the image disk still needs {} of free space", format::size(pass.summary.shortfall_bytes)));
    }
    if let Some(note) = pass.not_recorded() {
        faults.push(format!("{note}, so this pass is not in the history"));
    }
    if faults.is_empty() { Ok(()) } else { Err(CliError::message(ErrorKind::Partial, format::list(&faults))) }
}
