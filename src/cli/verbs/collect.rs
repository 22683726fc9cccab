//! `kubegc collect`.

pub(in crate::cli) mod listed;
mod remote;
mod wait;

use std::path::{Path, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

pub(super) use listed::ListedImage;
use listed::{ListArgs, Lists};
use remote::Progress;

use crate::cli::args::only::OnlyArgs;
use crate::cli::args::overrides::Overrides;
use crate::cli::args::values;
use crate::cli::cli_error::{CliError, ErrorKind};
use crate::cli::input::one_document;
use crate::cli::input::session::{block_on, plan_now, recorded, warn_without_history};
use crate::cli::render::output::{Document, Output};
use crate::cli::render::{self, format, reference};
use crate::cli::verb::{LIST, LOOKS, Start, Verb, VerbFacts};
use crate::config::{Loaded, Mode};
use crate::daemon::agent::lock_and_open;
use crate::daemon::node::LocalNode;
pub(super) use crate::daemon::process::signals::{self, Signal};
use crate::daemon::schedule::Limits;
use crate::daemon::{Cycle, PassKind, failed_sources, now};
use crate::metrics::{AgentMetrics, Exposition, write_text_file};
use crate::plan::{Kept, Outcome, Pass, Plan, PlanError, Report, Scope, Summary};
use crate::record::Store;

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
    /// Refuse a saved plan that is older
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = humantime::parse_duration)]
    max_age: Duration,
    /// Object kinds to collect
    #[arg(long, value_parser = values::scopes(), default_value = "all")]
    scope: Scope,
    #[command(flatten)]
    only: OnlyArgs,
    #[command(flatten)]
    what_if: Overrides,
    #[command(flatten)]
    lists: ListArgs,
    /// Observe, wait until ages are known, then collect
    ///
    /// For a node without history. The age of an image begins at its first observation, and a pod counts as deleted only if
    /// it is missing in two observations. The wait ends after LIMIT at the latest.
    #[arg(long, value_name = "LIMIT", num_args = 0..=1, require_equals = true, default_missing_value = "10m",
          value_parser = humantime::parse_duration, conflicts_with_all = ["plan", "dry_run"])]
    wait: Option<Duration>,
    /// Print only totals
    #[arg(short, long)]
    quiet: bool,
}

/// The result of a pass, for programs.
#[derive(JsonSchema, Serialize)]
pub(in crate::cli) struct Collection<'a> {
    /// Whether the pass was a dry run, which removes nothing.
    dry_run: bool,
    /// Each action and its result, in order.
    reports: &'a [Report],
    /// The number of actions for each result.
    summary: &'a Summary,
    /// The number of objects kept.
    kept: usize,
    /// The kept objects that the command names, and why; empty if it names none.
    named: &'a [Kept],
    /// Why a step could not be completed.
    errors: &'a [PlanError],
}

// === impl Args: the command ===

