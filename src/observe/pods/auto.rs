//! Searches for pod sources until some are found (`pods.source = "auto"`).
//!
//! An agent may start before its node has joined a cluster. It searches again at each request until a source is found,
//! and keeps that choice.

use std::path::Path;
use std::sync::{Arc, Once, OnceLock};

use async_trait::async_trait;

use super::{CombinedPods, PodSource, PodSourceOptions};
use crate::host_path::BoundedCalls;
use crate::model::{Container, Pod, PodList, PodRef, Sandbox, Seen};

/// Pod sources that are found at run time.
pub struct AutoPodSource {
    options: Arc<PodSourceOptions>,
    chosen: OnceLock<CombinedPods>,
    calls: BoundedCalls,
    /// That there is none is in the log.
    is_logged: Once,
}

// === impl AutoPodSource ===

impl AutoPodSource {
    /// Creates the source. Searches for nothing yet.
    pub fn new(options: PodSourceOptions) -> Self {
        let (options, calls) = (Arc::new(options), BoundedCalls::default());
        Self { options, chosen: OnceLock::new(), calls, is_logged: Once::new() }
    }

    /// Returns the sources, and searches for them if there are none yet. The search runs within a limit, because a file
    /// system may not respond.
    async fn choice(&self) -> Result<&CombinedPods, String> {
        if let Some(chosen) = self.chosen.get() {
            return Ok(chosen);
        }
        let options = Arc::clone(&self.options);
        let found = self.calls.run(Path::new("credentials"), move || options.search()).await;
        let entries = found.map_err(|error| error.to_string()).flatten().inspect_err(|cause| {
            self.is_logged.call_once(|| tracing::info!(cause, "no pod counts as deleted"));
        })?;
        Ok(self.chosen.get_or_init(|| {
            let chosen = CombinedPods::new(entries, self.options.clock);
            chosen.log_sources();
            chosen
        }))
    }
}

#[async_trait]
impl PodSource for AutoPodSource {
    fn name(&self) -> &str {
        self.chosen.get().map_or("auto", PodSource::name)
    }

    async fn list(&self, containers: &Seen<Vec<Container>>, sandboxes: &Seen<Vec<Sandbox>>) -> Seen<PodList> {
        match self.choice().await {
            Ok(chosen) => chosen.list(containers, sandboxes).await,
            Err(cause) => Seen::NotSeen(cause),
        }
    }

    /// A host without a kubelet has no source to find, and then no pod counts as deleted.
    fn has_kubelet(&self) -> bool {
        self.chosen.get().is_none_or(PodSource::has_kubelet)
    }

    async fn cached_pods(&self) -> Vec<Pod> {
        match self.chosen.get() {
            Some(chosen) => chosen.cached_pods().await,
            None => Vec::new(),
        }
    }

    async fn still_exists(&self, pod: &PodRef) -> Seen<bool> {
        match self.choice().await {
            Ok(chosen) => chosen.still_exists(pod).await,
            Err(cause) => Seen::NotSeen(cause),
        }
    }
}
