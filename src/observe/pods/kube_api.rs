//! The pods that are bound to this node in the API server.

use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::{Instant, timeout};

use super::dirs::Machine;
use super::{PodSource, known_running};
use crate::host_path::HostFs;
use crate::kubernetes::{Clock, Connection, KnownPods, NodeInfo, PodWatch, Timing, list_workloads, pod_exists};
use crate::model::{Confirms, Container, Pod, PodList, PodRef, PodSourceReport, Sandbox, Seen, Workload, running_pods};

/// How long a list of the workloads counts. Each is a list of all ReplicaSets of the cluster, from each node.
const WORKLOADS: Duration = Duration::from_mins(5);
/// The longest time for all these lists: a server may send pages without end.
const ALL_WORKLOADS: Duration = Duration::from_mins(1);
/// How much longer it counts on some nodes, so that the lists of a fleet that was started at once are not sent at once.
const SPREAD: Duration = Duration::from_mins(1);

/// A watch of the pods with `spec.nodeName` of this node. It starts with the first request.
pub struct KubeApi {
    connection: Arc<Connection>,
    node: String,
    clock: Clock,
    watch: OnceLock<PodWatch>,
    host: HostFs,
    /// The workloads of the last list, and how long they count.
    workloads: Mutex<Option<(Instant, Vec<Workload>)>>,
    /// A list named a pod that ran here, so the node has this name.
    is_name_proven: AtomicBool,
}

// === impl KubeApi ===

impl KubeApi {
    /// Creates a source over `connection` for the node of that name. Opens nothing yet. `list` must be called within a
    /// tokio runtime that lives as long as this source.
    pub fn new(connection: Arc<Connection>, node: &str, clock: Clock) -> Self {
        // The kubelet derives its node name from the host name in the same way.
        let node = node.trim().to_lowercase();
        Self {
            connection,
            node,
            clock,
            watch: OnceLock::new(),
            workloads: Mutex::new(None),
            host: HostFs::default(),
            is_name_proven: AtomicBool::new(false),
        }
    }

    /// Sets the host. Default: the agent's own root is the host's.
    #[must_use]
    pub fn with_host(self, host: HostFs) -> Self {
        Self { host, ..self }
    }

    /// Returns the workloads of the last list while they count.
    fn known_workloads(&self, now: Instant) -> Option<Vec<Workload>> {
        let known = self.workloads.lock().unwrap_or_else(PoisonError::into_inner);
        known.as_ref().filter(|(until, _)| now < *until).map(|(_, workloads)| workloads.clone())
    }

    fn watch(&self) -> &PodWatch {
        let start = || PodWatch::start(Arc::clone(&self.connection), &self.node, self.clock, Timing::default());
        self.watch.get_or_init(start)
    }

    /// Returns why an empty list may belong to another node; `None` = it is not empty, or the node has this name.
    async fn contradiction(
        &self,
        known: &KnownPods,
        containers: &Seen<Vec<Container>>,
        sandboxes: &Seen<Vec<Sandbox>>,
    ) -> Option<String> {
        if !known.pods.is_empty() {
            if names_running(&known.pods, containers, sandboxes) {
                self.is_name_proven.store(true, Ordering::Relaxed);
            }
            return None;
        }
        let cause = empty_list_problem(&self.node, containers, sandboxes)?;
        let is_proven = self.is_name_proven.load(Ordering::Relaxed) || self.is_this_machine(&known.node).await;
        (!is_proven).then_some(cause)
    }

    /// Returns whether the Node object of this name belongs to this machine.
    async fn is_this_machine(&self, node: &NodeInfo) -> bool {
        let read = self.host.run(Path::new("machine-id"), Machine::of_host).await;
        read.is_ok_and(|machine| machine.is(node))
    }

    async fn listed(&self, known: KnownPods, contradiction: Option<String>) -> PodList {
        let missing = known.missing.or(contradiction);
        let report = PodSourceReport {
            name: self.name().to_owned(),
            chosen_by: self.connection.chosen_by().await,
            pods: known.pods.len() as u64,
            as_of: Some(known.as_of),
            missing: missing.clone(),
        };
        PodList {
            source: self.name().to_owned(),
            complete: missing.is_none(),
            pods: known.pods,
            confirms: Confirms::ByName,
            sources: vec![report],
            node_labels: known.node.labels,
        }
    }
}

#[async_trait]
impl PodSource for KubeApi {
    fn name(&self) -> &'static str {
        "kube-api"
    }

    async fn list(&self, containers: &Seen<Vec<Container>>, sandboxes: &Seen<Vec<Sandbox>>) -> Seen<PodList> {
        match self.watch().pods().await {
            Seen::Seen(known) => {
                let contradiction = self.contradiction(&known, containers, sandboxes).await;
                Seen::Seen(self.listed(known, contradiction).await)
            }
            unavailable => unavailable.map(|_| PodList::default()),
        }
    }

    async fn cached_pods(&self) -> Vec<Pod> {
        match self.watch().pods().await {
            Seen::Seen(known) => known.pods,
            _ => Vec::new(),
        }
    }

    /// A list counts for some minutes, and longer while the next one fails: most workloads are still there.
    async fn workloads(&self) -> Seen<Vec<Workload>> {
        if let Some(workloads) = self.known_workloads(Instant::now()) {
            return Seen::Seen(workloads);
        }
        let listed = timeout(ALL_WORKLOADS, list_workloads(&self.connection, Timing::default().answer)).await;
        let no_end = |_| format!("the lists of workloads did not end within {} s", ALL_WORKLOADS.as_secs());
        let listed = listed.map_err(no_end).and_then(|listed| listed.map_err(|error| error.to_string()));
        let mut known = self.workloads.lock().unwrap_or_else(PoisonError::into_inner);
        let until = Instant::now() + WORKLOADS + spread(&self.node);
        match (listed, &mut *known) {
            (Ok(listed), known) => *known = Some((until, listed)),
            (Err(error), None) => return Seen::NotSeen(error),
            (Err(error), Some((counts, _))) => {
                tracing::warn!(%error, "cannot list workloads; using an earlier list");
                *counts = until;
            }
        }
        Seen::Seen(known.as_ref().map(|(_, workloads)| workloads.clone()).unwrap_or_default())
    }

    async fn still_exists(&self, pod: &PodRef) -> Seen<bool> {
        pod_exists(&self.connection, &self.node, pod, Timing::default().answer).await
    }
}

/// Returns the share of [`SPREAD`] of a node, the same each time.
fn spread(node: &str) -> Duration {
    let hash = node.bytes().fold(0_u32, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
    SPREAD.mul_f64(f64::from(hash) / f64::from(u32::MAX))
}

/// Returns whether one of these pods runs here.
fn names_running(pods: &[Pod], containers: &Seen<Vec<Container>>, sandboxes: &Seen<Vec<Sandbox>>) -> bool {
    let running: HashSet<_> = known_running(containers, sandboxes).map(PodRef::identity).collect();
    pods.iter().any(|pod| running.contains(&pod.identity()))
}

/// Returns why an empty list may be wrong: pods run here, so the name may be that of another node.
fn empty_list_problem(node: &str, containers: &Seen<Vec<Container>>, sandboxes: &Seen<Vec<Sandbox>>) -> Option<String> {
    let (Seen::Seen(containers), Seen::Seen(sandboxes)) = (containers, sandboxes) else {
        return Some("the API server lists no pod of this node, and the running pods are unavailable".to_owned());
    };
    let pod = running_pods(containers, sandboxes).next()?;
    Some(format!("the API server lists no pod of node {node:?}, but {pod} runs on this node"))
}

#[cfg(test)]
mod tests;
