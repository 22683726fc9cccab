//! `kubegc controller plan`.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use clap::ValueEnum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cluster_groups::GroupBy;
use super::object_args::ObjectArgs;
use super::source;
use super::{cluster_csv, cluster_tables as render, pod_tables as render_pods};
use crate::cli::cli_error::{CliError, ErrorKind, note};
use crate::cli::input::cluster::Source;
use crate::cli::input::one_document;
use crate::cli::input::session::block_on;
use crate::cli::render::output::{Document, Format, Output};
use crate::cli::verb::{CLUSTER_PLAN, LOOKS, Start, Verb, VerbFacts};
use crate::controller::{ObjectFilter, PodCollector};
use crate::daemon::now;
use crate::model::Identity;
use crate::owners::{ActionWord, ClusterAction, ClusterPlan, ClusterSnapshot, FindingKind, count_content, plan_under};
use crate::pod_gc::PodPlan;

const PODS: &str = "pods";

/// Show what would be deleted in a cluster, and why
///
/// kubegc lists the metadata of each resource, and reads each owner that no list has. Then it lists pods and nodes, for
/// orphaned, unscheduled and surplus terminated pods. It changes nothing.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Plan for a snapshot in a file (- for standard input)
    ///
    /// A snapshot lacks the status of pods, so that those that no kubelet finishes are not planned.
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
    /// Show the orphaned, unscheduled and surplus terminated pods, instead of objects whose owners are deleted
    #[arg(long, conflicts_with_all = ["snapshot", "fail_on", "only", "ignore"])]
    pods_only: bool,
    /// Only plan by owner references
    #[arg(long, conflicts_with = "pods_only")]
    owners_only: bool,
}

#[derive(Debug, Deserialize, JsonSchema, Serialize)]
pub(in crate::cli) struct WholePlan {
    #[serde(flatten)]
    pub(super) objects: ClusterPlan,
    /// The orphaned, unscheduled and surplus terminated pods, without those that are deleted above. `null` = they are not planned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) pods: Option<PodPlan>,
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

// === impl Args: the command ===

impl Verb for Args {
    fn facts() -> &'static VerbFacts {
        &VerbFacts {
            name: "controller plan",
            examples: &[
                ("Show what would be deleted in a cluster", "kubegc controller plan"),
                ("Fail if all owners of an object are absent", "kubegc controller plan --fail-on dangling"),
                (
                    "Show only the orphaned, unscheduled and surplus terminated pods",
                    "kubegc controller plan --pods-only",
                ),
            ],
            formats: CLUSTER_PLAN,
            statuses: &[0, 1, 2, 3, 4, 130],
            ..LOOKS
        }
    }

    fn run(&self, start: &Start<'_>, output: &mut Output) -> Result<(), CliError> {
        let loaded = start.load()?;
        let source = Source::new(&loaded, start);
        if self.pods_only {
            return pods(self, source, output);
        }
        let WholePlan { objects: plan, pods } = &whole(self, source, output)?;
        let known = self.baseline.as_deref().map(one_document::cluster_plan).transpose()?;
        let new = known.map(|known| without(plan.clone(), &known.objects));
        let new = new.as_ref().unwrap_or(plan);
        let met: Vec<_> = self.fail_on.iter().filter(|condition| condition.is_met(new)).collect();
        if met.is_empty() {
            let of_pods = pods.iter().flat_map(|pods| &pods.errors);
            return source::all_listed(&plan.errors.iter().chain(of_pods).cloned().collect::<Vec<_>>(), output.format);
        }
        let met: Vec<_> = met.into_iter().filter_map(ValueEnum::to_possible_value).collect();
        let met: Vec<_> = met.iter().map(clap::builder::PossibleValue::get_name).collect();
        // What could not be read does not make it uncertain.
        let errors =
            source::all_listed(&plan.errors, output.format).err().map(|error| format!("; {error}")).unwrap_or_default();
        let message = format!("the plan has a condition of --fail-on: {}{errors}", met.join(", "));
        Err(CliError::message(ErrorKind::Condition, message))
    }
}

