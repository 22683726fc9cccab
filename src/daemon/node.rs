//! Connects the modules for one node, according to the settings.

use std::sync::Arc;
use std::time::Duration;

use super::pods::pod_source;
use crate::config::Settings;
use crate::cri::{Endpoint, RuntimeReader};
use crate::observe::{self, Disks, HostDisks, Observer, Places};

/// The parts of a node that are not in the settings.
#[derive(Clone)]
pub struct LocalNode {
    /// The sockets of its runtime.
    pub endpoint: Endpoint,
    /// Measures its disks.
    pub disks: Arc<dyn Disks>,
    /// Its pod source.
    pub pods: Arc<dyn observe::PodSource>,
    /// How long to wait for free space before the next image is removed.
    pub space_settle: Duration,
}

// === impl LocalNode ===

impl LocalNode {
    /// Returns the node for this host.
    pub fn of_host(settings: &Settings, endpoint: Endpoint) -> Self {
        let disks = Arc::new(HostDisks::new(&settings.host_root));
        let space_settle = Duration::from_secs(1);
        Self { endpoint, disks, pods: pod_source(settings, &settings.node), space_settle }
    }

    /// Creates a reader for its runtime.
    pub fn reader(&self, settings: &Settings) -> RuntimeReader {
        RuntimeReader::new(&self.endpoint.runtime, &self.endpoint.images, settings.runtime.options.clone())
    }

    /// Creates an observer for it.
    pub fn observer(&self, settings: &Settings) -> Observer {
        let (pods, disks) = (Arc::clone(&self.pods), Arc::clone(&self.disks));
        Observer::new(self.reader(settings), places(settings), settings.node.clone(), pods, disks)
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
