//! The agent: what stays over all reloads of the settings.

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use super::monitoring::Monitoring;
use super::reload::Reloads;
use super::start::wait_for_node;
use crate::cli::{CliError, format};
use crate::config::{Loaded, Mode, Settings};
use crate::cri::InProgress;
use crate::daemon::node::{LocalNode, connection_for_events};
use crate::daemon::notify::Notifier;
use crate::daemon::schedule::Limits;
use crate::daemon::service::{self, Requests};
use crate::daemon::{Cycle, now};
use crate::plan::Scope;
use crate::record::events::Events;
use crate::record::{Lock, Pass, Store};

/// An agent that holds the lock of its node.
pub(super) struct Agent<'a, F> {
    stop: &'a CancellationToken,
    notifier: &'a Notifier,
    monitoring: Monitoring,
    lock: Lock,
    requests: Requests,
    reloads: Reloads<F>,
    started_at: Timestamp,
    removals: InProgress,
    has_served: bool,
}

/// The result of a search for the runtime.
pub(super) enum Search {
    /// It answers.
    Found(LocalNode),
    /// Other settings may name another one.
    Reloaded(Box<Loaded>),
    /// The agent is to stop.
    Stopped,
}

// === impl Agent ===

impl<'a, F: FnMut() -> Result<Loaded, CliError>> Agent<'a, F> {
    pub(super) fn new(
        stop: &'a CancellationToken,
        notifier: &'a Notifier,
        monitoring: Monitoring,
        lock: Lock,
        requests: Requests,
        reloads: Reloads<F>,
    ) -> Self {
        let (started_at, removals) = (now(), InProgress::default());
        Self { stop, notifier, monitoring, lock, requests, reloads, started_at, removals, has_served: false }
    }

    /// Waits until the runtime answers.
    pub(super) async fn find_node(&mut self, loaded: &Loaded) -> Result<Search, CliError> {
        let Self { stop, notifier, monitoring, requests, reloads, removals, has_served, .. } = self;
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
            Search::Found(LocalNode { removals: removals.clone(), ..found })
        }))
    }

    /// Runs the loops with these settings. Returns the store, and the settings of a reload; `None` = stopped.
    pub(super) async fn serve(
        &mut self,
        settings: &Settings,
        node: &LocalNode,
        store: Store,
    ) -> (Store, Option<Loaded>) {
        self.shows(settings);
        let Self { stop, notifier, monitoring, lock, requests, reloads, started_at, .. } = self;
        let mut events = Events::start(connection_for_events(settings), &settings.node);
        let limits = Limits::of(&settings.runtime.options);
        let after = |scope, pass: &Pass| {
            notifier.status(&status(scope, pass));
            monitoring.passed(scope, pass);
            lock.report(pass.not_recorded.as_deref());
            events.announce(now(), scope, pass);
        };
        let reload = || reloads.reload(notifier, monitoring);
        let ended = if settings.mode == Mode::Observe {
            tracing::warn!("mode = \"observe\": passes remove nothing");
            let cycle = Cycle::dry(settings.clone(), node, store, *started_at).with_metrics(&monitoring.metrics);
            service::run(cycle, &limits, stop, requests, reload, after).await
        } else {
            let cycle = Cycle::live(settings.clone(), node, store, *started_at).with_metrics(&monitoring.metrics);
            service::run(cycle, &limits, stop, requests, reload, after).await
        };
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

/// Formats the result of the last pass, for `systemctl status`.
fn status(scope: Scope, pass: &Pass) -> String {
    let what = if scope == Scope::Images { "images" } else { "containers" };
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
    let store = pass.not_recorded.as_ref().map_or_else(String::new, |cause| format!("; {cause}"));
    format!(
        "{what}: removed {removed}, failed {failed}, kept {kept}, {} freed{store}",
        format::size(pass.summary.total_measured_bytes())
    )
}
