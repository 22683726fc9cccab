//! The queue of events, and the task that writes them in parallel to the passes.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::event_recorder::{EventRecorder, PassNotices};
use super::{ApiSink, EventSink, Notices};
use crate::kubernetes::Connection;
use crate::plan::Scope;
use crate::record::Pass;

/// How long a shutdown may wait for events that are not written yet.
const SHUTDOWN_WAIT: Duration = Duration::from_secs(1);

/// The events of the passes of an agent.
#[derive(Debug)]
pub struct Events {
    notices: Notices,
    /// `None` = no events are written.
    writing: Option<(mpsc::Sender<PassNotices>, JoinHandle<()>)>,
}

// === impl Events ===

impl Events {
    /// Starts the task that writes events of the node with this name. `None` = no events are written.
    pub fn start(connection: Option<Connection>, node: &str) -> Self {
        match connection {
            Some(connection) => Self::to(ApiSink::new(Arc::new(connection), node), node),
            None => Self { notices: Notices::default(), writing: None },
        }
    }

    pub(super) fn to(sink: impl EventSink + Send + Sync + 'static, node: &str) -> Self {
        let (queue, recorder) = EventRecorder::new(node, sink);
        Self { notices: Notices::default(), writing: Some((queue, tokio::spawn(recorder.run()))) }
    }

    /// Queues the events of a pass, and returns at once.
    pub fn announce(&mut self, now: Timestamp, scope: Scope, pass: &Pass) {
        let Some((queue, _)) = &self.writing else { return };
        let notices = self.notices.of(scope, pass);
        if !notices.is_empty() && queue.try_send((now, notices)).is_err() {
            tracing::debug!("dropping the events of a pass: earlier events are not written yet");
        }
    }

    /// Waits at most `SHUTDOWN_WAIT` for events that are not written yet.
    pub async fn end(self) {
        self.end_within(SHUTDOWN_WAIT).await;
    }

    pub(super) async fn end_within(self, limit: Duration) {
        let Some((queue, writing)) = self.writing else { return };
        drop(queue);
        let _ = timeout(limit, writing).await;
    }
}
