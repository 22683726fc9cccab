//! The rooms put together for one node, as the settings say.

use std::sync::Arc;
use std::time::Duration;

use super::pods::pod_source;
use crate::config::Settings;
use crate::cri::{Endpoint, RuntimeReader};
use crate::observe::{self, Disks, HostDisks, Observer, Places};

/// What of a node does not stand in the settings.
#[derive(Clone)]
pub struct LocalNode {
    /// Where its runtime is.
    pub endpoint: Endpoint,
    /// What its disks are measured with.
    pub disks: Arc<dyn Disks>,
    /// Who says which pods should be there.
    pub pods: Arc<dyn observe::PodSource>,
    /// How long a disk that is still short may take to give space back, before the next image goes.
    pub space_settle: Duration,
}

// === impl LocalNode ===

impl LocalNode {
    /// The node that this host is.
    pub fn of_host(settings: &Settings, endpoint: Endpoint) -> Self {
        let disks = Arc::new(HostDisks::new(&settings.host_root));
        let space_settle = Duration::from_secs(1);
        Self { endpoint, disks, pods: pod_source(settings, &node_name(settings)), space_settle }
    }

    /// Who reads from its runtime.
    pub fn reader(&self, settings: &Settings) -> RuntimeReader {
        RuntimeReader::new(&self.endpoint.runtime, &self.endpoint.images, settings.runtime.options.clone())
    }

    /// Who looks at it.
    pub fn observer(&self, settings: &Settings) -> Observer {
        let (pods, disks) = (Arc::clone(&self.pods), Arc::clone(&self.disks));
        Observer::new(self.reader(settings), places(settings), node_name(settings), pods, disks)
    }
}

fn places(settings: &Settings) -> Places {
    Places {
        host_root: settings.host_root.clone(),
        kubelet_root: settings.kubelet_root.clone(),
        pod_logs: settings.policy.logs.pods_root.clone(),
        container_logs: settings.policy.logs.containers_root.clone(),
    }
}

/// The node's name as set, else the host's.
pub(super) fn node_name(settings: &Settings) -> String {
    let host = || nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok()).unwrap_or_default();
    if settings.node.is_empty() { host() } else { settings.node.clone() }
}
