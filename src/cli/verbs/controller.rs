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

use clap::Subcommand;

use crate::cli::args::formats;
use crate::cli::args::kubectl_args::KubectlArgs;
use crate::cli::cli_error::CliError;
use crate::cli::input::cluster::Source;
use crate::cli::render::output::{Document, Format, Output};
use crate::cli::verb::{LOOKS, READS_FILES, Start, Verb, VerbFacts, formats_of};

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

#[derive(Debug, Subcommand)]
enum Command {
    Plan(Box<plan_cluster::Args>),
    Why(why_object::Args),
    Collect(Box<collect_cluster::Args>),
    Relink(relink_cluster::Args),
    Run(run_controller::Args),
    Snapshot(SnapshotArgs),
    History(history_of_cluster::Args),
    Status(controller_status::Args),
}

/// Print the metadata of all objects, for `plan --snapshot`
///
/// The output has names, uids, finalizers and owner references, but no labels, annotations or data.
#[derive(Debug, clap::Args)]
struct SnapshotArgs {}

// === impl Args: the command ===

impl Verb for Args {
    fn facts() -> &'static [VerbFacts] {
        &[
            VerbFacts {
                name: "controller plan",
                examples: &[
                    ("Show what would be deleted in a cluster", "kubegc controller plan"),
                    ("Fail if all owners of an object are absent", "kubegc controller plan --fail-on dangling"),
                    (
                        "Show only the orphaned, unscheduled and surplus terminated pods",
                        "kubegc controller plan --pods-only",
                    ),
                ],
                formats: formats::CLUSTER_PLAN,
                statuses: &[0, 1, 2, 3, 4, 130],
                words: &[],
            },
            VerbFacts {
                name: "controller why",
                examples: &[
                    ("Explain an object", "kubegc controller why deployment/web -n shop"),
                    (
                        "Show what would follow from its deletion",
                        "kubegc controller why deployment/web --if-deleted foreground",
                    ),
                ],
                formats: formats::TEXT,
                statuses: LOOKS,
                words: &[],
            },
            VerbFacts {
                name: "controller collect",
                examples: &[
                    ("Make all checks, but change nothing", "kubegc controller collect --dry-run"),
                    ("Delete at most 100 objects", "kubegc controller collect --max 100"),
                ],
                formats: formats::LIST,
                statuses: LOOKS,
                words: &[],
            },
            VerbFacts {
                name: "controller relink",
                examples: &[
                    ("Show what would be changed after a restore", "kubegc controller relink -n shop --dry-run"),
                    ("Change at most 100 objects", "kubegc controller relink -n shop --max 100"),
                ],
                formats: formats::LIST,
                statuses: LOOKS,
                words: &[],
            },
            VerbFacts {
                name: "controller run",
                examples: &[("Run the controller", "kubegc controller run --kubeconfig admin.conf")],
                formats: &[],
                statuses: LOOKS,
                words: &[],
            },
            VerbFacts {
                name: "controller snapshot",
                examples: &[("Save the metadata of a cluster", "kubegc controller snapshot > cluster.json")],
                formats: formats::DOCUMENT,
                statuses: LOOKS,
                words: &[],
            },
            VerbFacts {
                name: "controller history",
                examples: &[(
                    "Show what was deleted last",
                    "kubegc controller history --controller-history /var/lib/kubegc/controller.jsonl",
                )],
                formats: formats::LIST,
                statuses: READS_FILES,
                words: &[],
            },
            VerbFacts {
                name: "controller status",
                examples: &[("Show which process collects", "kubegc controller status")],
                formats: formats::TEXT,
                statuses: LOOKS,
                words: &[],
            },
        ]
    }

    fn formats(&self) -> Option<(&'static str, &'static [Format])> {
        let name = match &self.command {
            Command::Plan(_) => "controller plan",
            Command::Collect(_) => "controller collect",
            Command::Relink(_) => "controller relink",
            Command::Why(_) => "controller why",
            Command::Status(_) => "controller status",
            Command::Snapshot(_) => "controller snapshot",
            Command::History(_) => "controller history",
            Command::Run(_) => "controller run",
        };
        formats_of(Self::facts(), name)
    }

    fn run(&self, start: &Start<'_>, output: &mut Output) -> Result<(), CliError> {
        run(self, start, output)
    }

    fn is_service(&self) -> bool {
        matches!(self.command, Command::Run(_))
    }
}

/// Runs a command of the controller.
fn run(args: &Args, start: &Start<'_>, output: &mut Output) -> Result<(), CliError> {
    let loaded = start.load()?;
    let source = Source::new(&loaded, &args.kubectl);
    match &args.command {
        Command::Plan(args) => plan_cluster::run(args, source, output),
        Command::Why(args) => why_object::run(args, source, output),
        Command::Collect(args) => collect_cluster::run(args, source, output),
        Command::Relink(args) => relink_cluster::run(args, source, output),
        Command::Run(args) => run_controller::run(args, source, start.files(), || start.load()),
        Command::Snapshot(SnapshotArgs {}) => snapshot(source, output),
        Command::History(args) => history_of_cluster::run(args, source, output),
        Command::Status(args) => controller_status::run(args, source, output),
    }
}

fn snapshot(source: Source<'_>, output: &mut Output) -> Result<(), CliError> {
    let snapshot = source::observe(source, None, None)?;
    output.document(&Document::of(&snapshot))?;
    source::all_listed(&snapshot.missing())
}
