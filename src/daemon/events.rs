//! Events on the Node, written beside the passes.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::{Pass, clock, node, pods};
use crate::config::{PodSourceName, Settings};
use crate::kubernetes::Connection;
use crate::plan::Scope;
use crate::record::StoreError;
use crate::record::events::{ApiSink, Ended, EventQueue, start_recorder};

/// How long events that are not written yet may hold up the end.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The way from the passes to the events, and who writes them.
#[derive(Debug)]
pub struct Events(Option<(EventQueue, JoinHandle<()>)>);

// === impl Events ===

impl Events {
    /// Begins to write what passes tell, unless that is off or the API server is no source of pods. Its connection is
    /// opened when there is something to tell.
    pub fn begin(settings: &Settings) -> Self {
        let knows_api = |source| settings.pods.sources.contains(source);
        if !settings.tells_events || !(knows_api(PodSourceName::Auto) || knows_api(PodSourceName::KubeApi)) {
            return Self(None);
        }
        let connection = Arc::new(Connection::new(pods::ways_to_api_server(settings)));
        let name = node::node_name(settings);
        let (events, recorder) = start_recorder(&name, ApiSink::new(connection, &name));
        Self(Some((events, tokio::spawn(recorder.run()))))
    }

    /// Takes what there is to tell of a pass, and returns at once.
    pub fn announce(&mut self, scope: Scope, pass: &Result<Pass, StoreError>) {
        if let Some((events, _)) = &mut self.0 {
            events.announce(clock::now(), scope, pass.as_ref().map(Ended::from));
        }
    }

    /// Waits for what is not written yet, but not long.
    pub async fn end(self) {
        let Some((events, writing)) = self.0 else { return };
        drop(events);
        let _ = timeout(LAST_WORDS, writing).await;
    }
}
