//! `kubegc run`.

mod monitoring;

use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::monitoring::Monitoring;
use super::session::{block_on, node};
use super::{CliError, ErrorKind, format};
use crate::config::{Environment, KEYS, Loaded, Mode, Settings};
use crate::daemon::node::{LocalNode, connection_for_events};
use crate::daemon::notify::Notifier;
use crate::daemon::schedule::Limits;
use crate::daemon::service::{self, Requests};
use crate::daemon::signals::{self, Reload};
use crate::daemon::{Cycle, now, watchdog};
use crate::model::Backoff;
use crate::plan::{Policy, Scope};
use crate::record::events::Events;
use crate::record::{Lock, LockError, Pass, SharedStore, StoreError};
use crate::serve::Progress;

/// Run the service until a signal stops it
///
/// It makes a pass over containers every minute and over images every five minutes.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Remove nothing: log what would be removed, as with mode = "observe"
    #[arg(long)]
    dry_run: bool,
}

/// The end of the text in the lock of a one-shot `kubegc collect`.
const ONE_SHOT: &str = ", collect";
/// The wait between attempts to take the lock.
const LOCK_WAIT: Duration = Duration::from_secs(1);
/// The time between two log messages about a runtime that is unavailable since the start.
const REMINDER: Duration = Duration::from_mins(10);
/// The waits between attempts to reach the runtime when the service starts.
const WAITS: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(3));

