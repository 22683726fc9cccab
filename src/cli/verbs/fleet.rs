//! `kubegc fleet`, and the commands that stop and resume removals on one node.

mod answers;
mod holders;
mod mode;
mod overview_page;
pub(in crate::cli) mod pause;
mod pause_nodes;
mod remove;
pub(in crate::cli) mod resume;
mod selector;
mod written_policy;

use crate::cli::args::kubectl_args::KubectlArgs;
use crate::cli::cli_error::{CliError, ErrorKind};
use crate::cli::render::tables::tables;
use crate::cli::verb::{Chosen, VerbFacts, Word, verbs};
use crate::kubernetes::KubernetesError;

/// Show the nodes of a cluster, worst first, and act on all of them
///
/// Without a command it lists the nodes by what their agents show (NodeDisk), or prints the page of one node. The commands write a
/// NodeDiskPolicy. Agents with `fleet = ["policies", "disks"]` follow it within 2 s, without a restart, and keep what they know of it while the
/// API server cannot be reached. Credentials are from --kubeconfig, $KUBECONFIG, ~/.kube/config, or the service account of the pod.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(flatten)]
    kubectl: KubectlArgs,
    #[command(flatten)]
    nodes: overview_page::NodesArgs,
    #[command(subcommand)]
    command: Option<Command>,
}

verbs! {
    Command {
        Images(holders::ImagesArgs),
        Mode(mode::ModeArgs),
        Pause(pause_nodes::PauseArgs),
        Remove(remove::RemoveArgs),
        Resume(pause_nodes::ResumeArgs),
    }
}

tables! {
    NODES: Name "NODE", "STATUS", "USED", Detail "RECLAIMABLE", Detail "SHORTFALL", Detail "HEARD", Detail "VERSION",
        Brief "WHY";
    NODES_OF_IMAGE: Name "NODE", "IMAGE", Holder "USED BY";
}

// === impl Args ===

impl Word for Args {
    fn all() -> Vec<&'static VerbFacts> {
        [overview_page::NodesArgs::all(), Command::all()].concat()
    }

    fn chosen(&self) -> Chosen<'_> {
        let chosen = self.command.as_ref().map_or_else(|| self.nodes.chosen(), Word::chosen);
        Chosen { kubectl: Some(&self.kubectl), ..chosen }
    }
}

fn explained(error: KubernetesError) -> CliError {
    let hint = match error.cause.code() {
        Some(404) => "the cluster has no NodeDiskPolicies and NodeDisks; docs/fleet.md shows how to install them",
        Some(403) => {
            "the user needs permissions for nodediskpolicies and nodedisks (kubegc.dev), and to list nodes; for images, pods"
        }
        _ => "--kubeconfig selects the credentials and the API server",
    };
    CliError::new(ErrorKind::Runtime, error).hint(hint)
}
