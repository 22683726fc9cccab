//! The command line: commands, their output and their exit status.
//!
//! Each command has one file, with an `Args` struct whose doc comments are the help text, and one function. Unit tests
//! here cover output formats only: decisions are in `plan`, and the meaning of flags is in `config`.

mod args;
mod cli_error;
mod input;
mod logging;
mod render;
mod verbs;

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

pub(super) use crate::daemon::process::file_limit::raise_file_limit;

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
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Plan(verbs::plan::Args),
    Collect(verbs::collect::Args),
    Run(verbs::run::Args),
    Why(verbs::why::Args),
    Snapshot(verbs::snapshot::Args),
    Images(verbs::images::Args),
    Disk(verbs::disk::Args),
    History(verbs::history::Args),
    Report(verbs::report::Args),
    Status(verbs::status::Args),
    Config(verbs::config::Args),
    Controller(verbs::controller::Args),
    #[cfg(feature = "sim")]
    Demo(verbs::demo::Args),
    Version(verbs::version::Args),
    Completions(verbs::completions::Args),
    Man(verbs::man::Args),
}

/// Parses the command line, runs the command and reports errors.
pub fn main() -> ExitCode {
    verbs::completions::answer_shell();
    raise_file_limit();
    let mut cli = parse();
    cli.global = cli.global.with_set_before_verb(std::env::args_os());
    if let Verb::Config(args) = &cli.verb
        && let Some(file) = args.file()
    {
        cli.global.config = Some(file.clone());
    }
    let environment = crate::config::Environment::read();
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
    fn run(&self, environment: &crate::config::Environment, output: &mut Output) -> Result<(), CliError> {
        let begin = |loaded: crate::config::Loaded| {
            let verbose = if self.global.debug { 2 } else { self.global.verbose };
            let is_service = match &self.verb {
                Verb::Run(_) => true,
                Verb::Controller(args) => args.is_service(),
                _ => false,
            };
            let color = self.global.color.is_on(io::stderr().is_terminal(), environment);
            logging::start(&logging::Logging {
                is_service,
                verbose,
                level: self.global.log_level,
                filter: environment.log_filter.as_deref(),
                settings: (loaded.settings.log_format, loaded.settings.log_level),
                color,
                journal: environment.journal_stream.as_deref(),
            });
            let only_shows = matches!(&self.verb, Verb::Config(args) if args.only_shows());
            if is_service || only_shows { loaded } else { loaded.for_command(environment) }
        };
        let load = || self.global.load(environment).map(begin);
        args::formats::check(&self.verb, self.global.format)?;
        match &self.verb {
            Verb::Plan(args) => verbs::plan::run(args, &load()?, output),
            Verb::Collect(args) => verbs::collect::run(args, &load()?, output),
            Verb::Run(args) => verbs::run::run(args, self.global.files(environment), load, environment),
            Verb::Snapshot(args) => verbs::snapshot::run(args, &load()?, output),
            Verb::Why(args) => verbs::why::run(args, &load()?, output),
            Verb::Images(args) => verbs::images::run(args, &load()?, output),
            Verb::Disk(args) => verbs::disk::run(args, &load()?, output),
            Verb::History(args) => verbs::history::run(args, &load()?, output),
            Verb::Report(args) => verbs::report::run(args, &load()?, output),
            Verb::Status(args) => {
                let (loaded, faults) = self.global.load_in_part(environment)?;
                verbs::status::run(args, &begin(loaded), &faults, output)
            }
            Verb::Config(args) => verbs::config::run(args, load, output),
            Verb::Controller(args) => verbs::controller::run(args, self.global.files(environment), load, output),
            #[cfg(feature = "sim")]
            Verb::Demo(args) => verbs::demo::run(args, output),
            Verb::Version(args) => verbs::version::run(args, &load()?, output),
            Verb::Completions(args) => verbs::completions::run(args, output),
            Verb::Man(args) => verbs::man::run(args),
        }
    }
}
