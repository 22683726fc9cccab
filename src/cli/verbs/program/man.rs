//! `kubegc man`.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::CommandFactory;

use crate::cli::Cli;
use crate::cli::cli_error::{CliError, ErrorKind};
use crate::cli::render::output::Output;
use crate::cli::verb::{READS_FILES, Start, Verb, VerbFacts};

/// Write the man pages to a directory
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Directory, such as /usr/local/share/man/man1
    directory: PathBuf,
}

// === impl Args: the command ===

impl Verb for Args {
    fn facts() -> &'static VerbFacts {
        &VerbFacts { name: "man", ..READS_FILES }
    }

    fn run(&self, _: &Start<'_>, _: &mut Output) -> Result<(), CliError> {
        run(self)
    }
}

/// Writes one page for each command.
fn run(args: &Args) -> Result<(), CliError> {
    let write = || {
        std::fs::create_dir_all(&args.directory)?;
        clap_mangen::generate_to(Cli::command(), &args.directory)
    };
    let written = write().with_context(|| format!("cannot write man pages to {}", args.directory.display()));
    written.map_err(|error| CliError::new(ErrorKind::Usage, error))
}
