//! `kubegc controller plan`.

use std::path::PathBuf;
use std::sync::Arc;

use clap::ValueEnum;

use super::source::{self, Source};
use super::{cluster_tables as render, pod_tables as render_pods};
use crate::cli::args::namespace::NamespaceArgs;
use crate::cli::cli_error::{CliError, ErrorKind};
use crate::cli::input::session::block_on;
use crate::cli::render::output::Output;
use crate::controller::PodCollector;
use crate::daemon::now;
use crate::owners::{ActionWord, ClusterPlan, FindingKind, plan_under};

/// Show what would be deleted because of owner references, and why
///
/// kubegc lists the metadata of each resource, and reads each owner that no list has. It changes nothing.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Plan for a snapshot in a file (- for standard input)
    #[arg(long, value_name = "FILE")]
    snapshot: Option<PathBuf>,
    #[command(flatten)]
    namespace: NamespaceArgs,
    /// Exit with status 4 if the plan has one of these
    #[arg(long, value_enum, value_delimiter = ',', value_name = "CONDITION")]
    fail_on: Vec<Condition>,
    /// Show the pods that no kubelet finishes, instead of objects whose owners are deleted
    #[arg(long, conflicts_with_all = ["snapshot", "fail_on"])]
    pods_only: bool,
}

/// What `--fail-on` looks for.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum Condition {
    /// An object whose owners are all absent
    Dangling,
    /// An owner whose kind is not served, so that the object is never collected
    Unresolvable,
    /// A deletion that waits for a finalizer or for dependents
    Stuck,
}

/// Makes a plan and prints it.
pub(super) fn run(args: &Args, source: Source<'_>, output: &mut Output) -> Result<(), CliError> {
    if args.pods_only {
        return pods(args, source, output);
    }
    let guards = source.settings().controller.guards.clone();
    let mut plan = plan_under(&source.snapshot(args.snapshot.as_ref())?, &guards);
    if let Some(namespace) = args.namespace.get() {
        keep_only(&mut plan, namespace);
    }
    // The other objects lose only a reference or a finalizer.
    let deleted = plan.actions.iter().filter(|action| action.action == ActionWord::Delete);
    let (names, paint) = (deleted.map(|action| render::name(&action.object)), output.paint);
    output.list(&plan, names, |wide| render::plan(&plan, wide, paint))?;
    source::all_listed(&plan.errors)?;
    let met: Vec<_> = args.fail_on.iter().filter(|condition| condition.is_met(&plan)).collect();
    if met.is_empty() {
        return Ok(());
    }
    let met: Vec<_> = met.into_iter().filter_map(ValueEnum::to_possible_value).collect();
    let met: Vec<_> = met.iter().map(clap::builder::PossibleValue::get_name).collect();
    Err(CliError::message(ErrorKind::Condition, format!("the plan has a condition of --fail-on: {}", met.join(", "))))
}

fn pods(args: &Args, source: Source<'_>, output: &mut Output) -> Result<(), CliError> {
    let connection = Arc::new(source.patient_connection());
    let mut collector = PodCollector::new(&connection, source.settings().pods_of_cluster(), true, now, |_| {});
    let mut plan = block_on(async {
        let snapshot = collector.snapshot().await?;
        Ok(collector.plan(&snapshot).await)
    })?;
    if let Some(namespace) = args.namespace.get() {
        plan.actions.retain(|action| action.namespace == namespace);
        plan.kept.retain(|kept| kept.namespace == namespace);
    }
    let (names, paint) = (plan.actions.iter().map(render_pods::name), output.paint);
    output.list(&plan, names, |wide| render_pods::plan(&plan, wide, paint))?;
    source::all_listed(&plan.errors)
}

fn keep_only(plan: &mut ClusterPlan, namespace: &str) {
    plan.actions.retain(|action| *action.object.namespace == *namespace);
    plan.predicted.retain(|action| *action.object.namespace == *namespace);
    plan.kept.retain(|kept| *kept.object.namespace == *namespace);
    plan.findings.retain(|finding| *finding.object.namespace == *namespace);
}

// === impl Condition ===

impl Condition {
    fn is_met(self, plan: &ClusterPlan) -> bool {
        let has = |kind| plan.findings.iter().any(|finding| finding.kind == kind);
        match self {
            Self::Dangling => plan.actions.iter().any(|action| action.action == ActionWord::Delete),
            Self::Unresolvable => has(FindingKind::KindNotServed) || has(FindingKind::NamespacedOwner),
            Self::Stuck => has(FindingKind::BeingDeleted),
        }
    }
}
