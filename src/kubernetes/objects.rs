//! What is read and written: discovery, namespaces, nodes, pods, leases, workloads.

pub(super) mod api_namespace;
pub(super) mod api_node;
pub(super) mod api_pod;
pub(super) mod discovery;
pub(super) mod fleet_objects;
pub(super) mod image_users;
pub(super) mod lease;
pub(super) mod node_disk_policy;
pub(super) mod node_pods;
pub(super) mod object;
pub(super) mod pod_lookup;
pub(super) mod resource;
pub(super) mod workloads;
