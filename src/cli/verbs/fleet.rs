//! `kubegc fleet`, and the commands that stop and resume removals on one node.

pub(in crate::cli) mod pause;
mod pause_nodes;
pub(in crate::cli) mod resume;

use clap::Subcommand;

use crate::cli::cli_error::CliError;
use crate::cli::render::output::{Format, Output};
use crate::cli::verb::{LOOKS, Start, Verb, VerbFacts, formats_of};
use crate::cli::verbs::controller::kubectl_args::KubectlArgs;
use crate::cli::verbs::controller::source::Source;

/// Stop and resume removals on the nodes of a cluster
///
/// The commands write a NodeDiskPolicy. Agents with `fleet = ["policies"]` follow it within 2 s, without a restart, and keep what they know of
/// it while the API server cannot be reached. Credentials are from --kubeconfig, $KUBECONFIG, ~/.kube/config, or the service account of the
/// pod.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    kubectl: KubectlArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Pause(pause_nodes::PauseArgs),
    Resume(pause_nodes::ResumeArgs),
}

// === impl Args: the command ===

impl Verb for Args {
    fn facts() -> &'static [VerbFacts] {
        &[
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
        let source = Source { loaded: &loaded, kubectl: &self.kubectl };
        match &self.command {
            Command::Pause(args) => args.run(source, output),
            Command::Resume(args) => args.run(source, output),
        }
    }

    fn formats(&self) -> Option<(&'static str, &'static [Format])> {
        formats_of(
            Self::facts(),
            match &self.command {
                Command::Pause(_) => "fleet pause",
                Command::Resume(_) => "fleet resume",
            },
        )
    }
}
