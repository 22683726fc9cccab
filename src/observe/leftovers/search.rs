//! Looks for what is left over on a node.

use std::collections::HashSet;
use std::path::Path;

use super::{checkpoints, pull_records, reservations, termination_logs};
use crate::host_path::HostFs;
use crate::model::{Leftover, PodUid, Seen, Snapshot};
use crate::observe::Observer;
use crate::observe::leftover_logs::restarted_containers;

// === impl Observer ===

impl Observer {
    /// Finds what is left over. An incomplete list shows nothing of its objects.
    pub(in crate::observe) async fn find_leftovers(&self, snapshot: &mut Snapshot) {
        let mut found = self.leftovers_of_kubelet(snapshot).await;
        if let Seen::Seen(found) = &mut found {
            found.extend(self.pod_directories(unlisted_pod_dirs(snapshot)).await);
            found.extend(self.leaked_addresses(snapshot).await);
        }
        snapshot.leftovers = found;
        self.clock_skew.settle_leftovers(snapshot, &self.jumps);
    }

    async fn leftovers_of_kubelet(&self, snapshot: &Snapshot) -> Seen<Vec<Leftover>> {
        let restarted = snapshot.containers.as_ref().map(|containers| restarted_containers(containers));
        let (restarted, images) = (restarted.unwrap_or_default(), snapshot.images.as_ref().cloned());
        let shown = self.places.kubelet_root.clone();
        let find = move |_: &HostFs, root: &Path| {
            let mut found = images.map_or(Ok(Vec::new()), |images| pull_records(root, &images))?;
            for container in restarted {
                found.extend(termination_logs(root, &container)?);
            }
            found.extend(checkpoints(root)?);
            for leftover in &mut found {
                leftover.at.path = shown.join(&leftover.at.path).display().to_string();
            }
            Ok(found)
        };
        self.list_directory(&self.places.kubelet_root, find).await
    }

    /// Finds addresses that are reserved for sandboxes which no client of the runtime has. They are shown only: without the lists
    /// of all clients, there are none.
    async fn leaked_addresses(&self, snapshot: &Snapshot) -> Vec<Leftover> {
        let Some(sandboxes) = snapshot.sandboxes.as_ref() else { return Vec::new() };
        let (now, networks) = (snapshot.taken_at, &self.places.networks);
        let find = move |_: &HostFs, networks: &Path| reservations(networks, now);
        let Seen::Seen(reserved) = self.list_directory(networks, find).await else { return Vec::new() };
        let listed: HashSet<_> = sandboxes.iter().map(|sandbox| sandbox.id.as_str()).collect();
        let unknown: Vec<_> = reserved.into_iter().filter(|(_, id)| !listed.contains(id.as_str())).collect();
        if unknown.is_empty() {
            return Vec::new();
        }
        let Ok(all) = self.reader.all_container_ids().await else { return Vec::new() };
        // nerdctl writes its namespace before the id.
        let is_known = |id: &str| all.iter().any(|known| id.ends_with(known.as_str()));
        let mut leaked: Vec<_> = unknown.into_iter().filter(|(_, id)| !is_known(id)).map(|(found, _)| found).collect();
        for address in &mut leaked {
            address.at.path = networks.join(&address.at.path).display().to_string();
        }
        leaked
    }
}

/// Returns the directories of missing pods.
fn unlisted_pod_dirs(snapshot: &Snapshot) -> Vec<PodUid> {
    let Some(existing) = snapshot.existing_pods() else { return Vec::new() };
    let dirs = snapshot.pod_dirs.as_ref().into_iter().flatten();
    dirs.filter(|uid| !existing.contains(uid)).cloned().collect()
}
