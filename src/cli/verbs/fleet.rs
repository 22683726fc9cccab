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

use clap::Subcommand;

use crate::cli::args::formats;
use crate::cli::args::kubectl_args::KubectlArgs;
use crate::cli::cli_error::{CliError, ErrorKind};
use crate::cli::input::cluster::Source;
use crate::cli::render::output::{Format, Output};
use crate::cli::verb::{LOOKS, Start, Verb, VerbFacts, formats_of};
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

#[derive(Debug, Subcommand)]
enum Command {
    Images(holders::ImagesArgs),
    Mode(mode::ModeArgs),
    Pause(pause_nodes::PauseArgs),
    Remove(remove::RemoveArgs),
    Resume(pause_nodes::ResumeArgs),
}

// === impl Args: the command ===

impl Verb for Args {
    fn facts() -> &'static [VerbFacts] {
        &[
            VerbFacts {
                name: "fleet",
                examples: &[
                    ("List the nodes, worst first", "kubegc fleet"),
                    ("List the fullest nodes of a pool first", "kubegc fleet -l pool=gpu --sort-by used"),
                    ("Show what the agent of a node shows", "kubegc fleet node-7"),
                ],
                formats: formats::LIST,
                statuses: LOOKS,
                words: &["nodes", "cluster", "top"],
            },
            VerbFacts {
                name: "fleet images",
                examples: &[
                    ("Show which nodes have an image", "kubegc fleet images registry.example.com/app:1.2"),
                    (
                        "Let the agents of a pool answer for a repository",
                        "kubegc fleet images docker.io/library/redis -l pool=gpu --wait",
                    ),
                ],
                formats: formats::LIST,
                statuses: LOOKS,
                words: &["which nodes", "inventory"],
            },
            VerbFacts {
                name: "fleet mode",
                examples: &[
                    ("Let all nodes only observe", "kubegc fleet mode observe"),
                    (
                        "Let them collect in steps of two hours",
                        "kubegc fleet mode collect --canary 5% --then 25% --every 2h",
                    ),
                    ("Print the policies of the steps", "kubegc fleet mode collect --canary 5% --then 25% --plan"),
                ],
                formats: &[],
                statuses: LOOKS,
                words: &["rollout", "canary"],
            },
            VerbFacts {
                name: "fleet remove",
                examples: &[
                    (
                        "Remove an image from all nodes, and wait for their answers",
                        "kubegc fleet remove app:1.2 --wait",
                    ),
                    ("Remove what a scanner found", "kubegc fleet remove --list report.json --name scan"),
                ],
                formats: &[],
                statuses: LOOKS,
                words: &["purge", "rmi", "prune"],
            },
            VerbFacts {
                name: "fleet pause",
                examples: &[
                    ("Stop all removals on all nodes", "kubegc fleet pause --reason incident-7"),
                    (
                        "Stop them for four hours on some nodes",
                        "kubegc fleet pause --reason rollout -l pool=gpu --until 4h --name gpu",
                    ),
                ],
                formats: &[],
                statuses: LOOKS,
                words: &[],
            },
            VerbFacts {
                name: "fleet resume",
                examples: &[("End the pause of all nodes", "kubegc fleet resume")],
                formats: &[],
                statuses: LOOKS,
                words: &[],
            },
        ]
    }

    fn run(&self, start: &Start<'_>, output: &mut Output) -> Result<(), CliError> {
        let loaded = start.load()?;
        let source = Source::new(&loaded, &self.kubectl);
        match &self.command {
            None => self.nodes.run(source, output),
            Some(Command::Images(args)) => args.run(source, output),
            Some(Command::Mode(args)) => args.run(source, output),
            Some(Command::Pause(args)) => args.run(source, output),
            Some(Command::Remove(args)) => args.run(source, output),
            Some(Command::Resume(args)) => args.run(source, output),
        }
    }

    fn formats(&self) -> Option<(&'static str, &'static [Format])> {
        if matches!(&self.command, Some(Command::Images(args)) if args.wait.is_some()) {
            return Some(("fleet images --wait", &[]));
        }
        formats_of(
            Self::facts(),
            match &self.command {
                None => "fleet",
                Some(Command::Images(_)) => "fleet images",
                Some(Command::Mode(_)) => "fleet mode",
                Some(Command::Pause(_)) => "fleet pause",
                Some(Command::Remove(_)) => "fleet remove",
                Some(Command::Resume(_)) => "fleet resume",
            },
        )
    }
}

/// Explains why the cluster cannot be read or written.
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
