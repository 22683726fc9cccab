//! `kubegc resume`.

use crate::cli::cli_error::{CliError, ErrorKind};
use crate::cli::render::output::Output;
use crate::cli::verb::{READS_FILES, Start, Verb, VerbFacts};
use crate::daemon::{end_pause, now, suspension_of_files};
use crate::fleet::ended_by;

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
        let settings = start.load()?.settings;
        let file = settings.state.pause_file();
        let was_paused = end_pause(&file).map_err(|error| {
            CliError::message(ErrorKind::Partial, format!("cannot resume: cannot delete {}: {error}", file.display()))
        })?;
        let word = if was_paused { "resumed" } else { "not paused" };
        match suspension_of_files(&settings, now()).map(|cause| cause.to_string()) {
            None => output.text(&format!("{word}\n")),
            Some(cause) => {
                let word = if was_paused { word } else { "this node has no pause of its own" };
                output.text(&format!("{word}; still suspended: {cause}; {}\n", ended_by(&cause)))
            }
        }
    }
}
