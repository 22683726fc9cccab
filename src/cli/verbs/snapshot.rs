//! `kubegc snapshot`.

use crate::cli::args::formats;
use crate::cli::cli_error::CliError;
use crate::cli::input::session::{self, all_seen, block_on};
use crate::cli::render::output::Output;
use crate::cli::verb::{LOOKS, Start, Verb, VerbFacts};
use crate::config::Loaded;

/// Print the observed state of this node, for `plan --snapshot`
#[derive(Debug, clap::Args)]
pub struct Args {}

// === impl Args: the command ===

impl Verb for Args {
    fn facts() -> &'static [VerbFacts] {
        &[VerbFacts {
            name: "snapshot",
            examples: &[(
                "Save the state of this node, for `plan --snapshot` elsewhere",
                "kubegc snapshot > node.json",
            )],
            formats: formats::DOCUMENT,
            statuses: LOOKS,
            words: &[],
        }]
    }

    fn run(&self, start: &Start<'_>, output: &mut Output) -> Result<(), CliError> {
        run(self, &start.load()?, output)
    }
}

/// Takes a snapshot and prints it.
fn run(Args {}: &Args, loaded: &Loaded, output: &mut Output) -> Result<(), CliError> {
    let (snapshot, plan) = block_on(session::snapshot(loaded))?;
    output.document(&snapshot)?;
    all_seen(&plan)
}
