//! The life cycle of the agent: it waits for the lock of the node and for the runtime, and then runs the loops, again after
//! each reload of the settings, until a signal stops it.

mod monitoring;
mod reload;
mod start;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use self::monitoring::Monitoring;
use self::reload::{Reloads, is_same_node};
use self::start::{await_lock, log_settings, wait_for_node};
use super::cycle::pauses::{ReceivedPolicies, keep_reserve};
use super::node::{LocalNode, connection_for_events};
use super::process::file_watch::FileWatch;
use super::process::notify::Notifier;
use super::process::signals::{self, Reload, Signal};
use super::process::watchdog;
use super::schedule::Limits;
use super::service::{self, Requests};
use super::{Cycle, now};
use crate::config::{Environment, Loaded, Mode, Settings};
use crate::cri::{CriError, InProgress};
use crate::fleet::DeferredPass;
use crate::model::size_text;
use crate::observe::ClockJumps;
use crate::plan::{Pace, Pass, Scope, is_emergency};
use crate::record::events::Events;
use crate::record::{Lock, LockError, Store, StoreError};
use crate::serve::{Inbox, Progress};
pub use monitoring::PageOf;
pub use reload::Load;
pub use start::lock_and_open;

/// The longest look at the image disk before the loops begin.
const LOOK: Duration = Duration::from_secs(5);

/// An agent that holds the lock of its node: what stays over all reloads of the settings.
struct Agent<'a> {
    stop: &'a CancellationToken,
    notifier: &'a Notifier,
    monitoring: Monitoring,
    lock: Lock,
    requests: Requests,
    reloads: Reloads<'a>,
    started_at: Timestamp,
    removals: InProgress,
    jumps: Arc<ClockJumps>,
    received: ReceivedPolicies,
    has_served: bool,
}

/// The result of a search for the runtime.
enum Search {
    /// It answers.
    Found(LocalNode),
    /// Other settings may name another one.
    Reloaded(Box<Loaded>),
    /// The agent is to stop.
    Stopped,
}

/// Runs the agent until a signal stops it. `loaded` has the settings from `files` and all other sources. `environment` has the
/// notify socket and the watchdog of the service manager. Returns the second signal, which aborts; `None` = it ended in order.
///
/// # Errors
/// The agent cannot start.
pub async fn run(
    loaded: Loaded,
    files: &FileWatch,
    load: Load<'_>,
    page: PageOf,
    environment: &Environment,
) -> Result<Option<Signal>, AgentError> {
    let (notifier, progress) = (Notifier::to(environment.notify_socket.as_deref()), Progress::default());
    let (signals, stop, reload) = signals::listen()?;
    let monitoring = Monitoring::start(&loaded.settings, &progress, page);
    tokio::select! {
        // The order of the branches is the signal, the message to the service manager, the service. In another
        // order a service that stops immediately sends no message.
        biased;
        signal = signals.aborted() => Ok(Some(signal)),
        () = notify_stopping(&stop, &notifier) => Ok(None),
        () = watchdog::run(&notifier, &progress, environment.watchdog) => Ok(None),
        () = files.run(&reload) => Ok(None),
        served = serve(loaded, load, (&stop, &reload), &notifier, monitoring, &progress) => served.map(|()| None),
    }
}

/// Notifies the service manager as soon as a stop is requested. Never returns.
async fn notify_stopping(stop: &CancellationToken, notifier: &Notifier) {
    stop.cancelled().await;
    notifier.stopping();
    std::future::pending::<()>().await;
}

