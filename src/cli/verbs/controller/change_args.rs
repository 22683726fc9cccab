//! What the commands have in common that change objects and end: their flags, the question before, the error after.

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::object_args::ObjectArgs;
use super::source::together;
use crate::cli::cli_error::{CliError, ErrorKind, note};
use crate::cli::input::cluster::Source;
use crate::cli::input::session::block_on;
use crate::cli::render::format;
pub(super) use crate::daemon::process::signals;
use crate::kubernetes::Connection;
use crate::model::Identity;

/// What continues a command that its timeout has ended.
const AGAIN: &str = "run it again, or raise --timeout or --kube-api-qps";

#[derive(Debug, clap::Args)]
pub struct ChangeArgs {
    /// Make all checks, but change nothing
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Change at most this number of objects
    ///
    /// An owner and the dependents that lose their reference to it count as one.
    #[arg(long, value_name = "NUMBER")]
    pub(super) max: Option<usize>,
    /// Stop after this time, even if objects remain
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = humantime::parse_duration)]
    pub(super) timeout: Duration,
    #[command(flatten)]
    pub(super) only: ObjectArgs,
    /// Do not ask, on a terminal, if no flag names a context or a server
    #[arg(short, long)]
    yes: bool,
}

/// The words about a command that asks before it changes anything.
pub(super) struct Question {
    /// As `collecting`.
    pub(super) doing: &'static str,
    /// As `Delete`.
    pub(super) change: &'static str,
    /// The command that shows the changes, as `plan`.
    pub(super) shown_by: &'static str,
}

// === impl ChangeArgs ===

impl ChangeArgs {
    /// Returns whether a person is asked if this is the right cluster: a kubeconfig may have many, and its current context may
    /// be of yesterday.
    pub(super) fn asks(&self, dry_run: bool, source: Source<'_>) -> bool {
        let on_terminal = io::stdin().is_terminal() && io::stderr().is_terminal();
        on_terminal && !dry_run && !self.yes && source.kubectl.names_no_cluster()
    }

    /// Returns an error if not everything was done.
    pub(super) fn verdict<'a>(
        &self,
        interrupted: bool,
        failures: impl Iterator<Item = (&'a Identity, &'a str)>,
        errors: &[String],
    ) -> Result<(), CliError> {
        let mut faults = Vec::new();
        if interrupted {
            faults.push(format!(
                "stopped before all objects were done, by a signal or after {}",
                humantime::format_duration(self.timeout)
            ));
        }
        let failures: Vec<_> = failures.collect();
        if let [(object, cause), others @ ..] = failures.as_slice() {
            let others = if others.is_empty() {
                String::new()
            } else {
                format!(", and {} more", format::count(others.len(), "object"))
            };
            faults.push(format!("{object}: {cause}{others}"));
        }
        faults.extend(together(errors));
        match faults.as_slice() {
            [] => Ok(()),
            faults => {
                let error = CliError::message(ErrorKind::Partial, faults.join("; "));
                Err(if interrupted { error.hint(AGAIN) } else { error })
            }
        }
    }
}

// === impl Question ===

impl Question {
    /// Names the cluster, asks if it is the right one, and returns it.
    pub(super) async fn confirm(
        &self,
        connection: &Connection,
        asks: bool,
        stop: &CancellationToken,
    ) -> Result<String, CliError> {
        let cluster = connection.cluster().await;
        if asks && !self.confirmed(&cluster, stop).await {
            let error = CliError::message(ErrorKind::Partial, "aborted: not confirmed");
            return Err(error.hint("--context names the cluster"));
        }
        if !asks && !cluster.is_empty() {
            note(&format!("{} in {cluster}", self.doing));
        }
        Ok(cluster)
    }

    async fn confirmed(&self, cluster: &str, stop: &CancellationToken) -> bool {
        let Self { change, shown_by, .. } = self;
        eprint!("{change} in {} what `kubegc controller {shown_by}` shows? [y/N] ", format::printable(cluster));
        let (sender, answer) = oneshot::channel();
        // A thread of its own: the runtime would wait for an answer even after a signal.
        std::thread::spawn(move || sender.send(io::stdin().lines().next()));
        tokio::select! {
            answer = answer => {
                matches!(answer, Ok(Some(Ok(line))) if ["y", "yes"].contains(&&*line.trim().to_lowercase()))
            }
            () = stop.cancelled() => false,
        }
    }
}

/// Runs a command. The first signal ends it in order, the second at once.
pub(super) fn until_aborted<T>(
    command: impl AsyncFnOnce(CancellationToken) -> Result<T, CliError>,
) -> Result<T, CliError> {
    block_on(async {
        let (signals, stop, _) = signals::listen()?;
        tokio::select! {
            report = command(stop) => report,
            signal = signals.aborted() => Err(CliError::aborted(signal)),
        }
    })
}
