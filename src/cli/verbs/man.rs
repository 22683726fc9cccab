//! `kubegc man`.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::CommandFactory;

use crate::cli::Cli;
use crate::cli::cli_error::{CliError, ErrorKind};

/// Write the man pages to a directory
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Directory, such as /usr/local/share/man/man1
    directory: PathBuf,
}

/// Writes one page for each command.
pub fn run(args: &Args) -> Result<(), CliError> {
    let write = || {
        std::fs::create_dir_all(&args.directory)?;
        clap_mangen::generate_to(Cli::command(), &args.directory)
    };
    let written = write().with_context(|| format!("cannot write man pages to {}", args.directory.display()));
    written.map_err(|error| CliError::new(ErrorKind::Usage, error))
}
