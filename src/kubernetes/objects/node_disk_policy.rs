//! Reads and writes a NodeDiskPolicy.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::fleet_objects::{Applied, apply};
use crate::fleet::{NodeDiskPolicy, NodeDiskPolicySpec};
use crate::kubernetes::kubernetes_error::attempt;
use crate::kubernetes::{ApiResource, Connection, KubernetesError};

/// The field manager of what commands write.
const MANAGER: &str = "kubegc-fleet";

/// Creates a policy, or replaces what kubegc wrote of it before (server-side apply). Returns its metadata.
///
/// # Errors
///
/// The API server refuses it, such as one with a mistake, or gives no answer.
pub async fn apply_policy(
    connection: &Connection,
    name: &str,
    spec: &NodeDiskPolicySpec,
    limit: Duration,
) -> Result<ObjectMeta, KubernetesError> {
    let resource = ApiResource::node_disk_policies();
    let apply = apply::<NodeDiskPolicy>(connection, &resource, name, Applied::Spec(spec), MANAGER, limit);
    Ok(attempt(format!("write the NodeDiskPolicy {name:?}"), apply).await?.metadata)
}