/// Runs the loops with the settings in force, and again after each reload, until `stop`.
async fn serve(
    mut loaded: Loaded,
    load: Load<'_>,
    (stop, reload): (&CancellationToken, &Reload),
    notifier: &Notifier,
    monitoring: Monitoring,
    progress: &Progress,
) -> Result<(), AgentError> {
    let Some((lock, mut store)) = await_lock(&loaded.settings, stop, notifier).await? else { return Ok(()) };
    monitoring.locked();
    log_settings(&loaded);
    let requests = Requests { reload: reload.clone(), inbox: Inbox::closed(now()), progress: progress.clone() };
    let reloads = Reloads { load, in_force: loaded.settings.clone() };
    let (started_at, has_served) = (now(), false);
    let (removals, jumps, received) = Default::default();
    let mut agent = Agent {
        stop,
        notifier,
        monitoring,
        lock,
        requests,
        reloads,
        started_at,
        removals,
        jumps,
        received,
        has_served,
    };
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

// === impl Agent ===

impl Agent<'_> {
    /// Waits until the runtime answers.
    async fn find_node(&mut self, loaded: &Loaded) -> Result<Search, AgentError> {
        let Self { stop, notifier, monitoring, requests, reloads, removals, jumps, received, has_served, .. } = self;
        let stall = Limits::of(&loaded.settings.runtime.options).stall;
        let search = wait_for_node(loaded, stop, notifier, monitoring, !*has_served);
        let found = tokio::select! {
            biased;
            next = requests.reload.accepted(|| reloads.reload(notifier, monitoring)) => {
                return Ok(Search::Reloaded(Box::new(next)));
            }
            found = requests.progress.watch("start", stall, search) => found?,
        };
        Ok(found.map_or(Search::Stopped, |found| {
            let found = found.counted(monitoring.metrics.calls());
            Search::Found(LocalNode {
                removals: removals.clone(),
                jumps: Arc::clone(jumps),
                received: received.clone(),
                ..found
            })
        }))
    }

    /// Runs the loops with these settings. Returns the store, and the settings of a reload; `None` = stopped.
    async fn serve(&mut self, settings: &Settings, node: &LocalNode, store: Store) -> (Store, Option<Loaded>) {
        let is_first = !self.has_served;
        self.shows(settings);
        let pause = settings.state.pause_file();
        drop(tokio::task::spawn_blocking(move || keep_reserve(&pause)));
        let Self { stop, notifier, monitoring, lock, requests, reloads, started_at, .. } = self;
        let mut events = Events::start(connection_for_events(settings), &settings.node);
        let limits = Limits::of(&settings.runtime.options);
        let after = |pass: &Pass| {
            notifier.status(&status(pass));
            monitoring.passed(pass);
            lock.report(pass.not_recorded.as_deref());
            events.announce(now(), pass);
        };
        let reload = || reloads.reload(notifier, monitoring);
        let cycle = if settings.mode == Mode::Observe {
            tracing::warn!("mode = \"observe\": passes remove nothing");
            Cycle::dry(settings.clone(), node, store, *started_at)
        } else {
            Cycle::live(settings.clone(), node, store, *started_at)
        };
        let cycle = cycle.with_metrics(&monitoring.metrics).with_account(&monitoring.account);
        let first_images = if is_first { first_delay(&cycle).await } else { Duration::ZERO };
        requests.inbox.live.update_local(|local| local.deferred = deferred(&cycle, first_images));
        let limits = Limits { first_images, ..limits };
        let ended = Box::pin(service::run(cycle, &limits, stop, requests, reload, after)).await;
        events.end().await;
        ended
    }

    /// Shows the settings in force. The socket and the message that the service is ready come once the runtime is found.
    fn shows(&mut self, settings: &Settings) {
        self.monitoring.found();
        if !std::mem::replace(&mut self.has_served, true) {
            self.requests.inbox = self.monitoring.serve_socket(settings);
            self.notifier.ready(if settings.mode == Mode::Observe { "observing" } else { "watching" });
        }
        self.monitoring.in_force(settings, &self.requests.inbox.live);
    }
}

/// Returns how long the first pass over images waits (`images.pace`). A disk that is nearly full does not wait.
async fn first_delay(cycle: &Cycle) -> Duration {
    let Settings { policy, node, .. } = cycle.settings();
    let delay = policy.images.pace.start_delay(node);
    let is_full = async { cycle.monitor().image_disk().await.is_some_and(|disk| is_emergency(&disk)) };
    if delay.is_zero() || timeout(LOOK, is_full).await.unwrap_or(false) {
        return Duration::ZERO;
    }
    tracing::info!(seconds = delay.as_secs(), "the first pass over images waits");
    delay
}

/// Returns what the socket shows of a first pass over images that waits.
fn deferred(cycle: &Cycle, wait: Duration) -> Option<DeferredPass> {
    let start_seconds = cycle.settings().policy.images.pace.start_seconds;
    let until = now().saturating_add(wait).unwrap_or(Timestamp::MAX);
    let why = format!("images.pace: {}", Pace { start_seconds, ..Pace::default() }.parts().concat());
    (!wait.is_zero()).then_some(DeferredPass { until, why })
}

/// Formats the result of the last pass, for `systemctl status`.
fn status(pass: &Pass) -> String {
    let what = if pass.scope == Scope::Images { "images" } else { "containers" };
    if let Some(error) = pass.errors().next() {
        return format!("{what}: {error}");
    }
    let total = pass.summary.total();
    if let Some(cause) = &pass.summary.suspended {
        return format!("{what}: {cause}; would remove {}", total.would_remove + pass.summary.not_begun);
    }
    let (removed, failed, kept) = (total.removed, total.failed, pass.kept());
    if total.would_remove > 0 {
        return format!("{what}: would remove {}, kept {kept}", total.would_remove);
    }
    let store = pass.not_recorded.as_ref().map_or_else(String::new, |cause| format!("; {cause}"));
    format!(
        "{what}: removed {removed}, failed {failed}, kept {kept}, {} freed{store}",
        size_text(pass.summary.total_measured_bytes())
    )
}

/// Why an agent cannot start.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The system refuses a handler of signals.
    #[error(transparent)]
    Signals(#[from] io::Error),
    /// The lock of the node cannot be taken.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The runtime cannot be used.
    #[error(transparent)]
    Runtime(#[from] CriError),
}