/// Runs the service. `environment` has the notify socket and the watchdog of the service manager.
pub fn run(
    args: &Args,
    mut loaded: Loaded,
    reload: impl FnMut() -> Result<Loaded, CliError>,
    environment: &Environment,
) -> Result<(), CliError> {
    if args.dry_run {
        loaded.settings.mode = Mode::Observe;
    }
    let (notifier, progress) = (Notifier::to(environment.notify_socket.as_deref()), Progress::default());
    block_on(async {
        let (signals, stop, reloads) = signals::listen()?;
        tokio::select! {
            // The order of the branches is the signal, the message to the service manager, the service. In another
            // order a service that stops immediately sends no message.
            biased;
            signal = signals.aborted() => Err(CliError::aborted(signal)),
            () = notify_stopping(&stop, &notifier) => Ok(()),
            () = answer_watchdog(environment.watchdog, &notifier, &progress) => Ok(()),
            served = serve(loaded, reload, &stop, reloads, &notifier, &progress) => served,
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

async fn serve(
    loaded: Loaded,
    mut reload: impl FnMut() -> Result<Loaded, CliError>,
    stop: &CancellationToken,
    reloads: Reload,
    notifier: &Notifier,
    progress: &Progress,
) -> Result<(), CliError> {
    let settings = loaded.settings.clone();
    // Before anything that is waited for: health is served from the start.
    let mut monitoring = Monitoring::start(&settings, progress);
    let Some((mut lock, store)) = await_lock(&settings, stop, notifier).await? else { return Ok(()) };
    monitoring.locked();
    log_settings(&loaded);
    let limits = Limits::of(&settings.runtime.options);
    let node = progress.watch("start", limits.stall, wait_for_node(&loaded, stop, notifier, &monitoring)).await?;
    let Some(node) = node else { return Ok(()) };
    monitoring.found();
    let intervals = settings.intervals.clone();
    let mut events = Events::start(connection_for_events(&settings), &settings.node);
    let requests = Requests { reload: reloads, inbox: monitoring.serve_socket(&settings), progress: progress.clone() };
    let (mut in_force, shown) = (settings.clone(), settings.clone());
    let observes = settings.mode == Mode::Observe;
    notifier.ready(if observes { "observing" } else { "watching" });
    let reread = || reread(notifier, &monitoring, &mut reload, &mut in_force);
    let after = |scope, pass: &Result<Pass, StoreError>| {
        notifier.status(&status(scope, pass));
        monitoring.passed(scope, pass, &shown);
        lock.report(pass.as_ref().ok().and_then(Pass::not_recorded).map(ToString::to_string).as_deref());
        events.announce(now(), scope, pass);
    };
    if observes {
        tracing::warn!("mode = \"observe\": passes remove nothing");
        let cycle = Cycle::dry(settings, &node, store, now()).with_metrics(&monitoring.metrics);
        service::run(cycle, &intervals, &limits, stop, requests, reread, after).await;
    } else {
        let cycle = Cycle::live(settings, &node, store, now()).with_metrics(&monitoring.metrics);
        service::run(cycle, &intervals, &limits, stop, requests, reread, after).await;
    }
    events.end().await;
    tracing::info!("stopped");
    Ok(())
}

/// Takes the lock and opens the store; `None` = stopped before. A one-shot command that holds the lock ends soon, so the
/// service waits for it. Another service does not end, and is an error.
async fn await_lock(
    settings: &Settings,
    stop: &CancellationToken,
    notifier: &Notifier,
) -> Result<Option<(Lock, SharedStore)>, CliError> {
    let mut is_logged = false;
    loop {
        let lock = match Lock::take(&settings.state.lock, "run") {
            Ok(lock) => lock,
            Err(LockError::Held { path, holder }) if holder.ends_with(ONE_SHOT) => {
                if !is_logged {
                    tracing::warn!(lock = %path.display(), holder, "waiting for the end of a one-shot pass");
                    notifier.ready("waiting for the end of a one-shot pass");
                    is_logged = true;
                }
                tokio::select! {
                    () = stop.cancelled() => return Ok(None),
                    () = tokio::time::sleep(LOCK_WAIT) => continue,
                }
            }
            Err(error) => return Err(error.into()),
        };
        let mut lock = lock;
        lock.names_store(&settings.state.path);
        return Ok(Some((lock, SharedStore::open(&settings.state.path).await?)));
    }
}

/// Logs the settings in force that differ from the built-in ones.
fn log_settings(loaded: &Loaded) {
    tracing::info!(version = env!("CARGO_PKG_VERSION"), profile = %loaded.settings.policy.profile, "starting");
    for key in crate::config::KEYS {
        let origin = loaded.origin(key);
        if origin != crate::config::Origin::BuiltIn {
            tracing::info!(key = key.name, value = %key.get(&loaded.settings), %origin, "setting");
        }
    }
    for warning in loaded.warnings() {
        tracing::warn!("{warning}");
    }
}

/// Returns the node as soon as its runtime answers; `None` = stopped before. Only an unreachable runtime is waited for,
/// and only here. A wait in each call would delay the first log message and a stop. The service manager gets the
/// message that the service is ready, because a late runtime is no failed start.
async fn wait_for_node(
    loaded: &Loaded,
    stop: &CancellationToken,
    notifier: &Notifier,
    monitoring: &Monitoring,
) -> Result<Option<LocalNode>, CliError> {
    let (mut waits, mut logged_at) = (WAITS, None);
    loop {
        let found = tokio::select! {
            () = stop.cancelled() => return Ok(None),
            found = node(loaded) => found,
        };
        let error = match found {
            Ok(node) => return Ok(Some(node)),
            Err(error) if error.kind() == ErrorKind::Runtime => error,
            Err(error) => return Err(error),
        };
        monitoring.health.lacks(monitoring::RUNTIME, error.to_string());
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

/// Formats the result of the last pass, for `systemctl status`.
fn status(scope: Scope, pass: &Result<Pass, StoreError>) -> String {
    let what = if scope == Scope::Images { "images" } else { "containers" };
    let pass = match pass {
        Ok(pass) => pass,
        Err(error) => return format!("{what}: {error}"),
    };
    if let Some(error) = pass.plan.errors.first() {
        return format!("{what}: {error}");
    }
    if let Some(halt) = pass.summary.halts.first() {
        return format!("{what}: {halt}");
    }
    let total = pass.summary.total();
    let (removed, failed, kept) = (total.removed, total.failed, pass.kept());
    if total.would_remove > 0 {
        return format!("{what}: would remove {}, kept {kept}", total.would_remove);
    }
    let store = pass.not_recorded().map_or_else(String::new, |note| format!("; {note}"));
    format!(
        "{what}: removed {removed}, failed {failed}, kept {kept}, {} freed{store}",
        format::size(pass.summary.total_measured_bytes())
    )
}

/// Reloads the settings and notifies the service manager. If they are invalid, it logs the error, and the previous
/// settings remain in force.
fn reread(
    notifier: &Notifier,
    monitoring: &Monitoring,
    reload: &mut impl FnMut() -> Result<Loaded, CliError>,
    in_force: &mut Settings,
) -> Option<Policy> {
    notifier.reloading();
    let settings = match reload() {
        Ok(loaded) => loaded.settings,
        Err(error) => {
            monitoring.reloaded(Err(&error));
            tracing::error!(%error, "settings not reloaded; the previous settings remain in force");
            notifier.ready("settings not reloaded; the previous settings remain in force");
            return None;
        }
    };
    monitoring.reloaded(Ok(()));
    let logs = in_force.policy.logs.clone();
    let applied = Settings { policy: Policy { logs, ..settings.policy.clone() }, ..in_force.clone() };
    tracing::info!(changed = differing(in_force, &applied), "settings reloaded");
    *in_force = applied;
    let restart = differing(in_force, &settings);
    if restart.is_empty() {
        notifier.ready("settings reloaded");
    } else {
        tracing::warn!(settings = restart, "changed settings need a restart");
        notifier.ready(&format!("settings reloaded; need a restart: {restart}"));
    }
    Some(in_force.policy.clone())
}

/// Returns the keys with different values, except those of `kubegc controller`.
fn differing(one: &Settings, other: &Settings) -> String {
    let is_of_node =
        |key: &&crate::config::Key| !key.name.starts_with("controller.") && !key.name.starts_with("pod_gc.");
    let differ = KEYS.iter().filter(is_of_node).filter(|key| key.get(one) != key.get(other));
    differ.map(|key| key.name).collect::<Vec<_>>().join(", ")
}