impl Verb for Args {
    fn facts() -> &'static VerbFacts {
        &VerbFacts {
            name: "collect",
            examples: &[
                ("Make one pass", "kubegc collect"),
                ("Make all checks, but remove nothing", "kubegc collect --dry-run"),
                ("Remove one unused image", "kubegc collect image/registry.example.com/web:1.0"),
                ("Carry out a saved plan", "kubegc collect --plan plan.json"),
                ("Free a full disk", "kubegc collect --pressure"),
                ("Remove the unused images that a scanner lists", "kubegc collect images --remove-list vulnerable.txt"),
            ],
            formats: LIST,
            statuses: &[0, 1, 2, 3, 5, 130],
            words: &["prune", "gc", "clean", "cleanup", "rm", "remove", "delete", "purge"],
            ..LOOKS
        }
    }

    fn run(&self, start: &Start<'_>, output: &mut Output) -> Result<(), CliError> {
        let loaded = &start.load()?;
        let saved = self.plan.as_deref().map(|path| saved_plan(path, self.max_age, loaded)).transpose()?;
        let lists = self.lists.read()?;
        self.only.check_alone(lists.removes())?;
        let loaded = &lists.applied(self.what_if.applied(loaded));
        let needs_history = self.wait.is_none() && self.plan.is_none();
        let (shutdown, metrics) = (Limits::default().shutdown, AgentMetrics::default());
        let progress = Progress::new(self, output.format);
        let (pass, mut listed, written, interrupted_by) = block_on(async {
            if needs_history {
                warn_without_history(&loaded.settings, output.format).await?;
            }
            let (signals, stop, _) = signals::listen()?;
            let first = signals.first();
            let pass = tokio::select! {
                pass = collect(self, &lists, saved, loaded, &stop, &metrics, &progress) => pass,
                signal = signals.aborted() => Err(CliError::aborted(signal)),
                () = async { stop.cancelled().await; tokio::time::sleep(shutdown).await } => Err(overdue(shutdown)),
            };
            if pass.as_ref().is_err_and(|error| error.kind() == ErrorKind::Runtime) {
                metrics.not_passed(self.scope);
                write_metrics(self, loaded, &metrics).await?;
            }
            let pass = pass.map_err(|error| error.ended_by(first.get().copied()));
            let ((pass, listed), written) = (pass?, write_metrics(self, loaded, &metrics).await);
            Ok((pass, listed, written, first.get().copied()))
        })?;
        if lists.removes() {
            listed::print(&mut listed, &pass.reports, output)?;
        } else {
            print(&pass, self, loaded, output)?;
        }
        written?;
        if is_dry(self.dry_run, loaded) && !self.dry_run {
            return Err(observing());
        }
        if let Some(cause) = pass.summary.suspended.as_ref().filter(|_| !self.dry_run) {
            return Err(suspended(cause, pass.summary.not_begun));
        }
        let ambiguous = listed.iter().filter(|one| one.is_ambiguous()).count();
        if ambiguous > 0 {
            return Err(listed::ambiguous(ambiguous));
        }
        let failed_sources = failed_sources(&pass.plan, &loaded.settings);
        verdict(&pass, interrupted_by, failed_sources, self.only.kept(&pass.plan))
    }
}

/// Writes the file with the metrics, if one is set. A dry run is no pass of the node.
async fn write_metrics(args: &Args, loaded: &Loaded, metrics: &AgentMetrics) -> Result<(), CliError> {
    let Some(file) = loaded.settings.metrics.file.as_deref().filter(|_| !args.dry_run) else { return Ok(()) };
    let written = write_text_file(file, &metrics.text(Exposition::Prometheus)).await;
    written.map_err(|error| CliError::new(ErrorKind::Partial, error))
}

/// Reads a saved plan. It must be of this node and not too old: the older it is, the more of what it shows has changed.
fn saved_plan(path: &Path, max_age: Duration, loaded: &Loaded) -> Result<Plan, CliError> {
    let plan = one_document::plan(path)?;
    let node = &loaded.settings.node;
    if !plan.node.is_empty() && plan.node != *node {
        let message =
            format!("cannot carry out {}: it is a plan of node {:?}, and this is {node:?}", path.display(), plan.node);
        return Err(CliError::message(ErrorKind::Usage, message).hint("--node-name sets the name of this node"));
    }
    let age = now().duration_since(plan.taken_at).as_secs();
    if age > max_age.as_secs().cast_signed() {
        let message =
            format!("cannot carry out {}: it is {} old, more than --max-age", path.display(), format::age(age));
        return Err(CliError::message(ErrorKind::Usage, message).hint("make a new plan, or raise --max-age"));
    }
    Ok(plan)
}

/// Returns whether a command removes nothing, by its flag or by the mode in the configuration.
pub(super) fn is_dry(dry_run: bool, loaded: &Loaded) -> bool {
    dry_run || loaded.settings.mode == Mode::Observe
}

