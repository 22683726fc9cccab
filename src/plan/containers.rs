//! Dead containers.

use std::time::Duration;

/// Limits on dead containers (kubelet flags of the same meaning).
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerPolicy {
    /// Younger dead containers stay and are not counted. Default 0 = none is too young.
    pub min_age: Duration,
    /// Dead instances kept of each (pod, container name). Default 1; negative = no limit.
    pub max_per_pod_container: i64,
    /// Dead containers kept on the node. Default -1; negative = no limit.
    pub max_containers: i64,
    /// The moment that `min_age` counts from. Default `Created`, as the kubelet.
    pub age_from: AgeFrom,
    /// Pods that finished but still exist lose all dead containers and sandboxes, as in the kubelet's answer to disk
    /// pressure. Default off.
    pub evict_terminated_pods: bool,
}

/// The moment that a container's age counts from.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum AgeFrom {
    /// Its creation, as the kubelet counts.
    #[default]
    Created,
    /// Its end (kubernetes#13562); its creation where the end is not known.
    Finished,
}

// === impl ContainerPolicy ===

impl Default for ContainerPolicy {
    fn default() -> Self {
        Self {
            min_age: Duration::ZERO,
            max_per_pod_container: 1,
            max_containers: -1,
            age_from: AgeFrom::Created,
            evict_terminated_pods: false,
        }
    }
}
