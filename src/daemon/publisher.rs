//! Shows the node in the cluster: writes its NodeDisk when something changed, and every ten minutes.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::clock::now;
use super::cycle::Cycle;
use super::node::credential_candidates;
use crate::config::Settings;
use crate::fleet::{DiskSummary, FleetPart, NodeDiskStatus, PassSummary, place_of};
use crate::kubernetes::{Connection, KubernetesError, Timing, write_node_disk};
use crate::model::{Outage, size_text};
use crate::plan::DiskState;
use crate::serve::{AgentState, PassState};

/// How often the agent looks whether something changed.
const TICK: Duration = Duration::from_secs(10);
/// The wait after a write that failed. The API server may be back for all agents at once, so each waits as long as its name says, up to
/// twice this.
const RETRY: Duration = Duration::from_secs(30);

/// What writes the object of a node.
struct Publisher<'s> {
    connection: Connection,
    settings: &'s Settings,
    written: Option<(NodeDiskStatus, Instant)>,
}

/// Writes what `status` returns to the NodeDisk of this node, until the future is dropped, if the settings say so.
pub async fn publish(settings: &Settings, status: impl AsyncFn() -> Option<NodeDiskStatus>) {
    if !settings.fleet.contains(&FleetPart::Disks) {
        return;
    }
    let connection = Connection::new(credential_candidates(settings));
    let mut publisher = Publisher { connection, settings, written: None };
    let mut outage = Outage::default();
    loop {
        sleep(TICK).await;
        let Some(status) = status().await else { continue };
        let written = publisher.write(status).await;
        if let Some(error) = outage.begins(written.as_ref().err()) {
            tracing::warn!(%error, "cannot write the NodeDisk; passes are not affected");
        }
        if written.is_err() {
            sleep(RETRY + RETRY * place_of(&settings.node).into() / 100).await;
        }
    }
}

// === impl Publisher ===

impl Publisher<'_> {
    async fn write(&mut self, mut status: NodeDiskStatus) -> Result<(), KubernetesError> {
        let written = self.written.as_ref().map(|(status, at)| (status, at.elapsed()));
        status.finish(written.map(|(status, _)| status), now());
        if status.is_due(written) {
            write_node_disk(&self.connection, &self.settings.node, &status, Timing::default().answer).await?;
            self.written = Some((status, Instant::now()));
        }
        Ok(())
    }
}

/// Returns the status now; `None` = no pass has ended yet.
pub(super) async fn status(cycle: &Cycle, state: &AgentState) -> Option<NodeDiskStatus> {
    if state.passes.is_empty() {
        return None;
    }
    let policies = cycle.policies().await;
    let reclaimable_bytes = cycle.reclaimable_bytes().unwrap_or_default();
    let mut status = NodeDiskStatus {
        version: state.program.clone(),
        mode: state.mode.clone(),
        disks: state.disks.iter().map(disk).collect(),
        reclaimable: size_text(reclaimable_bytes),
        reclaimable_bytes,
        shortfall_bytes: state.shortfall_bytes,
        passes: state.passes.iter().map(|(scope, pass)| summary(scope, pass)).collect(),
        policies: policies.policies.into_keys().collect(),
        policy_faults: policies.faults.iter().map(|(policy, fault)| format!("{policy}: {fault}")).collect(),
        removals: cycle.list_answers(),
        ..NodeDiskStatus::default()
    };
    status.set_collecting(state.suspended.as_deref());
    let failed = |pass: &PassState| (pass.failed > 0).then(|| format!("{} removals failed", pass.failed));
    let error = state.passes.values().find_map(|pass| pass.errors.first().cloned().or_else(|| failed(pass)));
    status.set_healthy(error.as_deref());
    Some(status)
}

fn disk(state: &DiskState) -> DiskSummary {
    let holds: &'static str = state.disk.holds.first().copied().map_or("", Into::into);
    let eviction = state.forecast.as_ref().and_then(|forecast| forecast.eviction);
    DiskSummary {
        holds: holds.to_owned(),
        used_percent: state.used_percent().unwrap_or_default(),
        capacity_bytes: state.disk.file_system.capacity_bytes,
        available_bytes: state.disk.file_system.available_bytes,
        high_threshold_percent: state.high_threshold_percent,
        eviction_in_seconds: eviction.map(|left| left.seconds),
    }
}

fn summary(scope: &str, pass: &PassState) -> PassSummary {
    PassSummary {
        scope: scope.to_owned(),
        at: Some(pass.ended_at),
        removed: pass.removed as u64,
        failed: pass.failed as u64,
        freed_bytes: pass.freed_bytes,
    }
}
