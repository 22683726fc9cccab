//! The command line: commands, their output and their exit status.
//!
//! Each command has one file, with an `Args` struct whose doc comments are the help text, and which is a `Verb`. Unit tests
//! here cover output formats only: decisions are in `plan`, and the meaning of flags is in `config`.

mod args;
mod cli_error;
mod document_table;
pub mod input;
mod logging;
mod render;
mod verb;
mod verbs;

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser};

pub(super) use crate::daemon::process::file_limit::raise_file_limit;

use crate::config::Environment;
use args::kubectl_args::KubectlArgs;
use verb::{Start, VerbFacts, Word, verbs};

pub use args::global::Global;
pub use cli_error::{CliError, ErrorKind};
pub use render::output::{Color, Format, Output};

/// A garbage collector for Kubernetes nodes: dead containers, sandboxes, logs and unused images.
///
/// `plan` shows what would be removed, and why. `collect` makes one GC pass. `run` is the service.
#[derive(Debug, Parser)]
#[command(name = "kubegc", version, max_term_width = 120, subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = args::help::exit_statuses())]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    verb: Verbs,
}

verbs! {
    Verbs {
        Plan(verbs::plan::Args),
        Collect(verbs::collect::Args),
        Run(verbs::run::Args),
        Why(verbs::why::Args),
        Snapshot(verbs::snapshot::Args),
        Images(verbs::images::Args),
        Disk(verbs::disk::Args),
        Logs(verbs::container_logs::Args),
        History(verbs::history::Args),
        Lab(verbs::lab::Args),
        Undo(verbs::undo::Args),
        Report(verbs::report::Args),
        Status(verbs::status::Args),
        Pause(verbs::pause::Args),
        Resume(verbs::resume::Args),
        Fleet(verbs::fleet::Args),
        Config(verbs::config::Args),
        Controller(verbs::controller::Args),
        #[cfg(feature = "sim")]
        Demo(verbs::demo::Args),
        Version(verbs::version::Args),
        Completions(verbs::completions::Args),
        Man(verbs::man::Args),
    }
}

/// Parses the command line, runs the command and reports errors.
pub fn main() -> ExitCode {
    verbs::completions::answer_shell();
    raise_file_limit();
    let mut cli = parse();
    cli.global = cli.global.with_set_before_verb(std::env::args_os());
    if let Some(file) = cli.verb.chosen().verb.config_file() {
        cli.global.config = Some(file.clone());
    }
    let environment = Environment::read();
    let color = cli.global.color;
    let (global, wide) = (&cli.global, cli.global.format == Some(Format::Wide));
    render::Screen::of_stdout(global.no_headers, global.no_trunc, environment.columns, wide).set();
    let mut output = Output::of_process(cli.global.format, color, &environment);
    match cli.run(&environment, &mut output).and_then(|()| output.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Output that was printed before the error comes first.
            let _ = output.flush();
            error.report(color.is_on(io::stderr().is_terminal(), &environment))
        }
    }
}

/// Parses the command line. The descriptions of all commands are dropped then: a service would keep them.
fn parse() -> Cli {
    let command = args::help::with_help(Cli::command(), "");
    let matches = command.clone().try_get_matches();
    let matches =
        matches.unwrap_or_else(|error| args::suggestions::with_meant(error, &command, std::env::args_os()).exit());
    Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

// === impl Cli ===

impl Cli {
    fn run(&self, environment: &Environment, output: &mut Output) -> Result<(), CliError> {
        let chosen = self.verb.chosen();
        chosen.check_format(self.global.format)?;
        let none = KubectlArgs::default();
        let (global, facts, kubectl) = (&self.global, chosen.facts, chosen.kubectl.unwrap_or(&none));
        chosen.verb.run(&Start { global, environment, facts, kubectl }, output)
    }

    /// Returns what is known of each command.
    fn facts() -> Vec<&'static VerbFacts> {
        Verbs::all()
    }
}
