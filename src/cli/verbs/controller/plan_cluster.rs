//! `kubegc controller plan`.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use clap::ValueEnum;

use super::cluster_groups::GroupBy;
use super::object_args::ObjectArgs;
use super::source::{self, Source};
use super::{cluster_csv, cluster_tables as render, pod_tables as render_pods};
use crate::cli::cli_error::{CliError, ErrorKind};
use crate::cli::input::one_document;
use crate::cli::input::session::block_on;
use crate::cli::render::output::{Format, Output};
use crate::controller::{ObjectFilter, PodCollector};
use crate::daemon::now;
use crate::model::Identity;
use crate::owners::{ActionWord, ClusterPlan, ClusterSnapshot, FindingKind, count_content, plan_under};

/// Show what would be deleted because of owner references, and why
///
/// kubegc lists the metadata of each resource, and reads each owner that no list has. It changes nothing.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Plan for a snapshot in a file (- for standard input)
    #[arg(long, value_name = "FILE", conflicts_with = "selector")]
    snapshot: Option<PathBuf>,
    #[command(flatten)]
    only: ObjectArgs,
    /// Show groups of objects in the table, not single ones
    #[arg(long, value_enum, value_name = "WHAT")]
    group_by: Option<GroupBy>,
    /// Show the values of these labels
    ///
    /// As -o wide and -o csv, this also shows when an object was created, and which client changed it last.
    #[arg(short = 'L', long, value_delimiter = ',', value_name = "LABEL", conflicts_with = "snapshot")]
    label_columns: Vec<String>,
    /// Exit with status 4 if the plan has one of these
    #[arg(long, value_enum, value_delimiter = ',', value_name = "CONDITION")]
    fail_on: Vec<Condition>,
    /// Do not fail for what an earlier plan has, the output of -o json (- for standard input)
    ///
    /// Its deletions and findings are known by the kind, the namespace and the name of their objects.
    #[arg(long, value_name = "FILE", requires = "fail_on")]
    baseline: Option<PathBuf>,
    /// Show the pods that no kubelet finishes, instead of objects whose owners are deleted
    #[arg(long, conflicts_with_all = ["snapshot", "fail_on", "selector", "only", "ignore", "plan"])]
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
    let filter = args.only.filter(source)?;
    let snapshot = match &args.snapshot {
        Some(file) => one_document::cluster_snapshot(file)?,
        None => source::observe(source, args.only.namespace.get(), args.details(output.format))?,
    };
    let mut plan = plan_under(&snapshot, &guards);
    if !filter.is_empty() {
        keep_only(&mut plan, &filter, &snapshot);
    }
    let content = count_content(&plan, &snapshot);
    // The other objects lose only a reference or a finalizer.
    let deleted = plan.actions.iter().filter(|action| action.action == ActionWord::Delete);
    let (names, paint) = (deleted.map(|action| render::name(&action.object)), output.paint);
    match (output.format, args.group_by) {
        (Some(Format::Csv), _) => output.text(&cluster_csv::csv(&plan, &args.label_columns))?,
        (_, by) => output.list(&plan, names, |wide| render::plan(&plan, content, wide, by, paint))?,
    }
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

impl Args {
    /// Returns the labels that are shown; `None` = no details are.
    fn details(&self, format: Option<Format>) -> Option<Vec<String>> {
        let are_shown = !self.label_columns.is_empty() || matches!(format, Some(Format::Wide | Format::Csv));
        are_shown.then(|| self.label_columns.clone())
    }
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
    if let Some(namespace) = args.only.namespace.get() {
        plan.actions.retain(|action| action.namespace == namespace);
        plan.kept.retain(|kept| kept.namespace == namespace);
    }
    let (names, paint) = (plan.actions.iter().map(render_pods::name), output.paint);
    output.list(&plan, names, |wide| render_pods::plan(&plan, wide, paint))?;
    source::all_listed(&plan.errors)
}

fn keep_only(plan: &mut ClusterPlan, filter: &ObjectFilter, snapshot: &ClusterSnapshot) {
    let resources: HashMap<_, _> = snapshot.served.iter().map(|served| (&served.kind, &*served.resource)).collect();
    let selects = |object: &Identity| {
        let resource = resources.get(&object.kind).copied().unwrap_or_default();
        filter.leaves_out_named(object.kind.group(), resource, object).is_none()
    };
    plan.actions.retain(|action| selects(&action.object));
    plan.predicted.retain(|action| selects(&action.object));
    plan.kept.retain(|kept| selects(&kept.object));
    plan.findings.retain(|finding| selects(&finding.object));
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