/// Returns the error of a command that removed nothing although it was no dry run.
pub(super) fn observing() -> CliError {
    let error = CliError::message(ErrorKind::Partial, "mode = \"observe\": nothing was removed");
    error.hint("use --mode collect for one command, or set mode = \"collect\" in the configuration")
}

/// Returns the error of a pass that removed nothing, or did not begin the rest, because the node is paused.
fn suspended(cause: &str, not_begun: usize) -> CliError {
    let left = match not_begun {
        0 => "nothing was removed".to_owned(),
        left => format!("{} not begun", format::count(left, "removal")),
    };
    CliError::message(ErrorKind::Partial, format!("{cause}: {left}")).hint(crate::fleet::ended_by(cause))
}

/// Returns the error of a shutdown that waits for an unresponsive runtime or disk.
fn overdue(shutdown: Duration) -> CliError {
    let message = format!("the pass did not end within {} s of the signal", shutdown.as_secs());
    CliError::message(ErrorKind::Partial, message)
}

async fn collect(
    args: &Args,
    lists: &Lists,
    saved: Option<Plan>,
    loaded: &Loaded,
    stop: &CancellationToken,
    metrics: &AgentMetrics,
    progress: &Progress,
) -> Result<(Pass, Vec<ListedImage>), CliError> {
    if lists.removes() {
        let (plan, listed) = lists.plan(loaded).await?;
        return Ok((pass(args, lists, Some(plan), loaded, stop, metrics, progress).await?, listed));
    }
    let saved = if args.only.is_set() { Some(Box::pin(limited(args, saved, loaded)).await?) } else { saved };
    Ok((pass(args, lists, saved, loaded, stop, metrics, progress).await?, Vec::new()))
}

/// Makes the pass here or, beside a running agent, there.
async fn pass(
    args: &Args,
    lists: &Lists,
    saved: Option<Plan>,
    loaded: &Loaded,
    stop: &CancellationToken,
    metrics: &AgentMetrics,
    progress: &Progress,
) -> Result<Pass, CliError> {
    let settings = loaded.settings.clone();
    if is_dry(args.dry_run, loaded) {
        let memory = recorded(&settings).await?.memory()?;
        let started_at = memory.agent_started_at.unwrap_or_else(now);
        let node = LocalNode::find(loaded).await?.counted(metrics.calls());
        let cycle = Cycle::dry(settings, &node, Store::without_file(memory), started_at).with_metrics(metrics);
        return Ok(Box::pin(one_pass(cycle, args, saved, stop, progress)).await);
    }
    let (_lock, store) = match lock_and_open(&settings, "collect").await.map_err(CliError::from) {
        Err(error) if error.kind() == ErrorKind::Locked && settings.state.socket().exists() => {
            if lists.keeps() && !lists.removes() {
                return Err(remote::has_own_settings());
            }
            return remote::collect(args, saved, loaded, stop, error, metrics, progress).await;
        }
        opened => opened?,
    };
    // A single pass does not change the time since when the store has records.
    let started_at = store.begun_at().unwrap_or_else(now);
    let node = LocalNode::find(loaded).await?.counted(metrics.calls());
    let cycle = Cycle::live(settings, &node, store, started_at).with_metrics(metrics);
    if let Some(limit) = args.wait {
        wait::for_ages(&cycle, args.scope, limit, stop).await;
        if stop.is_cancelled() {
            cycle.into_store().close().await;
            return Err(wait::interrupted());
        }
    }
    Ok(Box::pin(one_pass(cycle, args, saved, stop, progress)).await)
}

/// Returns a plan of the objects that the flags name. It is carried out like a saved plan, so every guard applies again.
async fn limited(args: &Args, saved: Option<Plan>, loaded: &Loaded) -> Result<Plan, CliError> {
    let loaded = &args.only.applied(loaded.clone());
    let (snapshot, plan) = plan_now(loaded, args.scope, []).await?;
    args.only.limit(saved.unwrap_or(plan), &snapshot, &loaded.settings.policy)
}

