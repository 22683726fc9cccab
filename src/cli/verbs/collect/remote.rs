//! `collect` beside a running agent: the agent makes the pass, and this command shows its progress.
//!
//! The progress of each pass stands on standard error: a bar on a terminal, elsewhere a line for each removal as soon as it ends.

use std::io::{self, Write as _};

use indicatif::ProgressBar;
use tokio_util::sync::CancellationToken;

use super::Args;
use crate::cli::cli_error::{CliError, ErrorKind, warn};
use crate::cli::render::output::Format;
use crate::cli::render::{self, format};
use crate::config::Loaded;
use crate::metrics::AgentMetrics;
use crate::plan::{Outcome, Pass, Plan, Report};
use crate::record::{OUTCOMES, count_and_log_outcome};
use crate::serve::{PassRequest, ServeError, request_pass};

/// Requests the pass. `held` is the error that another agent holds the lock, for the case that it does not answer.
pub(super) async fn collect(
    args: &Args,
    saved: Option<Plan>,
    loaded: &Loaded,
    stop: &CancellationToken,
    held: CliError,
    metrics: &AgentMetrics,
    progress: &Progress,
) -> Result<Pass, CliError> {
    if loaded.has_rules_of_command_line() || args.what_if.evicts_only() {
        return Err(has_own_settings());
    }
    let request =
        PassRequest { scope: args.scope, pressure: args.what_if.pressure().is_some(), plan: saved.map(Box::new) };
    let show = |planned: usize, report: &Report| progress.advance(planned, report);
    let socket = loaded.settings.state.socket();
    let done = tokio::select! {
        done = request_pass(&socket, &request, show) => done,
        () = stop.cancelled() => return Err(interrupted()),
    };
    progress.end();
    let (is_dry, pass) = match done {
        Ok(done) => done,
        // The socket of an agent that does not serve it.
        Err(ServeError::Connect { .. }) => return Err(held),
        Err(error) => return Err(CliError::new(ErrorKind::Partial, error)),
    };
    if let Some(cause) = &pass.not_recorded {
        warn(&format!("{cause}, so this pass is not in the history"));
    }
    if is_dry {
        return Err(observes());
    }
    // The agent has logged the outcomes.
    pass.reports.iter().for_each(|report| count_and_log_outcome(report, metrics, true));
    metrics.passed(&pass);
    Ok(Pass { not_recorded: None, ..pass })
}

/// Returns the error for flags that change the rules.
pub(super) fn has_own_settings() -> CliError {
    let message = "the running agent makes the pass, with its own settings; flags for rules have no effect on it";
    CliError::message(ErrorKind::Usage, message).hint("change the configuration and reload the agent")
}

/// Returns the error of an agent that only observes. No flag of this command changes its mode.
fn observes() -> CliError {
    let message = "the running agent makes the pass, and its mode is \"observe\": nothing was removed";
    let hint = "set mode = \"collect\" in the configuration and reload the agent, or stop the agent for one collection";
    CliError::message(ErrorKind::Partial, message).hint(hint)
}

fn interrupted() -> CliError {
    let message = "interrupted; the running agent continues the pass";
    CliError::message(ErrorKind::Interrupted(crate::daemon::process::signals::Signal::Interrupt), message)
}

/// Takes exactly one line: `wide_msg` is what remains of it.
const TEMPLATE: &str = "{bar:20} {pos}/{len} {wide_msg}";
/// The characters of an object beside the bar, on a terminal with 80 columns.
const ROOM: usize = 46;

/// Shows the progress of a pass.
pub(super) struct Progress {
    bar: ProgressBar,
    /// Whether to print lines instead of the bar.
    has_lines: bool,
}

// === impl Progress ===

impl Progress {
    /// Creates the bar. It is drawn with the first action. A program that reads a document needs no lines, and a log that shows removals
    /// has them already.
    pub fn new(args: &Args, format: Option<Format>) -> Self {
        let bar = render::progress(0, TEMPLATE);
        let is_table = matches!(format, None | Some(Format::Table | Format::Wide)) && !args.quiet;
        let has_lines = bar.is_hidden() && is_table && !tracing::enabled!(target: OUTCOMES, tracing::Level::INFO);
        Self { bar, has_lines }
    }

    /// Shows that one of the planned actions ended.
    pub fn advance(&self, planned: usize, report: &Report) {
        let object = format::printable(&render::action(&report.action));
        if self.has_lines && report.outcome == (Outcome::Removed {}) {
            // If standard error is closed, the table at the end shows the outcome.
            let _ = writeln!(io::stderr(), "removed: {object}");
        }
        self.bar.set_length(planned as u64);
        self.bar.set_message(format::name(&object, ROOM));
        self.bar.inc(1);
    }

    /// Removes the bar from the terminal.
    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}
