//! `kubegc snapshot`.

use super::{CliError, Format, Output, live};
use crate::config::Loaded;

/// Print all that a plan depends on: one JSON document, which `plan --snapshot` reads
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Looks and prints.
pub fn run(Args {}: &Args, loaded: &Loaded, output: &mut Output) -> Result<(), CliError> {
    let snapshot = live::block_on(live::snapshot(loaded))?;
    match output.format {
        Some(Format::Yaml) => output.yaml(&snapshot),
        _ => output.json(&snapshot),
    }
}