async fn one_pass(
    cycle: Cycle,
    args: &Args,
    saved: Option<Plan>,
    stop: &CancellationToken,
    progress: &Progress,
) -> Pass {
    let show = |plan: &Plan, report: &Report| progress.advance(plan.actions.len(), report);
    let pressure = match args.what_if.pressure() {
        None => cycle.pressure().await,
        requested => requested,
    };
    let kind = match saved {
        Some(plan) => PassKind::Saved(Box::new(plan)),
        None => PassKind::of(pressure, args.scope),
    };
    let pass = cycle.pass(kind, stop, show).await;
    progress.end();
    let shows_disks = cycle.settings().metrics.file.is_some() && !args.dry_run && args.scope != Scope::Containers;
    if shows_disks && !stop.is_cancelled() {
        cycle.take_account().await;
    }
    let not_recorded = cycle.into_store().close().await;
    Pass { not_recorded, ..pass }
}

fn print(pass: &Pass, args: &Args, loaded: &Loaded, output: &mut Output) -> Result<(), CliError> {
    let dry_run = is_dry(args.dry_run, loaded);
    let (kept, errors) = (pass.kept(), &pass.plan.errors);
    let (reports, summary) = (&pass.reports, &pass.summary);
    let named = if args.only.names_objects() { &*pass.plan.kept } else { &[] };
    let collection = Collection { dry_run, reports, summary, kept, named, errors };
    let paint = output.paint;
    let removed = |report: &&Report| matches!(report.outcome, Outcome::Removed {} | Outcome::WouldRemove {});
    let targets = pass.reports.iter().filter(removed).map(|report| &report.action.target);
    let names = targets.map(|target| reference(target.kind(), &target.id()));
    output.list(&Document::of(&collection), names, || {
        if args.quiet { render::totals(pass, paint) } else { render::named(named) + &render::collection(pass, paint) }
    })
}

/// Returns an error if a part of the pass failed, or if it kept objects that were named: cron and scripts check only the exit status.
fn verdict(
    pass: &Pass,
    interrupted_by: Option<Signal>,
    failed_sources: Option<String>,
    named_and_kept: usize,
) -> Result<(), CliError> {
    let blind = pass.plan.errors.iter().filter(|error| !matches!(error, PlanError::FreeDiskSpaceFailed { .. }));
    let (total, left, blind) = (pass.summary.total(), pass.summary.not_begun, blind.count());
    let mut faults = Vec::new();
    if total.failed > 0 {
        faults.push(format!("{} failed", format::count(total.failed, "removal")));
    }
    if total.refused > 0 {
        faults.push(format!("{} refused", format::count(total.refused, "removal")));
    }
    let halted: usize = pass.summary.halts.iter().map(|halt| halt.not_begun).sum();
    let cut_by = interrupted_by.filter(|_| left > halted);
    if let Some(signal) = cut_by {
        faults.push(format!("{} not begun, because of {}", format::count(left - halted, "removal"), signal.name()));
    }
    faults.extend(pass.summary.halts.iter().map(ToString::to_string));
    if blind > 0 {
        faults.push(format!("{} failed", format::count(blind, "step")));
    }
    if pass.summary.shortfall_bytes > 0 {
        faults.push(format!("the image disk still needs {} of free space", format::size(pass.summary.shortfall_bytes)));
    }
    faults.extend(failed_sources);
    if named_and_kept > 0 {
        faults.push(format!("{} kept", format::count(named_and_kept, "named object")));
    }
    if let Some(cause) = &pass.not_recorded {
        faults.push(format!("{cause}, so this pass is not in the history"));
    }
    let kind = cut_by.map_or(ErrorKind::Partial, ErrorKind::Interrupted);
    if faults.is_empty() { Ok(()) } else { Err(CliError::message(kind, format::list(&faults))) }
}
