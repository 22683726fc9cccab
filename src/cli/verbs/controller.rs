//! `kubegc controller`: garbage collection at cluster level.

pub(super) mod cluster_tables;
pub(super) mod collect_cluster;
pub(super) mod controller_status;
mod kubectl_args;
pub(super) mod plan_cluster;
pub(super) mod pod_tables;
pub(super) mod run_controller;
mod source;
pub(super) mod why_object;

use clap::Subcommand;

use self::kubectl_args::KubectlArgs;
use self::source::Source;
use crate::cli::args::formats;
use crate::cli::cli_error::CliError;
use crate::cli::render::output::{Format, Output};
use crate::config::{ConfigFiles, Loaded};

/// Collect the garbage of a cluster: objects whose owners are deleted
///
/// `plan` and `why` only read. `collect` deletes the garbage that exists now. `run` is the service. Credentials are from
/// --kubeconfig, $KUBECONFIG, ~/.kube/config, or the service account of the pod.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    kubectl: KubectlArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Plan(plan_cluster::Args),
    Why(why_object::Args),
    Collect(collect_cluster::Args),
    Run(run_controller::Args),
    Snapshot(SnapshotArgs),
    Status(controller_status::Args),
}

/// Print the metadata of all objects, for `plan --snapshot`
///
/// The output has names, uids, finalizers and owner references, but no labels, annotations or data.
#[derive(Debug, clap::Args)]
struct SnapshotArgs {}

// === impl Args ===

impl Args {
    /// Returns the name of the command, and its output formats.
    pub(in crate::cli) fn formats(&self) -> (&'static str, &'static [Format]) {
        match &self.command {
            Command::Plan(_) => ("controller plan", formats::LIST),
            Command::Collect(_) => ("controller collect", formats::LIST),
            Command::Why(_) => ("controller why", formats::TEXT),
            Command::Status(_) => ("controller status", formats::TEXT),
            Command::Snapshot(_) => ("controller snapshot", formats::DOCUMENT),
            Command::Run(_) => ("controller run", &[]),
        }
    }

    /// Returns whether the command is a service.
    pub fn is_service(&self) -> bool {
        matches!(self.command, Command::Run(_))
    }
}

/// Runs a command of the controller. `load` loads the settings from `files` and all other sources.
pub fn run(
    args: &Args,
    files: ConfigFiles,
    load: impl Fn() -> Result<Loaded, CliError>,
    output: &mut Output,
) -> Result<(), CliError> {
    let source = Source { loaded: &load()?, kubectl: &args.kubectl };
    match &args.command {
        Command::Plan(args) => plan_cluster::run(args, source, output),
        Command::Why(args) => why_object::run(args, source, output),
        Command::Collect(args) => collect_cluster::run(args, source, output),
        Command::Run(args) => run_controller::run(args, source, files, load),
        Command::Snapshot(SnapshotArgs {}) => snapshot(source, output),
        Command::Status(args) => controller_status::run(args, source, output),
    }
}

fn snapshot(source: Source<'_>, output: &mut Output) -> Result<(), CliError> {
    let snapshot = source::observe(source)?;
    output.document(&snapshot)?;
    source::all_listed(&snapshot.missing())
}
