//! The collection of orphaned, unscheduled and surplus terminated pods: a snapshot of all pods and nodes, live reads of missing nodes, a
//! plan of `pod_gc`, and its actions.
//!
//! [`PodCollector`] lists once, for a command. [`PodsService`] follows pods and nodes and makes a pass at an interval.

mod carry_out;
mod convert;
mod known_pods;
mod nodes;
mod pod_outcome;
mod pod_settings;
mod pods_service;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use futures::{StreamExt as _, stream};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::calls::Calls;
use super::controller_error::ControllerError;
use super::settings::{WATCH, WORKERS};
use super::watch::filter::ObjectFilter;
use crate::kubernetes::{
    ApiNode, ApiPod, ApiResource, Clock, Connection, KubernetesError, Listed, list_metadata_in, list_objects,
};
use crate::model::{ApiKind, Identity, Uid};
use crate::pod_gc::{MissingNodes, NodeAnswer, PodPlan, PodsSnapshot, plan};

pub use pod_outcome::{PodFailure, PodNotice, PodOutcome, PodReport, PodResult};
pub use pod_settings::PodGcSettings;
pub use pods_service::PodsService;

/// Collects pods. It remembers between passes which nodes are missing, and what failed.
pub struct PodCollector {
    calls: Calls,
    settings: PodGcSettings,
    filter: ObjectFilter,
    clock: Clock,
    /// Receives what was done at once.
    report: Box<dyn Fn(PodNotice<'_>) + Send + Sync>,
    missing: MissingNodes,
    begun: Instant,
    nodes: nodes::NodeReads,
    /// By uid, the cause of the last failure.
    failures: BTreeMap<String, String>,
}

// === impl PodCollector ===

impl PodCollector {
    /// Creates a collector. A dry run makes all reads and no change. `report` receives what was done at once.
    pub fn new(
        connection: &Arc<Connection>,
        settings: PodGcSettings,
        dry_run: bool,
        clock: Clock,
        report: impl Fn(PodNotice<'_>) + Send + Sync + 'static,
    ) -> Self {
        Self {
            calls: Calls::new(Arc::clone(connection), &settings.calls, !settings.strict_not_found, dry_run),
            settings,
            filter: ObjectFilter::default(),
            clock,
            report: Box::new(report),
            missing: MissingNodes::default(),
            begun: Instant::now(),
            nodes: nodes::NodeReads::default(),
            failures: BTreeMap::new(),
        }
    }

    #[must_use]
    pub fn of(self, filter: ObjectFilter) -> Self {
        Self { filter, ..self }
    }

    pub async fn snapshot(&self) -> Result<PodsSnapshot, ControllerError> {
        let taken_at = (self.clock)();
        // The nodes come second: a pod in the list is then no younger than the list of nodes.
        let pods = self.list::<ApiPod>(&ApiResource::pods()).await?;
        let nodes = self.list::<ApiNode>(&ApiResource::nodes()).await?;
        Ok(PodsSnapshot {
            taken_at,
            server: self.calls.connection.cluster().await,
            pods: pods.iter().map(convert::pod).map(Arc::new).collect(),
            nodes: nodes.iter().map(convert::node).collect(),
        })
    }

    async fn list<T: Listed>(&self, resource: &ApiResource) -> Result<Vec<T>, ControllerError> {
        let listed = list_objects(&self.calls.connection, resource, self.calls.answer).await;
        listed.map_err(|source: KubernetesError| ControllerError::Pods { source })
    }

    /// Plans a snapshot, with a live read of each node whose quarantine has ended.
    pub async fn plan(&mut self, snapshot: &PodsSnapshot) -> PodPlan {
        self.nodes.clear();
        let due = self.missing.observe(snapshot, self.begun.elapsed(), self.settings.policy.node_quarantine);
        let reads = due.into_iter().map(|node| async { (self.read_node(&node).await, node) });
        let answers: Vec<_> = stream::iter(reads).buffered(WORKERS).collect().await;
        let states = self.missing.resolve(answers.into_iter().map(|(answer, node)| (node, answer)));
        let mut plan = plan(snapshot, &states, &self.settings.policy);
        if let Err(error) = self.select(&mut plan).await {
            plan.actions.clear();
            plan.errors.push(error.to_string());
        }
        plan
    }

    /// Removes from a plan the pods that the filter leaves out.
    async fn select(&self, plan: &mut PodPlan) -> Result<(), KubernetesError> {
        let (mut filter, calls) = (self.filter.clone(), &self.calls);
        if let Some(labels) = filter.labels.as_deref().filter(|_| !plan.actions.is_empty() || !plan.kept.is_empty()) {
            let (pods, namespace) = (ApiResource::pods(), &filter.namespace);
            let listed = list_metadata_in(&calls.connection, &pods, namespace, Some(labels), calls.answer).await?;
            let labeled: HashSet<_> = listed.into_iter().map(|pod| pod.uid).collect();
            filter.uids = Some(filter.uids.map_or_else(|| labeled.clone(), |known| &known & &labeled));
        }
        let selects = |pod: Identity| filter.leaves_out(&ApiResource::pods(), &pod).is_none();
        plan.actions.retain(|pod| selects(pod_identity(&pod.namespace, &pod.name, &pod.uid)));
        plan.kept.retain(|pod| selects(pod_identity(&pod.namespace, &pod.name, &pod.uid)));
        Ok(())
    }

    /// Plans a snapshot and carries out the plan.
    pub async fn pass(&mut self, snapshot: &PodsSnapshot, stop: &CancellationToken) -> PodReport {
        let plan = self.plan(snapshot).await;
        self.carry_out(plan, stop).await
    }

    /// Lists, plans and acts once, with at most `max` deletions. The collector of one command has no memory, so it keeps
    /// the pods of missing nodes unless the quarantine is 0.
    pub async fn collect(
        &mut self,
        max: Option<usize>,
        stop: &CancellationToken,
    ) -> Result<PodReport, ControllerError> {
        let mut plan = {
            let snapshot = self.snapshot().await?;
            self.plan(&snapshot).await
        };
        plan.actions.truncate(max.unwrap_or(usize::MAX));
        Ok(self.carry_out(plan, stop).await)
    }

    /// Reads a node, unless it was read within the last second.
    async fn read_node(&self, name: &str) -> NodeAnswer {
        self.nodes.get(name, self.read_node_now(name)).await
    }

    async fn read_node_now(&self, name: &str) -> NodeAnswer {
        match self.calls.read_node(name).await {
            Ok(Some(node)) => NodeAnswer::Exists(convert::node(&node)),
            Ok(None) => NodeAnswer::NotFound,
            Err(error) => NodeAnswer::Unavailable(error.to_string()),
        }
    }
}

pub fn pod_identity(namespace: &str, name: &str, uid: &str) -> Identity {
    let (kind, uid) = (ApiKind::new("v1", "Pod"), Uid::new(uid));
    Identity { kind, namespace: namespace.into(), name: name.into(), uid }
}
