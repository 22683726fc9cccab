//! `kubegc collect`.

use std::path::PathBuf;

use jiff::Timestamp;
use serde::Serialize;

use super::plan::ScopeArg;
use super::progress::Progress;
use super::render::{self, Paint};
use super::{CliError, ErrorKind, Format, Output, human, live, saved_plan};
use crate::config::Loaded;
use crate::daemon::{Cycle, Pass, now, signals};
use crate::execute::{Hands, Report, Stop, Summary};
use crate::plan::{Plan, PlanError, Profile};
use crate::record::{Lock, LockError, Store, StoreError};

/// Remove now what `plan` shows
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Go through everything, ask the runtime again before each removal, and remove nothing
    #[arg(long)]
    dry_run: bool,
    /// Carry out exactly this plan, but for what changed since; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "scope")]
    plan: Option<PathBuf>,
    /// What to look at
    #[arg(long, value_enum, default_value = "all")]
    scope: ScopeArg,
}

/// What came of it, for programs.
#[derive(Debug, Serialize)]
struct Collected<'a> {
    kind: &'static str,
    version: u32,
    taken_at: Timestamp,
    node: &'a str,
    profile: Profile,
    dry_run: bool,
    reports: &'a [Report],
    summary: &'a Summary,
    kept: usize,
    errors: &'a [PlanError],
}

/// Collects and prints. The first signal ends it after the action in hand.
pub fn run(args: &Args, loaded: &Loaded, output: &mut Output) -> Result<(), CliError> {
    let saved = args.plan.as_deref().map(saved_plan::read).transpose()?;
    let pass = live::block_on(async {
        let (signals, stop, _reload) = signals::listen().map_err(|error| CliError::new(ErrorKind::Internal, error))?;
        tokio::select! {
            pass = collect(args, saved, loaded, &stop) => pass,
            signal = signals.aborted() => Err(CliError::aborted(signal)),
        }
    })?;
    print(&pass, args.dry_run, output)?;
    output.flush()?;
    verdict(&pass)
}

async fn collect(args: &Args, saved: Option<Plan>, loaded: &Loaded, stop: &Stop) -> Result<Pass, CliError> {
    let settings = loaded.settings.clone();
    let path = settings.state.path.clone();
    let endpoint = live::endpoint(loaded).await?;
    let disks = live::disks(&settings);
    if args.dry_run {
        let store = live::read_store(&path)?;
        let began = store.begun_at()?.unwrap_or_else(now);
        let cycle = Cycle::dry(settings, &endpoint, disks, store, began);
        return Ok(drive(cycle, saved, args, stop).await?);
    }
    let _lock = Lock::take(&Lock::path_beside(&path), "collect")?;
    let store = Store::open(&path)?.store;
    let began = store.begun_at()?.unwrap_or_else(now);
    let cycle = Cycle::live(settings, &endpoint, disks, store, began);
    Ok(drive(cycle, saved, args, stop).await?)
}

async fn drive<H: Hands>(
    mut cycle: Cycle<H>,
    saved: Option<Plan>,
    args: &Args,
    stop: &Stop,
) -> Result<Pass, StoreError> {
    let progress = Progress::new();
    let watch = |plan: &Plan, report: &Report| progress.step(plan, report);
    match saved {
        Some(plan) => cycle.pass_saved(plan, stop, watch).await,
        None => cycle.pass(args.scope.into(), stop, watch).await,
    }
}

fn print(pass: &Pass, dry_run: bool, output: &mut Output) -> Result<(), CliError> {
    let collected = Collected {
        kind: "Collected",
        version: 1,
        taken_at: pass.plan.taken_at,
        node: &pass.plan.node,
        profile: pass.plan.profile,
        dry_run,
        reports: &pass.reports,
        summary: &pass.summary,
        kept: pass.plan.kept.len(),
        errors: &pass.plan.errors,
    };
    match output.format.unwrap_or(Format::Table) {
        Format::Json => output.json(&collected),
        Format::Yaml => output.yaml(&collected),
        format => output.text(&render::collected(pass, format == Format::Wide, Paint { on: output.color })),
    }
}

/// Failed in part is told by the exit status too: cron and scripts look at nothing else.
fn verdict(pass: &Pass) -> Result<(), CliError> {
    let (failed, left) = (pass.summary.count("failed"), pass.summary.not_begun);
    let mut faults = Vec::new();
    if failed > 0 {
        faults.push(format!("{} failed", human::count(failed, "removal")));
    }
    if left > 0 {
        faults.push(format!("{} not begun, because of the signal", human::count(left, "removal")));
    }
    if !pass.plan.errors.is_empty() {
        faults.push(format!("{} of the plan", human::count(pass.plan.errors.len(), "error")));
    }
    if faults.is_empty() { Ok(()) } else { Err(CliError::message(ErrorKind::Partial, human::list(&faults))) }
}

impl From<LockError> for CliError {
    fn from(error: LockError) -> Self {
        let held = matches!(error, LockError::Held { .. });
        let error = Self::new(ErrorKind::Internal, error);
        if held { error.hint("it does the work; `kubegc history` tells what it did") } else { error }
    }
}
