//! What the service waits for at its start: the lock of the node, and the runtime.

use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::AgentError;
use super::monitoring::{Monitoring, RUNTIME};
use crate::config::{KEYS, Loaded, Origin, Settings};
use crate::daemon::node::LocalNode;
use crate::daemon::process::notify::Notifier;
use crate::model::Backoff;
use crate::record::{Lock, LockError, Store};

/// The end of the text in the lock of a one-shot `kubegc collect`.
const ONE_SHOT: &str = ", collect";
/// The wait between attempts to take the lock.
const LOCK_WAIT: Duration = Duration::from_secs(1);
/// The time between two log messages about a runtime that is unavailable.
const REMINDER: Duration = Duration::from_mins(10);
/// The waits between attempts to reach the runtime when the service starts.
const WAITS: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(3));

/// Takes the lock and opens the store; `None` = stopped before. A one-shot command that holds the lock ends soon, so the
/// service waits for it. Another service does not end, and is an error.
pub(super) async fn await_lock(
    settings: &Settings,
    stop: &CancellationToken,
    notifier: &Notifier,
) -> Result<Option<(Lock, Store)>, AgentError> {
    let mut is_logged = false;
    loop {
        match lock_and_open(settings, "run").await {
            Err(AgentError::Lock(LockError::Held { path, holder })) if holder.ends_with(ONE_SHOT) => {
                if !std::mem::replace(&mut is_logged, true) {
                    tracing::warn!(lock = %path.display(), holder, "waiting for the end of a one-shot pass");
                    notifier.ready("waiting for the end of a one-shot pass");
                }
            }
            opened => return opened.map(Some),
        }
        tokio::select! {
            () = stop.cancelled() => return Ok(None),
            () = tokio::time::sleep(LOCK_WAIT) => {}
        }
    }
}

/// Takes the lock and opens the store, for passes that remove objects. The lock says which command holds it.
///
/// # Errors
/// Another process holds the lock, or a file cannot be used.
pub async fn lock_and_open(settings: &Settings, verb: &'static str) -> Result<(Lock, Store), AgentError> {
    let mut lock = Lock::take(&settings.state.lock, verb)?;
    lock.names_store(&settings.state.path);
    Ok((lock, Store::open(&settings.state.path).await?))
}

/// Logs the settings in force that differ from the built-in ones.
pub(super) fn log_settings(loaded: &Loaded) {
    tracing::info!(version = env!("CARGO_PKG_VERSION"), profile = %loaded.settings.policy.profile, "starting");
    for key in KEYS {
        let origin = loaded.origin(key);
        if origin != Origin::BuiltIn {
            tracing::info!(key = key.name, value = %key.get(&loaded.settings), %origin, "setting");
        }
    }
    for warning in loaded.warnings() {
        tracing::warn!("{warning}");
    }
}

/// Returns the node as soon as its runtime answers; `None` = stopped before. At the start only an unreachable runtime is
/// waited for, and only here. A wait in each call would delay the first log message and a stop. The service manager gets
/// the message that the service is ready, because a late runtime is no failed start. After a reload every error is waited
/// for: the next reload may repair it.
pub(super) async fn wait_for_node(
    loaded: &Loaded,
    stop: &CancellationToken,
    notifier: &Notifier,
    monitoring: &Monitoring,
    is_start: bool,
) -> Result<Option<LocalNode>, AgentError> {
    let (mut waits, mut logged_at) = (WAITS, None);
    loop {
        let found = tokio::select! {
            () = stop.cancelled() => return Ok(None),
            found = LocalNode::find(loaded) => found,
        };
        let error = match found {
            Ok(node) => return Ok(Some(node)),
            Err(error) if error.is_unreachable() || !is_start => error,
            Err(error) => return Err(error.into()),
        };
        monitoring.health.lacks(RUNTIME, error.to_string());
        if waits == WAITS {
            notifier.ready("waiting for the runtime");
        }
        if logged_at.is_none_or(|at: Instant| at.elapsed() >= REMINDER) {
            tracing::warn!(cause = %error, "waiting for the runtime at {}", addresses(loaded));
            logged_at = Some(Instant::now());
        }
        tokio::select! {
            () = stop.cancelled() => return Ok(None),
            () = tokio::time::sleep(waits.fail()) => {}
        }
    }
}

/// Returns the address of the runtime in the settings, or that it is searched for.
fn addresses(loaded: &Loaded) -> String {
    loaded.candidates().runtime.map_or_else(|| "a well-known socket".to_owned(), |named| named.endpoint)
}
