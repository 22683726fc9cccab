//! `kubegc run`.

use std::time::Duration;

use super::live::{block_on, lock_and_open, node};
use super::{CliError, ErrorKind, Output};
use crate::config::Loaded;
use crate::daemon::node::Node;
use crate::daemon::service::{self, PATIENCE};
use crate::daemon::signals::{self, Reload};
use crate::daemon::{Cycle, now};
use crate::execute::Stop;
use crate::plan::Policy;

/// Run the service: containers every minute, images every five, until a signal ends it
#[derive(Debug, clap::Args)]
pub struct Args {}

/// The shortest and the longest wait for a runtime that is not there when the service starts.
const WAITS: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(3)];

/// Serves.
pub fn run(
    Args {}: &Args,
    loaded: Loaded,
    reload: impl FnMut() -> Result<Loaded, CliError>,
    _: &mut Output,
) -> Result<(), CliError> {
    block_on(async {
        let (signals, stop, reloads) = signals::listen()?;
        tokio::select! {
            served = serve(loaded, reload, &stop, reloads) => served,
            signal = signals.aborted() => Err(CliError::aborted(signal)),
        }
    })
}

async fn serve(
    loaded: Loaded,
    mut reload: impl FnMut() -> Result<Loaded, CliError>,
    stop: &Stop,
    reloads: Reload,
) -> Result<(), CliError> {
    let mut settings = loaded.settings.clone();
    let (_lock, store) = lock_and_open(&settings, "run")?;
    tell(&loaded);
    let Some(node) = wait_for_node(&loaded, stop).await? else { return Ok(()) };
    let patience = &mut settings.runtime.options.patience;
    *patience = (*patience).max(PATIENCE);
    let intervals = settings.intervals.clone();
    let cycle = Cycle::live(settings, &node, store, now());
    service::run(cycle, &intervals, stop, reloads, || policy(reload())).await;
    tracing::info!("stopped");
    Ok(())
}

/// Says which settings are in force that are not the built-in ones.
fn tell(loaded: &Loaded) {
    tracing::info!(version = env!("CARGO_PKG_VERSION"), profile = %loaded.settings.policy.profile, "starting");
    for key in crate::config::KEYS {
        let origin = loaded.origin(key);
        if origin != crate::config::Origin::BuiltIn {
            tracing::info!(key = key.name, value = %key.get(&loaded.settings), %origin, "setting");
        }
    }
}

/// The node, as soon as its runtime answers; `None` = stopped before. Only a runtime that is away is waited for, and here
/// alone: a call with a patience of its own would hold up both the first word of it and a stop.
async fn wait_for_node(loaded: &Loaded, stop: &Stop) -> Result<Option<Node>, CliError> {
    let [mut wait, longest] = WAITS;
    loop {
        let found = tokio::select! {
            () = stop.wait() => return Ok(None),
            found = node(loaded) => found,
        };
        let error = match found {
            Ok(node) => return Ok(Some(node)),
            Err(error) if error.kind() == ErrorKind::Runtime => error,
            Err(error) => return Err(error),
        };
        if wait == WAITS[0] {
            tracing::warn!(%error, "waiting for the runtime");
        }
        tokio::select! {
            () = stop.wait() => return Ok(None),
            () = tokio::time::sleep(wait) => wait = (wait * 2).min(longest),
        }
    }
}

/// The rules that were read anew; what is wrong with them is told, and the old ones stay.
fn policy(loaded: Result<Loaded, CliError>) -> Option<Policy> {
    match loaded {
        Ok(loaded) => {
            tracing::info!("settings read anew");
            Some(loaded.settings.policy)
        }
        Err(error) => {
            tracing::error!(%error, "settings not read anew; the old ones stay");
            None
        }
    }
}
