//! `kubegc resume`.

use crate::cli::cli_error::{CliError, ErrorKind};
use crate::cli::render::output::Output;
use crate::cli::verb::{READS_FILES, Start, Verb, VerbFacts};
use crate::daemon::end_pause;

/// End the pause of this node
#[derive(Debug, clap::Args)]
pub struct Args {}

// === impl Args: the command ===

impl Verb for Args {
    fn facts() -> &'static VerbFacts {
        &VerbFacts {
            name: "resume",
            examples: &[("End the pause", "kubegc resume")],
            words: &["unpause", "continue", "uncordon", "start"],
            ..READS_FILES
        }
    }

    fn run(&self, start: &Start<'_>, output: &mut Output) -> Result<(), CliError> {
        let file = start.load()?.settings.state.pause_file();
        let was_paused = end_pause(&file).map_err(|error| {
            CliError::message(ErrorKind::Partial, format!("cannot resume: cannot delete {}: {error}", file.display()))
        })?;
        output.text(if was_paused { "resumed\n" } else { "not paused\n" })
    }
}
