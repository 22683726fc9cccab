//! `collect` beside a running agent: the agent makes the pass, and this command shows its progress.

use tokio_util::sync::CancellationToken;

use super::Args;
use super::progress::Progress;
use crate::cli::cli_error::{CliError, ErrorKind, warn};
use crate::config::Loaded;
use crate::metrics::AgentMetrics;
use crate::plan::{Pass, Plan, Report};
use crate::record::count_and_log_outcome;
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
