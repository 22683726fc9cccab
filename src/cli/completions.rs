//! `kubegc completions`.

use clap::CommandFactory;

use super::{Cli, CliError, Output};

/// Print shell completions
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Shell
    shell: clap_complete::Shell,
}

/// Prints the completions.
pub fn run(args: &Args, output: &mut Output) -> Result<(), CliError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "kubegc", &mut script);
    output.text(&String::from_utf8_lossy(&script))
}
