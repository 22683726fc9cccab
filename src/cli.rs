//! The command line: commands, their output and their exit status.
//!
//! Each command has one file, with an `Args` struct whose doc comments are the help text, and which is a `Verb`. Unit tests
//! here cover output formats only: decisions are in `plan`, and the meaning of flags is in `config`.

mod args;
mod cli_error;
mod document_table;
mod input;
mod logging;
mod render;
mod verb;
mod verbs;

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

pub(super) use crate::daemon::process::file_limit::raise_file_limit;

use crate::config::Environment;
use verb::{Start, Verb, VerbFacts};

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

/// Declares the commands.
macro_rules! verbs {
    ($($(#[$attribute:meta])* $name:ident($module:ident)),* $(,)?) => {
        #[derive(Debug, Subcommand)]
        enum Verbs {
            $($(#[$attribute])* $name(verbs::$module::Args)),*
        }

        impl Verbs {
            fn verb(&self) -> (&dyn Verb, &'static [VerbFacts]) {
                match self {
                    $($(#[$attribute])* Self::$name(args) => (args, verbs::$module::Args::facts())),*
                }
            }

            fn facts() -> Vec<&'static VerbFacts> {
                let all: &[&'static [VerbFacts]] = &[$($(#[$attribute])* verbs::$module::Args::facts()),*];
                all.iter().copied().flatten().collect()
            }
        }
    };
}

verbs! {
    Plan(plan),
    Collect(collect),
    Run(run),
    Why(why),
    Snapshot(snapshot),
    Images(images),
    Disk(disk),
    Logs(container_logs),
    History(history),
    Lab(lab),
    Undo(undo),
    Report(report),
    Status(status),
    Pause(pause),
    Resume(resume),
    Fleet(fleet),
    Config(config),
    Controller(controller),
    #[cfg(feature = "sim")]
    Demo(demo),
    Version(version),
    Completions(completions),
    Man(man),
}

/// Parses the command line, runs the command and reports errors.
pub fn main() -> ExitCode {
    verbs::completions::answer_shell();
    raise_file_limit();
    let mut cli = parse();
    cli.global = cli.global.with_set_before_verb(std::env::args_os());
    if let Some(file) = cli.verb.verb().0.config_file() {
        cli.global.config = Some(file.clone());
    }
    let environment = Environment::read();
    let color = cli.global.color;
    render::Screen::set(cli.global.no_headers, cli.global.no_trunc, environment.columns);
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
        let (verb, facts) = self.verb.verb();
        args::formats::check(verb, facts, self.global.format)?;
        verb.run(&Start { global: &self.global, environment, verb }, output)
    }

    /// Returns what is known of each command.
    fn facts() -> Vec<&'static VerbFacts> {
        Verbs::facts()
    }
}
