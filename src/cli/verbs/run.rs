//! `kubegc run`.

use super::report::document;
use crate::cli::cli_error::CliError;
use crate::cli::input::session::block_on;
use crate::config::{ConfigFiles, Environment, Loaded, Mode};
use crate::daemon::agent;
pub(super) use crate::daemon::process::file_watch::FileWatch;
use crate::page::html;

/// Run the service until a signal stops it
///
/// It makes a pass over containers every minute and over images every five minutes.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Log removals without making them, as with mode = "observe"
    #[arg(long)]
    dry_run: bool,
}

/// Runs the service. `load` loads the settings from `files` and all other sources. `environment` has the notify socket
/// and the watchdog of the service manager.
pub fn run(
    args: &Args,
    files: ConfigFiles,
    load: impl Fn() -> Result<Loaded, CliError>,
    environment: &Environment,
) -> Result<(), CliError> {
    let files = FileWatch::new(files);
    let load = || {
        files.before_load();
        let mut loaded = load()?;
        if args.dry_run {
            loaded.settings.mode = Mode::Observe;
        }
        Ok::<_, CliError>(loaded)
    };
    let loaded = load()?;
    let page: agent::PageOf = |settings, outlook| html(&document(settings, &settings.node, outlook));
    let mut again = || load().map_err(|error| error.to_string());
    let aborted = block_on(async { Ok(agent::run(loaded, &files, &mut again, page, environment).await?) })?;
    aborted.map_or(Ok(()), |signal| Err(CliError::aborted(signal)))
}
