//! `kubegc controller`: garbage collection at cluster level.

mod change_args;
mod cluster_csv;
mod cluster_groups;
pub(super) mod cluster_tables;
pub(super) mod collect_cluster;
pub(super) mod controller_status;
pub(super) mod history_of_cluster;
mod object_args;
pub(in crate::cli) mod plan_cluster;
pub(super) mod pod_tables;
pub(super) mod relink_cluster;
pub(super) mod run_controller;
mod source;
pub(in crate::cli) mod why_object;

use crate::cli::args::kubectl_args::KubectlArgs;
use crate::cli::cli_error::CliError;
use crate::cli::input::cluster::Source;
use crate::cli::render::output::{Document, Format, Output};
use crate::cli::render::tables::tables;
use crate::cli::verb::{Chosen, DOCUMENT, LOOKS, Start, Verb, VerbFacts, Word, verbs};

/// Collect the garbage of a cluster: objects whose owners are deleted
///
/// `plan` and `why` only read. `collect` deletes the garbage that exists now. `relink` corrects owner references after a
/// restore. `run` is the service. Credentials are from
/// --kubeconfig, $KUBECONFIG, ~/.kube/config, or the service account of the pod.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    kubectl: KubectlArgs,
    #[command(subcommand)]
    command: Command,
}

verbs! {
    Command {
        Plan(plan_cluster::Args),
        Why(why_object::Args),
        Collect(collect_cluster::Args),
        Relink(relink_cluster::Args),
        Run(run_controller::Args),
        Snapshot(SnapshotArgs),
        History(history_of_cluster::Args),
        Status(controller_status::Args),
    }
}

tables! {
    ACTIONS: Brief "ACTION", Holder "KIND", Holder "NAMESPACE", Name "NAME", Detail "AGE", Detail "CHANGED BY",
        Detail "LABELS", Reason "WHY";
    FINDINGS: Brief "FINDING", Holder "KIND", Holder "NAMESPACE", Name "NAME", Detail "AGE", Detail "CHANGED BY",
        Detail "LABELS", Reason "DETAIL";
    GROUPS: Brief "ACTION", Brief "FINDING", "OBJECTS", Holder "KIND", Name "NAMESPACE", Reason "WHY";
    CHANGES: Brief "ACTION", Holder "KIND", Holder "NAMESPACE", Name "NAME", "RESULT", Reason "WHY";
    WAITING: Holder "KIND", Holder "NAMESPACE", Name "NAME", Reason "WAITS FOR";
    RELINKED: Holder "KIND", Holder "NAMESPACE", Name "NAME", Holder "OWNER", Id "OLD UID", Id "NEW UID", "RESULT";
    DELETIONS: Time "TIME", Detail "COMMAND", Detail "CLUSTER" wide, Brief "ACTION", Holder "KIND",
        Holder "NAMESPACE", Name "NAME", Detail "RESULT", Reason "WHY";
    PODS: Brief "ACTION", Holder "NAMESPACE", Name "NAME", Holder "NODE", Reason "WHY";
    KEPT_PODS: Holder "NAMESPACE", Name "NAME", Holder "NODE", Reason "WHY";
    DELETED_PODS: Holder "NAMESPACE", Name "NAME", Holder "NODE", "RESULT", Reason "WHY";
}

/// Print the metadata of all objects, for `plan --snapshot`
///
/// The output has names, uids, finalizers and owner references, but no labels, annotations or data.
#[derive(Debug, clap::Args)]
struct SnapshotArgs {}

// === impl Args ===

impl Word for Args {
    fn all() -> Vec<&'static VerbFacts> {
        Command::all()
    }

    fn chosen(&self) -> Chosen<'_> {
        Chosen { kubectl: Some(&self.kubectl), ..self.command.chosen() }
    }
}

// === impl SnapshotArgs: the command ===

impl Verb for SnapshotArgs {
    fn facts() -> &'static VerbFacts {
        &VerbFacts {
            name: "controller snapshot",
            examples: &[("Save the metadata of a cluster", "kubegc controller snapshot > cluster.json")],
            formats: DOCUMENT,
            ..LOOKS
        }
    }

    fn run(&self, start: &Start<'_>, output: &mut Output) -> Result<(), CliError> {
        let snapshot = source::observe(Source::new(&start.load()?, start), None)?;
        output.document(&Document::of(&snapshot))?;
        source::all_listed(&snapshot.missing(), Some(Format::Json))
    }
}
