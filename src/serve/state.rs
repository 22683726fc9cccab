//! The documents on the socket, and the state that the service shares with the server.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use crate::model::Seen;
use crate::plan::{DiskState, Pass, Plan, PodKnowledge, Report, Scope};

/// The state of the running agent.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct AgentState {
    /// Always `AgentState`.
    pub kind: String,
    /// The version of the document, 1.
    pub version: u32,
    /// The process.
    pub pid: u32,
    /// The version of the program.
    pub program: String,
    /// When the agent started.
    pub started_at: Timestamp,
    /// `collect` or `observe`.
    pub mode: String,
    /// The profile of the rules in force.
    pub profile: String,
    pub store: PathBuf,
    /// What is being done now, by scope.
    pub running: BTreeMap<String, RunningPass>,
    /// Why scheduled passes remove nothing now; `null` = they do.
    #[serde(default)]
    pub suspended: Option<String>,
    /// The last pass of each scope.
    pub passes: BTreeMap<String, PassState>,
    /// The disks, as the last pass over images saw them.
    #[serde(default)]
    pub disks: Vec<DiskState>,
    /// The bytes that the last pass over images lacked although every image was removed that may be.
    #[serde(default)]
    pub shortfall_bytes: u64,
    /// The pass over images that is put off after a start; `null` = none is. It stays here when its time has come.
    #[serde(default)]
    pub deferred: Option<DeferredPass>,
    /// The pod sources, as the last pass saw them.
    pub pods: Seen<PodKnowledge>,
    /// Where metrics and health are served, or why they are not; `null` = they are turned off.
    #[serde(default)]
    pub metrics_address: Option<Seen<SocketAddr>>,
}

/// A pass that is put off.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct DeferredPass {
    /// When it begins.
    pub until: Timestamp,
    /// The setting that puts it off.
    pub why: String,
}

/// A pass in progress.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct RunningPass {
    /// When it began.
    pub since: Timestamp,
    /// How many objects the plan removes; 0 = it is still observing.
    pub planned: usize,
    /// How many of them are done.
    pub done: usize,
}

/// The result of a pass.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct PassState {
    /// When it ended.
    pub ended_at: Timestamp,
    /// When the next one is due; `null` = unknown, because this one failed and has a back-off.
    pub next_at: Option<Timestamp>,
    /// Objects removed.
    pub removed: usize,
    /// Objects that an observing agent would have removed.
    pub would_remove: usize,
    /// Failed removals.
    pub failed: usize,
    /// Reclaimed bytes, measured.
    pub freed_bytes: u64,
    /// What the pass could not do.
    pub errors: Vec<String>,
}

/// The state, shared by the service and the server.
#[derive(Clone, Debug)]
pub struct Live(Arc<Mutex<AgentState>>);

/// A pass that a command requests.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct PassRequest {
    /// The kinds of objects.
    pub scope: Scope,
    /// Whether to remove everything unused, as under disk pressure.
    #[serde(default)]
    pub pressure: bool,
    /// A saved plan to carry out.
    #[serde(default)]
    pub plan: Option<Box<Plan>>,
}

/// What happens in a requested pass.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum PassEvent {
    /// An action ended.
    Report {
        /// How many objects the plan removes.
        planned: usize,
        /// The action and its outcome.
        report: Box<Report>,
    },
    /// The pass ended.
    Done {
        /// Whether the agent only observes, so that nothing was removed.
        observes: bool,
        pass: Box<Pass>,
    },
}

/// A request, and where its events go.
#[derive(Debug)]
pub struct Order {
    pub request: PassRequest,
    /// Receives the events.
    pub events: mpsc::UnboundedSender<PassEvent>,
}

/// What connects the service with the server.
#[derive(Debug)]
pub struct Inbox {
    /// The state that the service updates.
    pub live: Live,
    /// The requests for passes.
    pub orders: mpsc::Receiver<Order>,
}

// === impl AgentState ===

impl AgentState {
    /// Creates the state of an agent that starts.
    pub fn new(started_at: Timestamp) -> Self {
        Self {
            kind: "AgentState".to_owned(),
            version: 1,
            pid: std::process::id(),
            program: env!("CARGO_PKG_VERSION").to_owned(),
            started_at,
            ..Self::default()
        }
    }
}

// === impl Live ===

impl Live {
    /// Shares a state.
    pub fn new(state: AgentState) -> Self {
        Self(Arc::new(Mutex::new(state)))
    }

    /// Returns the state now.
    pub fn read(&self) -> AgentState {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes the state.
    pub fn update(&self, change: impl FnOnce(&mut AgentState)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Returns why passes remove nothing now.
    pub fn suspended(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).suspended.clone()
    }

    /// Shows why passes remove nothing, and returns what was shown before.
    pub fn swap_suspended(&self, suspended: Option<String>) -> Option<String> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut state.suspended, suspended)
    }
}

// === impl Inbox ===

impl Inbox {
    /// Creates the two ends. A second request waits for the first one; a third one is refused.
    pub fn new(live: Live) -> (Self, mpsc::Sender<Order>) {
        let (sender, orders) = mpsc::channel(1);
        (Self { live, orders }, sender)
    }

    /// Creates an end without a server.
    pub fn closed(started_at: Timestamp) -> Self {
        Self::new(Live::new(AgentState::new(started_at))).0
    }
}
