//! The task that writes events in parallel to the passes.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::{ApiSink, EventQueue, start_recorder};
use crate::kubernetes::Connection;
use crate::plan::Scope;
use crate::record::Pass;

/// How long a shutdown may wait for events that are not written yet.
const SHUTDOWN_WAIT: Duration = Duration::from_secs(1);

/// The queue of events, and the task that writes them.
#[derive(Debug)]
pub struct Events(Option<(EventQueue, JoinHandle<()>)>);

// === impl Events ===

impl Events {
    /// Starts the task that writes events of the node with this name. `None` = no events are written.
    pub fn start(connection: Option<Connection>, node: &str) -> Self {
        Self(connection.map(|connection| {
            let (queue, recorder) = start_recorder(node, ApiSink::new(Arc::new(connection), node));
            (queue, tokio::spawn(recorder.run()))
        }))
    }

    /// Queues the events of a pass, and returns at once.
    pub fn announce(&mut self, now: Timestamp, scope: Scope, pass: &Pass) {
        if let Some((queue, _)) = &mut self.0 {
            queue.announce(now, scope, pass);
        }
    }

    /// Waits at most `SHUTDOWN_WAIT` for events that are not written yet.
    pub async fn end(self) {
        let Some((queue, writing)) = self.0 else { return };
        drop(queue);
        let _ = timeout(SHUTDOWN_WAIT, writing).await;
    }
}
