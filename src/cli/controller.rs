//! `kubegc controller`: garbage collection at cluster level. So far it only reads.

mod plan;
mod render;
mod render_pods;
mod source;
mod why;

use clap::Subcommand;

use super::{CliError, Format, Output};
use crate::config::Loaded;

/// Show which objects of a cluster are garbage-collected, and why (read-only)
///
/// Reads the owner references of all objects. The credentials are those of --kubeconfig, $KUBECONFIG, or the pod's
/// service account.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Plan(plan::Args),
    Why(why::Args),
    Snapshot(SnapshotArgs),
}

/// Print the metadata that decide, for `plan --snapshot`
///
/// It has names, uids, finalizers and owner references of all objects, and no labels, annotations or data.
#[derive(Debug, clap::Args)]
struct SnapshotArgs {}

/// Runs a command of the controller.
pub fn run(args: &Args, loaded: &Loaded, output: &mut Output) -> Result<(), CliError> {
    match &args.command {
        Command::Plan(args) => plan::run(args, loaded, output),
        Command::Why(args) => why::run(args, loaded, output),
        Command::Snapshot(SnapshotArgs {}) => snapshot(loaded, output),
    }
}

fn snapshot(loaded: &Loaded, output: &mut Output) -> Result<(), CliError> {
    let snapshot = source::observe(loaded)?;
    match output.format {
        Some(Format::Yaml) => output.yaml(&snapshot)?,
        _ => output.json(&snapshot)?,
    }
    source::all_listed(&snapshot.missing())
}
