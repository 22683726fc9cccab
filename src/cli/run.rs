//! `kubegc run`.

mod agent;
mod monitoring;
mod reload;
mod start;

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use self::agent::{Agent, Search};
use self::monitoring::Monitoring;
use self::reload::{Reloads, is_same_node};
use self::start::{await_lock, log_settings};
use super::CliError;
use super::session::block_on;
use crate::config::{ConfigFiles, Environment, Loaded, Mode};
use crate::daemon::file_watch::FileWatch;
use crate::daemon::notify::Notifier;
use crate::daemon::service::Requests;
use crate::daemon::signals::{self, Reload};
use crate::daemon::{now, watchdog};
use crate::serve::{Inbox, Progress};

/// Run the service until a signal stops it
///
/// It makes a pass over containers every minute and over images every five minutes.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Remove nothing: log what would be removed, as with mode = "observe"
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
        Ok(loaded)
    };
    let loaded = load()?;
    let (notifier, progress) = (Notifier::to(environment.notify_socket.as_deref()), Progress::default());
    block_on(async {
        let (signals, stop, reload) = signals::listen()?;
        let request_reload = reload.clone();
        tokio::select! {
            // The order of the branches is the signal, the message to the service manager, the service. In another
            // order a service that stops immediately sends no message.
            biased;
            signal = signals.aborted() => Err(CliError::aborted(signal)),
            () = notify_stopping(&stop, &notifier) => Ok(()),
            () = answer_watchdog(environment.watchdog, &notifier, &progress) => Ok(()),
            () = files.run(&request_reload) => Ok(()),
            served = serve(loaded, load, &stop, reload, &notifier, &progress) => served,
        }
    })
}

/// Notifies the service manager as soon as a stop is requested. Never returns.
async fn notify_stopping(stop: &CancellationToken, notifier: &Notifier) {
    stop.cancelled().await;
    notifier.stopping();
    std::future::pending::<()>().await;
}

/// Answers the watchdog of the service manager, if it has one, twice within its limit. Never returns.
async fn answer_watchdog(limit: Option<Duration>, notifier: &Notifier, progress: &Progress) {
    match limit {
        Some(limit) => watchdog::run(notifier, progress, limit / 2).await,
        None => std::future::pending().await,
    }
}

/// Runs the loops with the settings in force, and again after each reload, until `stop`.
async fn serve(
    mut loaded: Loaded,
    load: impl FnMut() -> Result<Loaded, CliError>,
    stop: &CancellationToken,
    reload: Reload,
    notifier: &Notifier,
    progress: &Progress,
) -> Result<(), CliError> {
    // Before anything that is waited for: health is served from the start.
    let monitoring = Monitoring::start(&loaded.settings, progress);
    let Some((lock, mut store)) = await_lock(&loaded.settings, stop, notifier).await? else { return Ok(()) };
    monitoring.locked();
    log_settings(&loaded);
    let requests = Requests { reload, inbox: Inbox::closed(now()), progress: progress.clone() };
    let reloads = Reloads { load, in_force: loaded.settings.clone() };
    let mut agent = Agent::new(stop, notifier, monitoring, lock, requests, reloads);
    let mut node = None;
    loop {
        let known = match node.take() {
            Some(known) => known,
            None => match agent.find_node(&loaded).await? {
                Search::Found(found) => found,
                Search::Reloaded(next) => {
                    loaded = *next;
                    continue;
                }
                Search::Stopped => break,
            },
        };
        let next;
        (store, next) = Box::pin(agent.serve(&loaded.settings, &known, store)).await;
        let Some(next) = next else { break };
        node = is_same_node(&loaded.settings, &next.settings).then_some(known);
        loaded = next;
    }
    store.close().await;
    tracing::info!("stopped");
    Ok(())
}
