//! A pod source with a complete list that never changes.

use async_trait::async_trait;
use kubegc::model::{Container, PodList, PodRef, Sandbox, Seen};
use kubegc::observe::PodSource;

/// The list. Its live lookup agrees with it.
pub struct Listed(pub PodList);

// === impl Listed ===

#[async_trait]
impl PodSource for Listed {
    fn name(&self) -> &'static str {
        "test"
    }

    async fn list(&self, _: &Seen<Vec<Container>>, _: &Seen<Vec<Sandbox>>) -> Seen<PodList> {
        Seen::Seen(self.0.clone())
    }

    /// The directories of running pods are not created.
    fn has_kubelet(&self) -> bool {
        false
    }

    async fn still_exists(&self, pod: &PodRef) -> Seen<bool> {
        Seen::Seen(self.0.pods.iter().any(|listed| listed.uid == pod.uid))
    }
}
