//! `kubegc controller plan`.

use std::collections::{BTreeSet, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use clap::ValueEnum;

use super::source::{self, Source};
use super::{cluster_tables as render, pod_tables as render_pods};
use crate::cli::args::namespace::NamespaceArgs;
use crate::cli::cli_error::{CliError, ErrorKind};
use crate::cli::input::one_document;
use crate::cli::input::session::block_on;
use crate::cli::render::output::Output;
use crate::controller::PodCollector;
use crate::daemon::now;
use crate::model::Identity;
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
    /// Do not fail for what an earlier plan has, the output of -o json (- for standard input)
    ///
    /// Its deletions and findings are known by the kind, the namespace and the name of their objects.
    #[arg(long, value_name = "FILE", requires = "fail_on")]
    baseline: Option<PathBuf>,
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
    /// A list or an owner that cannot be read
    Unreadable,
}

/// Makes a plan and prints it.
pub(super) fn run(args: &Args, source: Source<'_>, output: &mut Output) -> Result<(), CliError> {
    if args.pods_only {
        return pods(args, source, output);
    }
    let guards = source.settings().controller.guards.clone();
    let namespace = args.namespace.get();
    let mut plan = plan_under(&source.snapshot(args.snapshot.as_ref(), namespace)?, &guards);
    if let Some(namespace) = namespace {
        keep_only(&mut plan, namespace);
    }
    // The other objects lose only a reference or a finalizer.
    let deleted = plan.actions.iter().filter(|action| action.action == ActionWord::Delete);
    let (names, paint) = (deleted.map(|action| render::name(&action.object)), output.paint);
    output.list(&plan, names, |wide| render::plan(&plan, wide, paint))?;
    let known = args.baseline.as_deref().map(one_document::cluster_plan).transpose()?;
    let new = known.map(|known| without(plan.clone(), &known));
    let new = new.as_ref().unwrap_or(&plan);
    let met: Vec<_> = args.fail_on.iter().filter(|condition| condition.is_met(new)).collect();
    if met.is_empty() {
        return source::all_listed(&plan.errors);
    }
    let met: Vec<_> = met.into_iter().filter_map(ValueEnum::to_possible_value).collect();
    let met: Vec<_> = met.iter().map(clap::builder::PossibleValue::get_name).collect();
    // What could not be read does not make it uncertain.
    let errors = source::all_listed(&plan.errors).err().map(|error| format!("; {error}")).unwrap_or_default();
    let message = format!("the plan has a condition of --fail-on: {}{errors}", met.join(", "));
    Err(CliError::message(ErrorKind::Condition, message))
}

/// Returns a plan without the deletions and the findings that another one has.
fn without(mut plan: ClusterPlan, known: &ClusterPlan) -> ClusterPlan {
    let name = |object: &Identity| (object.kind.kind.clone(), object.namespace.clone(), object.name.clone());
    let deleted: HashSet<_> = known.actions.iter().map(|action| name(&action.object)).collect();
    plan.actions.retain(|action| !deleted.contains(&name(&action.object)));
    let found: BTreeSet<_> = known.findings.iter().map(|finding| (finding.kind, name(&finding.object))).collect();
    plan.findings.retain(|finding| !found.contains(&(finding.kind, name(&finding.object))));
    plan.errors.retain(|error| !known.errors.contains(error));
    plan
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
            Self::Unreadable => !plan.errors.is_empty(),
        }
    }
}
