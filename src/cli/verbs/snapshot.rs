//! `kubegc snapshot`.

use crate::cli::cli_error::CliError;
use crate::cli::input::session::{self, all_seen, block_on};
use crate::cli::render::output::Output;
use crate::config::Loaded;

/// Print the observed state of this node, for `plan --snapshot`
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Takes a snapshot and prints it.
pub fn run(Args {}: &Args, loaded: &Loaded, output: &mut Output) -> Result<(), CliError> {
    let (snapshot, plan) = block_on(session::snapshot(loaded))?;
    output.document(&snapshot)?;
    all_seen(&plan)
}
