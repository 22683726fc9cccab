//! The shell: verbs, what they print, and how they end.
//!
//! One file a verb, each an `Args` struct whose doc comments are the help text, and one function. Nothing here is worth a
//! unit test but the way things are written: decisions are `plan`'s, and what was typed means what `config` says.

mod collect;
mod completions;
mod config;
mod documents;
mod error;
mod find;
mod global;
mod history;
mod human;
mod live;
mod logging;
mod output;
mod plan;
mod progress;
mod render;
mod run;
mod saved_plan;
mod snapshot;
mod why;
mod words;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tracing::level_filters::LevelFilter;

pub use error::{CliError, ErrorKind};
pub use global::Global;
pub use output::{Format, Output};

use crate::config::Environment;

/// A garbage collector for Kubernetes nodes: dead containers, sandboxes, logs and unused images.
///
/// `plan` says what would go and why the rest stays, and changes nothing. `collect` does it once. `run` is the service.
#[derive(Debug, Parser)]
#[command(name = "kubegc", version, max_term_width = 120, subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = "Exit status: 0 done, 1 failed in part, 2 usage or configuration, 3 runtime not reachable.")]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    #[command(flatten)]
    Node(NodeVerb),
    Config(config::Args),
    Completions(completions::Args),
}

/// Verbs about a node, which need to know what is set.
#[derive(Debug, Subcommand)]
enum NodeVerb {
    Plan(plan::Args),
    Collect(collect::Args),
    Run(run::Args),
    Why(why::Args),
    Snapshot(snapshot::Args),
    History(history::Args),
}

/// Reads the command line, does what it says, and tells how it went.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let environment = Environment::read();
    let mut output = Output::of_process(cli.global.format, &environment);
    match cli.run(&environment, &mut output).and_then(|()| output.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // What was printed before the error comes before it.
            let _ = output.flush();
            error.report(&environment)
        }
    }
}

// === impl Cli ===

impl Cli {
    fn run(&self, environment: &Environment, output: &mut Output) -> Result<(), CliError> {
        match &self.verb {
            Verb::Node(verb) => self.on_node(verb, environment, output),
            Verb::Config(args) => config::run(args, || self.global.load(environment), output),
            Verb::Completions(args) => completions::run(args, output),
        }
    }

    fn on_node(&self, verb: &NodeVerb, environment: &Environment, output: &mut Output) -> Result<(), CliError> {
        let load = || self.global.load(environment);
        let loaded = load()?;
        let quiet = if matches!(verb, NodeVerb::Run(_)) { LevelFilter::INFO } else { LevelFilter::ERROR };
        logging::begin(&self.global, quiet, loaded.settings.log_format, environment);
        match verb {
            NodeVerb::Plan(args) => plan::run(args, &loaded, output),
            NodeVerb::Collect(args) => collect::run(args, &loaded, output),
            NodeVerb::Run(args) => run::run(args, &loaded, load),
            NodeVerb::Why(args) => why::run(args, &loaded, output),
            NodeVerb::Snapshot(args) => snapshot::run(args, &loaded, output),
            NodeVerb::History(args) => history::run(args, &loaded, output),
        }
    }
}