fn whole(args: &Args, source: Source<'_>, output: &mut Output) -> Result<WholePlan, CliError> {
    args.check_groups(output.format)?;
    let filter = args.only.filter(source)?;
    let snapshot = match &args.snapshot {
        Some(file) => one_document::cluster_snapshot(file)?,
        None => source::observe(source, args.only.select.namespace.get())?,
    };
    let mut plan = plan_under(&snapshot, &source.settings().controller.guards);
    if !filter.is_empty() {
        keep_only(&mut plan, &filter, &snapshot);
    }
    let content = count_content(&plan, &snapshot);
    drop(snapshot);
    if let Some(labels) = args.details(output.format).filter(|_| args.snapshot.is_none()) {
        let observer =
            source::observer(Arc::new(source.patient_connection()), source, args.only.select.namespace.get());
        let shown: Vec<_> = plan.shown().collect();
        plan.details = block_on(async { Ok(observer.details(&shown, &labels).await?) })?;
    }
    let pods = args.plans_pods(&filter).then(|| pods_beside(&plan, &filter, source)).flatten();
    let whole = WholePlan { objects: plan, pods };
    let WholePlan { objects: plan, pods } = &whole;
    match (output.format, args.group_by) {
        (Some(Format::Csv), _) => output.text(&cluster_csv::csv(plan, pods.as_ref(), &args.label_columns))?,
        (_, by) => {
            // The other objects lose only a reference or a finalizer.
            let names = deleted(&plan.actions).map(render::name);
            let names = names.chain(pods.iter().flat_map(|pods| &pods.actions).map(render_pods::name));
            let paint = output.paint;
            output.list(&Document::of(&whole), names, || {
                let pods = pods.as_ref().map(|pods| render_pods::part(pods, paint)).unwrap_or_default();
                render::plan(plan, content, by, paint) + &pods
            })?;
        }
    }
    Ok(whole)
}

fn deleted(actions: &[ClusterAction]) -> impl Iterator<Item = &Identity> {
    actions.iter().filter(|action| action.action == ActionWord::Delete).map(|action| &action.object)
}

/// Plans the pods, beside a plan of objects. Without permission for all pods and nodes they are not planned.
fn pods_beside(plan: &ClusterPlan, filter: &ObjectFilter, source: Source<'_>) -> Option<PodPlan> {
    let pods = pod_plan(filter, source);
    let not_planned = |error: &CliError| {
        let cause = format!(": {error}");
        let is_shown = plan.errors.iter().any(|shown| cause.contains(shown));
        let cause = if is_shown { "" } else { &cause };
        note(&format!("orphaned, unscheduled and surplus terminated pods are not planned{cause}"));
    };
    let mut pods = pods.inspect_err(not_planned).ok()?;
    let above: HashSet<_> =
        deleted(&plan.actions).chain(deleted(&plan.predicted)).map(|pod| pod.uid.to_string()).collect();
    pods.actions.retain(|pod| !above.contains(&pod.uid));
    pods.kept.retain(|pod| !above.contains(&pod.uid));
    Some(pods)
}

impl Args {
    /// Returns whether pods are planned beside the objects.
    fn plans_pods(&self, filter: &ObjectFilter) -> bool {
        !self.owners_only && self.snapshot.is_none() && !filter.resources.leaves_out_named("", PODS)
    }

    /// Returns an error if groups are requested in a form without groups.
    fn check_groups(&self, format: Option<Format>) -> Result<(), CliError> {
        if self.group_by.is_none() || matches!(format, None | Some(Format::Table | Format::Wide)) {
            return Ok(());
        }
        let error =
            CliError::message(ErrorKind::Usage, "--group-by groups the rows of a table, and -o names another form");
        Err(error.hint("omit --group-by or -o"))
    }

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
    let (plan, paint) = (pod_plan(&args.only.filter_of_pods()?, source)?, output.paint);
    output
        .list(&Document::of(&plan), plan.actions.iter().map(render_pods::name), || render_pods::plan(&plan, paint))?;
    source::all_listed(&plan.errors, output.format)
}

fn pod_plan(filter: &ObjectFilter, source: Source<'_>) -> Result<PodPlan, CliError> {
    let connection = Arc::new(source.patient_connection());
    let collector = PodCollector::new(&connection, source.settings().pods_of_cluster(), true, now, |_| {});
    let mut collector = collector.of(filter.clone());
    block_on(async {
        let snapshot = collector.snapshot().await?;
        Ok(collector.plan(&snapshot).await)
    })
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
            Self::Dangling => plan.actions.iter().any(ClusterAction::is_by_owners),
            Self::Unresolvable => has(FindingKind::KindNotServed) || has(FindingKind::NamespacedOwner),
            Self::Stuck => has(FindingKind::BeingDeleted),
            Self::Unreadable => !plan.errors.is_empty(),
        }
    }
}
