//! What the service shows to monitoring: metrics, health, and its socket.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::config::Settings;
use crate::daemon::cycle::accounts::LastAccount;
use crate::daemon::failed_sources;
use crate::daemon::now;
use crate::daemon::reload::CONFIGURATION;
use crate::metrics::AgentMetrics;
use crate::page::{Outlook, STYLE_HASH};
use crate::plan::{Pass, PlanError, Scope};
use crate::serve::{Health, Inbox, Live, Pages, Progress, ReportPage, Server};

/// Makes the page for people, of what the last passes show of the next ones or why nothing is known of them.
pub type PageOf = fn(&Settings, Result<Outlook, String>) -> String;

/// What the service waits for before it is ready.
pub(super) const RUNTIME: &str = "runtime";
const LOCK: &str = "lock";
const PODS: &str = "pods";

/// Metrics and health of the service, and the server that shows them.
pub(super) struct Monitoring {
    pub(super) metrics: AgentMetrics,
    pub(super) health: Health,
    live: Live,
    /// `None` = the system refused a thread.
    server: Option<Server>,
    /// Those in force.
    settings: Arc<Mutex<Settings>>,
    outlooks: Outlooks,
    pub(super) account: LastAccount,
    page: PageOf,
}

/// What the last pass of each scope knows of the next one.
type Outlooks = Arc<Mutex<BTreeMap<&'static str, Outlook>>>;

// === impl Monitoring ===

impl Monitoring {
    /// Starts the server. An agent without a server or with an address in use collects all the same: the
    /// collection must not depend on a port.
    pub(super) fn start(settings: &Settings, progress: &Progress, page: PageOf) -> Self {
        let (metrics, health) = (AgentMetrics::of_service(), Health::of(progress.clone()));
        metrics.lock(false);
        metrics.reloaded(Some(now()));
        health.lacks(LOCK, "waiting for the lock of the node");
        health.lacks(RUNTIME, "waiting for the lock of the node");
        for scope in [Scope::Containers, Scope::Images] {
            health.lacks(scope.as_str(), "no pass yet");
        }
        let server =
            Server::start().inspect_err(|error| tracing::warn!(%error, "cannot serve metrics and health")).ok();
        let address = settings.metrics.address;
        let settings = Arc::new(Mutex::new(settings.clone()));
        let (outlooks, account) = (Outlooks::default(), LastAccount::default());
        let live = Live::starting(now());
        let monitoring = Self { metrics, health, live, server, settings, outlooks, account, page };
        if let Some((server, address)) = monitoring.server.as_ref().zip(address) {
            server.serve_pages(address, monitoring.pages());
        }
        monitoring
    }

    /// Shows that the agent holds the lock of the node.
    pub(super) fn locked(&self) {
        self.metrics.lock(true);
        self.health.has(LOCK);
    }

    /// Shows that the runtime is found.
    pub(super) fn found(&self) {
        self.health.has(RUNTIME);
    }

    /// Serves the socket of the agent. An agent without a socket collects all the same.
    pub(super) fn serve_socket(&mut self, settings: &Settings) -> Inbox {
        self.live.update_local(|local| local.store.clone_from(&settings.state.path));
        let (inbox, orders) = Inbox::new(self.live.clone());
        let (path, pages) = (settings.state.socket(), self.pages());
        if let Some(server) = &mut self.server
            && let Err(error) = server.serve_socket(&path, inbox.live.clone(), orders, pages)
        {
            tracing::warn!(path = %path.display(), %error, "cannot serve the socket of the agent");
        }
        inbox
    }

    /// Shows the settings in force.
    pub(super) fn in_force(&self, settings: &Settings, live: &Live) {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner).clone_from(settings);
        let Settings { mode, policy, .. } = settings;
        live.update(|status| status.set_in_force(mode.into(), &policy.profile.to_string()));
        let (keys, eviction) = (settings.that_decide(), Some(policy.eviction));
        live.update_local(|local| (local.settings, local.eviction) = (keys, eviction));
    }

    /// Shows which sources a pass could not read. The agent is ready when those of all loops have answered.
    pub(super) fn passed(&self, pass: &Pass) {
        let scope = pass.scope;
        let unseen = pass.plan.errors.iter().find(|error| matches!(error, PlanError::NotSeen { .. }));
        let fault = unseen.map(ToString::to_string);
        for of in [Scope::Containers, Scope::Images].into_iter().filter(|of| scope == *of || scope == Scope::All) {
            self.has_or_lacks(of.as_str(), fault.clone());
        }
        let mut known = self.outlooks.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|of, _| scope != Scope::All && *of != Scope::All.as_str());
        known.insert(scope.as_str(), Outlook::new(&pass.plan, None, &pass.reports));
        let settings = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        self.has_or_lacks(PODS, failed_sources(&pass.plan, &settings));
    }

    /// Shows whether the configuration could be loaded again, and the error if not.
    pub(super) fn reloaded(&self, error: Option<&String>) {
        self.metrics.reloaded(error.is_none().then(now));
        self.has_or_lacks(CONFIGURATION, error.cloned());
    }

    fn has_or_lacks(&self, what: &'static str, fault: Option<String>) {
        match fault {
            Some(fault) => self.health.lacks(what, fault),
            None => self.health.has(what),
        }
    }

    fn pages(&self) -> Pages {
        let metrics = self.metrics.clone();
        let (settings, outlooks, page) = (Arc::clone(&self.settings), Arc::clone(&self.outlooks), self.page);
        let account = Arc::clone(&self.account);
        let report = ReportPage::new(STYLE_HASH, move || shown(&settings, &outlooks, &account, page));
        let text = Arc::new(move |format| metrics.text(format));
        let live = self.live.clone();
        let notes = Arc::new(move || live.suspended().map(|cause| format!("removals: {cause}")).into_iter().collect());
        Pages { metrics: text, health: self.health.clone(), notes, report }
    }
}

/// Returns the page for people.
fn shown(settings: &Mutex<Settings>, outlooks: &Outlooks, account: &LastAccount, page: PageOf) -> String {
    let settings = settings.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let known = outlooks.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let outlook = known.into_values().reduce(Outlook::and).ok_or_else(|| "no pass has ended yet".to_owned());
    let contents = account.lock().unwrap_or_else(PoisonError::into_inner).clone().unwrap_or_default();
    page(&settings, outlook.map(|outlook| outlook.with_contents(contents)))
}
