//! Shows the node in the cluster: writes its NodeDisk when something changed, and every ten minutes.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::clock::now;
use super::cycle::Cycle;
use super::node::credential_candidates;
use crate::config::Settings;
use crate::fleet::{FleetPart, NodePolicies, NodeStatus, place_of};
use crate::kubernetes::{Connection, KubernetesError, Timing, write_node_disk};
use crate::model::{Outage, size_text};
use crate::serve::Live;

/// How often the agent looks whether something changed.
const TICK: Duration = Duration::from_secs(10);
/// The wait after a write that failed. The API server may be back for all agents at once, so each waits as long as its name says, up to
/// twice this.
const RETRY: Duration = Duration::from_secs(30);

/// What writes the object of a node.
struct Publisher<'s> {
    connection: Connection,
    settings: &'s Settings,
    written: Option<(NodeStatus, Instant)>,
}

/// Calls `status` again and again, and writes what it returns to the NodeDisk of this node, until the future is dropped, if the
/// settings say so.
pub async fn publish(settings: &Settings, status: impl AsyncFn() -> Option<NodeStatus>) {
    if settings.fleet.is_empty() {
        return;
    }
    let writes = settings.fleet.contains(&FleetPart::Disks);
    let connection = Connection::new(credential_candidates(settings));
    let mut publisher = Publisher { connection, settings, written: None };
    let mut outage = Outage::default();
    loop {
        sleep(TICK).await;
        let Some(status) = status().await.filter(|_| writes) else { continue };
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
    async fn write(&mut self, mut status: NodeStatus) -> Result<(), KubernetesError> {
        let written = self.written.as_ref().map(|(status, at)| (status, at.elapsed()));
        status.finish(written.map(|(status, _)| status), now());
        if status.is_due(written) {
            write_node_disk(&self.connection, &self.settings.node, &status, Timing::default().answer).await?;
            self.written = Some((status, Instant::now()));
        }
        Ok(())
    }
}

/// Adds the policies, the answers to them and the reclaimable space to the status, and returns it; `None` = no pass has ended yet.
pub(super) async fn status(cycle: &Cycle, live: &Live) -> Option<NodeStatus> {
    let NodePolicies { policies, faults, .. } = cycle.policies().await;
    let (reclaimable, removals) = (cycle.reclaimable_bytes().unwrap_or_default(), cycle.list_answers());
    live.update(|status| {
        (status.reclaimable, status.reclaimable_bytes) = (size_text(reclaimable), reclaimable);
        status.policies = policies.into_keys().collect();
        status.policy_faults = faults.iter().map(|(policy, fault)| format!("{policy}: {fault}")).collect();
        status.removals = removals;
    });
    Some(live.read()).filter(|status| !status.passes.is_empty())
}
