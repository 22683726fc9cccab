//! The pods that the API server binds to this node.

use std::sync::{Arc, OnceLock};

use super::PodSource;
use crate::kubernetes::{Clock, Connection, Heard, PodWatch, Timing, pod_exists};
use crate::model::{Confirms, Container, Pod, PodList, PodRef, PodSourceReport, Sandbox, Seen, running_pods};
use crate::observe::Answer;

/// A watch of the pods with `spec.nodeName` of this node, begun at the first question.
pub struct KubeApi {
    connection: Arc<Connection>,
    node: String,
    clock: Clock,
    timing: Timing,
    watch: OnceLock<PodWatch>,
}

// === impl KubeApi ===

impl KubeApi {
    /// A source over `connection` for the node of that name. Nothing is opened yet; `list` must be called within a tokio
    /// runtime that lives as long as this.
    pub fn new(connection: Arc<Connection>, node: &str, clock: Clock) -> Self {
        // As the kubelet makes its name from the host's.
        let node = node.trim().to_lowercase();
        Self { connection, node, clock, timing: Timing::default(), watch: OnceLock::new() }
    }

    /// The same with other waits.
    #[must_use]
    pub fn with_timing(self, timing: Timing) -> Self {
        Self { timing, ..self }
    }

    fn watch(&self) -> &PodWatch {
        let start = || PodWatch::start(Arc::clone(&self.connection), &self.node, self.clock, self.timing.clone());
        self.watch.get_or_init(start)
    }

    async fn listed(&self, heard: Heard, doubt: Option<String>) -> PodList {
        let missing = heard.missing.or(doubt);
        let report = PodSourceReport {
            name: self.name().to_owned(),
            chosen_by: self.connection.chosen_by().await,
            pods: heard.pods.len() as u64,
            as_of: Some(heard.as_of),
            missing: missing.clone(),
        };
        PodList {
            source: self.name().to_owned(),
            complete: missing.is_none(),
            pods: heard.pods,
            confirms: Confirms::ByName,
            sources: vec![report],
        }
    }
}

impl PodSource for KubeApi {
    fn name(&self) -> &'static str {
        "kube-api"
    }

    fn list<'a>(
        &'a self,
        containers: &'a Seen<Vec<Container>>,
        sandboxes: &'a Seen<Vec<Sandbox>>,
    ) -> Answer<'a, Seen<PodList>> {
        Box::pin(async move {
            match self.watch().tell().await {
                Seen::NotSeen(cause) => Seen::NotSeen(cause),
                Seen::Seen(heard) => {
                    let doubt = heard.pods.is_empty().then(|| emptiness(&self.node, containers, sandboxes)).flatten();
                    Seen::Seen(self.listed(heard, doubt).await)
                }
            }
        })
    }

    fn known_by_now(&self) -> Answer<'_, Vec<Pod>> {
        Box::pin(async move {
            match self.watch().tell().await {
                Seen::Seen(heard) => heard.pods,
                Seen::NotSeen(_) => Vec::new(),
            }
        })
    }

    fn still_exists<'a>(&'a self, pod: &'a PodRef) -> Answer<'a, Seen<bool>> {
        Box::pin(pod_exists(&self.connection, &self.node, pod, self.timing.answer))
    }
}

/// What speaks against an empty list: pods that run here. The name may be another node's.
fn emptiness(node: &str, containers: &Seen<Vec<Container>>, sandboxes: &Seen<Vec<Sandbox>>) -> Option<String> {
    let (Seen::Seen(containers), Seen::Seen(sandboxes)) = (containers, sandboxes) else {
        return Some("the API server knows no pod here, and whether any runs was not seen".to_owned());
    };
    let pod = running_pods(containers, sandboxes).next()?;
    Some(format!("the API server knows no pod on node {node:?}, but {pod} runs here"))
}

#[cfg(test)]
mod tests;
