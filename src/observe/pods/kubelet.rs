//! The kubelet's own pods.
//!
//! This is the best source: it contains static pods, and every uid is the CRI's. It has one weakness. A kubelet that
//! has just started, or that has not reached its API server since, lists fewer pods than it should have, and nothing in
//! its answer says so. So a list is complete only with a proof that the kubelet has received pods from its API server
//! since it started:
//!
//! - The list contains a pod of the API server that the kubelet has had for at least [`SETTLE`]. The kubelet takes in
//!   the first list as a whole. A restart resets the time at which it first saw a pod.
//! - Or an earlier pass had such a proof, and the kubelet has not restarted since.
//! - Or the kubelet reports that it has cleaned up after pods, which it does only after all its sources have delivered.
//!
//! The first proof needs only the list. The others need the permission to read the kubelet's metrics. A kubelet older
//! than 1.27 that had no pod of the API server in any pass gives none of the three proofs, so its list is incomplete.
//!
//! Ages are counted by the kubelet's own clock, which its answers carry. Its start time alone proves nothing: a
//! kubelet that restarts while the API server is unavailable lists only static pods.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};

use super::PodSource;
use crate::kubernetes::{Clock, Kubelet, KubeletError, KubeletPods};
use crate::model::{Container, ContainerState, PodList, PodRef, PodSourceReport, Sandbox, SandboxState, Seen};

/// How long the kubelet may need to take in its first list of pods, one after the other.
const SETTLE: SignedDuration = SignedDuration::from_secs(30);

/// The kubelet of this node. Each call sends new requests.
pub struct KubeletSource {
    kubelet: Kubelet,
    clock: Clock,
    /// The last time, by the kubelet's clock, with a proof that the kubelet had received pods from its API server.
    proven_at: Mutex<Option<Timestamp>>,
}

/// The result of one request.
struct KubeletAnswer {
    list: KubeletPods,
    /// Why pods may be missing in the list.
    missing: Option<String>,
}

// === impl KubeletSource ===

impl KubeletSource {
    /// Creates a source over this kubelet.
    pub fn new(kubelet: Kubelet, clock: Clock) -> Self {
        Self { kubelet, clock, proven_at: Mutex::new(None) }
    }

    async fn request(&self) -> Result<KubeletAnswer, KubeletError> {
        let list = self.kubelet.pods().await?;
        let missing = match self.kubelet.check_health().await {
            Err(error) => Some(error.to_string()),
            Ok(()) => self.incompleteness(&list).await,
        };
        Ok(KubeletAnswer { list, missing })
    }

    /// Returns why the kubelet may not have received all its pods.
    async fn incompleteness(&self, list: &KubeletPods) -> Option<String> {
        let of_api = list.pods.iter().filter(|pod| pod.is_of_api);
        let first = of_api.filter_map(|pod| pod.first_seen_at).min();
        let settled = |since: Timestamp| list.answered_at.duration_since(since) >= SETTLE;
        if first.is_some_and(settled) {
            *self.proven_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(list.answered_at);
            return None;
        }
        let why = match first {
            Some(_) => "it received its pods only now",
            None => "it names no pod of the API server",
        };
        let process = match self.kubelet.process().await {
            Ok(process) => process,
            Err(error) => return Some(format!("{why}, and its start time is unavailable: {error}")),
        };
        if !settled(process.started_at) {
            return Some(format!("it started only at {:.0}", process.started_at));
        }
        let proven_at = *self.proven_at.lock().unwrap_or_else(PoisonError::into_inner);
        let is_proven = process.has_cleaned_up || proven_at.is_some_and(|at| at > process.started_at);
        (!is_proven).then(|| format!("{why}, so it may not have received pods from the API server since it started"))
    }

    fn listed(&self, answer: KubeletAnswer, as_of: Timestamp, contradiction: Option<String>) -> PodList {
        let name = self.name().to_owned();
        let missing = answer.missing.or(contradiction);
        let pods: Vec<_> = answer.list.pods.into_iter().map(|pod| pod.pod).collect();
        let report = PodSourceReport {
            name: name.clone(),
            chosen_by: String::new(),
            pods: pods.len() as u64,
            as_of: Some(as_of),
            missing: missing.clone(),
        };
        PodList { source: name, complete: missing.is_none(), pods, sources: vec![report], ..PodList::default() }
    }
}

#[async_trait]
impl PodSource for KubeletSource {
    fn name(&self) -> &'static str {
        "kubelet"
    }

    async fn list(&self, containers: &Seen<Vec<Container>>, sandboxes: &Seen<Vec<Sandbox>>) -> Seen<PodList> {
        let as_of = (self.clock)();
        let answer = match self.request().await {
            Ok(answer) => answer,
            Err(error) => return Seen::NotSeen(error.to_string()),
        };
        let contradiction = contradiction(&answer.list, containers, sandboxes);
        Seen::Seen(self.listed(answer, as_of, contradiction))
    }

    /// The kubelet's own list has no cache to bypass.
    async fn still_exists(&self, pod: &PodRef) -> Seen<bool> {
        match self.request().await {
            Err(error) => Seen::NotSeen(error.to_string()),
            Ok(answer) if answer.list.pods.iter().any(|known| known.pod.uid == pod.uid) => Seen::Seen(true),
            Ok(KubeletAnswer { missing: Some(cause), .. }) => Seen::NotSeen(cause),
            Ok(_) => Seen::Seen(false),
        }
    }
}

/// Returns why the runtime's lists contradict a list. A running static pod that is not in the list shows that its
/// manifest was not read yet. An empty list contradicts running pods. Other running pods that are not in the list are
/// being terminated.
fn contradiction(
    list: &KubeletPods,
    containers: &Seen<Vec<Container>>,
    sandboxes: &Seen<Vec<Sandbox>>,
) -> Option<String> {
    let (Seen::Seen(containers), Seen::Seen(sandboxes)) = (containers, sandboxes) else {
        return Some("the running pods are unavailable".to_owned());
    };
    let named: HashSet<_> = list.pods.iter().map(|listed| listed.pod.identity()).collect();
    let running = containers.iter().filter(|container| container.state == ContainerState::Running);
    let running: HashSet<_> = running.map(|container| &container.sandbox_id).collect();
    let runs = |sandbox: &&Sandbox| sandbox.state == SandboxState::Ready || running.contains(&sandbox.id);
    let missing = |sandbox: &&Sandbox| sandbox.pod.as_ref().is_some_and(|pod| !named.contains(&pod.identity()));
    let mut unnamed = sandboxes.iter().filter(runs).filter(missing);
    if list.pods.is_empty()
        && let Some(pod) = unnamed.clone().find_map(|sandbox| sandbox.pod.as_ref())
    {
        return Some(format!("it lists no pod, but {pod} runs on this node"));
    }
    let pod = unnamed.find(|sandbox| sandbox.is_static)?.pod.as_ref()?;
    Some(format!("it does not list the static pod {pod}, which runs on this node"))
}

#[cfg(test)]
mod tests;
