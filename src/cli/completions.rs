//! `kubegc completions`, and the answers to a shell that completes.

use clap::{CommandFactory, ValueEnum};
use clap_complete::CompleteEnv;
use clap_complete::env::Shells;

use super::{Cli, CliError, ErrorKind, Output};

/// The variable with which a shell requests completions.
const VARIABLE: &str = "COMPLETE";

/// Print shell completions
///
/// The script calls kubegc for the candidates, so they include the objects of this node. Source it in the shell, or save it
/// where the shell finds it, as /usr/share/bash-completion/completions/kubegc.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Shell
    #[arg(value_enum)]
    shell: clap_complete::Shell,
}

/// Prints the completions.
pub fn run(args: &Args, output: &mut Output) -> Result<(), CliError> {
    let name = args.shell.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
    let unknown = || CliError::message(ErrorKind::Usage, format!("no completions for {name}"));
    let shells = Shells::builtins();
    let shell = shells.completer(&name).ok_or_else(unknown)?;
    let mut script = Vec::new();
    shell.write_registration(VARIABLE, "kubegc", "kubegc", "kubegc", &mut script)?;
    output.text(&(String::from_utf8_lossy(&script).trim_end().to_owned() + "\n"))
}

/// Answers a shell that completes a command line, and ends the process. Otherwise it does nothing.
pub(super) fn answer_shell() {
    CompleteEnv::with_factory(Cli::command).var(VARIABLE).complete();
}
