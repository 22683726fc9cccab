//! The documents on the socket, and the state that the service shares with the server.

use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use crate::fleet::{LocalStatus, NodeStatus};
use crate::plan::{Pass, Plan, Report, Scope};

/// The state, shared by the service and the server.
#[derive(Clone, Debug)]
pub struct Live(Arc<Mutex<NodeStatus>>);

/// A pass that a command requests.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct PassRequest {
    /// The kinds of objects.
    pub scope: Scope,
    /// Whether to remove everything unused, as under disk pressure.
    #[serde(default)]
    pub pressure: bool,
    /// A saved plan to carry out.
    pub plan: Option<Box<Plan>>,
}

/// What happens in a requested pass.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum PassEvent {
    Report {
        /// How many objects the plan removes.
        planned: usize,
        /// The action and its outcome.
        report: Box<Report>,
    },
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

// === impl Live ===

impl Live {
    /// Shares the status of an agent that starts.
    pub fn starting(at: Timestamp) -> Self {
        let status = NodeStatus::of_agent(std::process::id(), env!("CARGO_PKG_VERSION"), at);
        Self(Arc::new(Mutex::new(status)))
    }

    /// Returns the state now.
    pub fn read(&self) -> NodeStatus {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn update(&self, change: impl FnOnce(&mut NodeStatus)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Changes what only the socket shows.
    pub fn update_local(&self, change: impl FnOnce(&mut LocalStatus)) {
        self.update(|status| {
            status.local.as_mut().map(change);
        });
    }

    /// Returns why passes remove nothing now.
    pub fn suspended(&self) -> Option<String> {
        self.read().suspended().map(str::to_owned)
    }

    /// Shows why passes remove nothing, and returns what was shown before.
    pub fn swap_suspended(&self, suspended: Option<&str>) -> Option<String> {
        let mut status = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = status.suspended().map(str::to_owned);
        status.set_collecting(suspended);
        before
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
        Self::new(Live::starting(started_at)).0
    }
}
