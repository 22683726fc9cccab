//! `kubegc snapshot`.

use super::session::{self, all_seen, block_on};
use super::{CliError, Format, Output};
use crate::config::Loaded;

/// Print all that is known of this node at this moment, for `plan --snapshot` and for bug reports
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Looks and prints.
pub fn run(Args {}: &Args, loaded: &Loaded, output: &mut Output) -> Result<(), CliError> {
    let (snapshot, plan) = block_on(session::snapshot(loaded))?;
    match output.format {
        Some(Format::Yaml) => output.yaml(&snapshot)?,
        _ => output.json(&snapshot)?,
    }
    all_seen(&plan)
}
