//! `kubegc run`.

use super::report::document;
use crate::cli::cli_error::CliError;
use crate::cli::input::session::block_on;
use crate::cli::render::output::Output;
use crate::cli::verb::{READS_FILES, Start, Verb, VerbFacts};
use crate::config::Mode;
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

// === impl Args: the command ===

impl Verb for Args {
    fn facts() -> &'static VerbFacts {
        &VerbFacts {
            name: "run",
            examples: &[
                ("Run the agent with the settings of a file", "kubegc run --config /etc/kubegc/kubegc.toml"),
                ("Log what it would remove, without removing it", "kubegc run --mode observe"),
            ],
            statuses: &[0, 1, 2, 5, 130],
            words: &["start", "serve", "agent", "daemon"],
            is_service: true,
            ..READS_FILES
        }
    }

    fn run(&self, start: &Start<'_>, _: &mut Output) -> Result<(), CliError> {
        run(self, start)
    }
}

/// Runs the service. The environment has the notify socket and the watchdog of the service manager.
fn run(args: &Args, start: &Start<'_>) -> Result<(), CliError> {
    let (files, environment) = (start.files(), start.environment);
    let files = FileWatch::new(files);
    let load = || {
        files.before_load();
        let mut loaded = start.load()?;
        if args.dry_run {
            loaded.settings.mode = Mode::Observe;
        }
        Ok::<_, CliError>(loaded)
    };
    let loaded = load()?;
    let page: agent::PageOf = |settings, outlook| html(&document(settings, &settings.node, outlook));
    let mut again = || load().map_err(|error| error.to_string());
    let aborted = block_on(async { Ok(Box::pin(agent::run(loaded, &files, &mut again, page, environment)).await?) })?;
    aborted.map_or(Ok(()), |signal| Err(CliError::aborted(signal)))
}
