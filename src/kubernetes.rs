//! Access to the API server and to the kubelet's HTTPS endpoint. The counterpart of `cri`.
//!
//! Pods are listed in small pages and reduced to [`crate::model::Pod`], so that 500 pods need little memory. This module
//! never guesses. It reports a truncated answer, an answer of a proxy and a long silence as failures (I2). It changes only
//! the objects in the cluster that a caller names.

mod credentials;
mod event_writer;
mod kubelet;
mod kubernetes_error;
mod monitor;
mod objects;
mod requests;

#[cfg(test)]
mod tests;

pub use credentials::access::{Access, CredentialCandidates, ExecPlugins};
pub use credentials::config_overrides::ConfigOverrides;
pub use credentials::proxies::Proxies;
pub use event_writer::{EventWriter, NewEvent};
pub use kubelet::{Kubelet, KubeletAccess, KubeletError, KubeletPod, KubeletPods, KubeletProcess};
pub use kubernetes_error::{Cause, DENIED, KubernetesError};
pub use monitor::{Follower, Monitor, MonitorEvent};
pub use objects::api_namespace::{ApiNamespace, KUBERNETES, NamespaceCondition, finalize_namespace, read_namespace};
pub use objects::api_node::{ApiNode, NodeInfo, read_node};
pub use objects::api_pod::{ApiPod, PodSpec, PodStatus};
pub use objects::discovery::{Discovered, discover, server_version};
pub use objects::fleet_objects::{FleetSpec, FleetStatus, write_node_disk};
pub use objects::image_users::{ImageUser, list_image_users};
pub use objects::lease::{LeaseName, read_lease, write_lease};
pub use objects::node_disk_policy::apply_policy;
pub use objects::object::{Head, Metadata, MetadataOnly, Object, Readable};
pub use objects::pod_lookup::pod_exists;
pub use objects::resource::ApiResource;
pub use objects::workloads::list_workloads;
pub use requests::bucket::Bucket;
pub use requests::connection::Connection;
pub use requests::list::{Listed, Watched, list_objects};
pub use requests::metadata::{
    LabeledObject, each_labeled_in, has_labels, list_details_in, list_metadata_in, read_metadata, read_object,
};
pub use requests::path::is_path_segment;
pub use requests::watch::{KnownPods, PodWatch};
pub use requests::writer::{
    Deleted, Deletion, PropagationPolicy, WriteTarget, delete_collection, delete_object, patch_object, patch_status,
};

use std::time::Duration;

use jiff::Timestamp;

/// Returns the current time. The daemon owns the clock and passes it in.
pub type Clock = fn() -> Timestamp;

/// Time limits for the API server.
#[derive(Clone, Debug, PartialEq)]
pub struct Timing {
    /// The longest wait for one whole answer. Default 15 s.
    pub answer: Duration,
    /// After this time without an event, a bookmark or an orderly end of a watch, a list of pods counts as unavailable.
    /// After half of it the watch counts as dead and the pods are listed again. Default 3 min.
    pub max_silence: Duration,
    /// After this time the server ends a watch. Then permissions are checked again, and a server without events proves
    /// that it still answers: a server of version 1.20 sends no bookmark before the first event. Default 1 min; at most
    /// 290 s and a third of `max_silence`.
    pub watch: Duration,
}

// === impl Timing ===

impl Default for Timing {
    fn default() -> Self {
        Self { answer: Duration::from_secs(15), max_silence: Duration::from_mins(3), watch: Duration::from_mins(1) }
    }
}
