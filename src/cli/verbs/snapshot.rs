//! `kubegc snapshot`.

use crate::cli::cli_error::CliError;
use crate::cli::input::session::{self, all_seen, block_on};
use crate::cli::render::output::{Document, Output};
use crate::cli::verb::{DOCUMENT, LOOKS, Start, Verb, VerbFacts};

/// Print the observed state of this node, for `plan --snapshot`
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Add what happened to the images in the last 30 days, for `lab --snapshot`
    #[arg(long)]
    trace: bool,
}

// === impl Args: the command ===

impl Verb for Args {
    fn facts() -> &'static VerbFacts {
        &VerbFacts {
            name: "snapshot",
            examples: &[
                ("Save the state of this node, for `plan --snapshot` elsewhere", "kubegc snapshot > node.json"),
                ("Save what happened to its images too, for `lab --snapshot`", "kubegc snapshot --trace > node.json"),
            ],
            formats: DOCUMENT,
            ..LOOKS
        }
    }

    fn run(&self, start: &Start<'_>, output: &mut Output) -> Result<(), CliError> {
        let loaded = &start.load()?;
        let (mut snapshot, plan) = block_on(session::snapshot(loaded))?;
        if self.trace {
            snapshot.trace = Some(session::trace(&loaded.settings)?.0);
        }
        output.document(&Document::of(&snapshot))?;
        all_seen(&plan)
    }
}
