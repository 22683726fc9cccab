//! The rooms put together for one node, as the settings say.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::config::{PodSource, Settings};
use crate::cri::RuntimeReader;
use crate::observe::{self, Disks, NoPods, Observer, Places, RuntimePods};

/// Who looks at this node.
pub fn observer(settings: &Settings, reader: RuntimeReader, disks: Arc<dyn Disks>) -> Observer {
    Observer::new(reader, places(settings), node_name(settings), pod_source(settings.pod_source), disks)
}

fn places(settings: &Settings) -> Places {
    Places {
        host_root: settings.host_root.clone(),
        kubelet_root: settings.kubelet_root.clone(),
        pod_logs: settings.policy.logs.pods_root.clone(),
        container_logs: settings.policy.logs.containers_root.clone(),
    }
}

fn pod_source(source: PodSource) -> Arc<dyn observe::PodSource> {
    match source {
        PodSource::None => Arc::new(NoPods),
        PodSource::Runtime => Arc::new(RuntimePods),
    }
}

/// The node's name as set, else the host's.
fn node_name(settings: &Settings) -> String {
    let host = || nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok()).unwrap_or_default();
    if settings.node.is_empty() { host() } else { settings.node.clone() }
}

/// A path of the host as it is reached from here.
pub fn beneath(host_root: &Path, path: &Path) -> PathBuf {
    host_root.join(path.strip_prefix("/").unwrap_or(path))
}
