//! Kubernetes events on the Node object, written in parallel to the passes.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::{Pass, clock, node};
use crate::config::Settings;
use crate::kubernetes::Connection;
use crate::model::PodSourceName;
use crate::plan::Scope;
use crate::record::StoreError;
use crate::record::events::{ApiSink, Ended, EventQueue, start_recorder};

/// How long a shutdown may wait for events that are not written yet.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The queue of events, and the task that writes them.
#[derive(Debug)]
pub struct Events(Option<(EventQueue, JoinHandle<()>)>);

// === impl Events ===

impl Events {
    /// Starts the task that writes events, unless events are off or the API server is not a pod source. The connection
    /// opens at the first event.
    pub fn begin(settings: &Settings) -> Self {
        let knows_api = |source| settings.pods.sources.contains(source);
        if !settings.tells_events || !(knows_api(PodSourceName::Auto) || knows_api(PodSourceName::KubeApi)) {
            return Self(None);
        }
        let connection = Arc::new(Connection::new(node::credential_candidates(settings)));
        let node = &settings.node;
        let (events, recorder) = start_recorder(node, ApiSink::new(connection, node));
        Self(Some((events, tokio::spawn(recorder.run()))))
    }

    /// Queues the events of a pass, and returns at once.
    pub fn announce(&mut self, scope: Scope, pass: &Result<Pass, StoreError>) {
        if let Some((events, _)) = &mut self.0 {
            events.announce(clock::now(), scope, pass.as_ref().map(Ended::from));
        }
    }

    /// Waits at most `LAST_WORDS` for events that are not written yet.
    pub async fn end(self) {
        let Some((events, writing)) = self.0 else { return };
        drop(events);
        let _ = timeout(LAST_WORDS, writing).await;
    }
}
