//! Reads and writes a NodeDiskPolicy.

use std::time::Duration;

use super::fleet_objects::{Applied, apply};
use crate::fleet::{NodeDiskPolicy, NodeDiskPolicySpec};
use crate::kubernetes::kubernetes_error::attempt;
use crate::kubernetes::{ApiResource, Connection, KubernetesError, Watched};

/// The field manager of what commands write.
const MANAGER: &str = "kubegc-fleet";

impl Watched for NodeDiskPolicy {
    const METADATA_ONLY: bool = false;

    fn resource_version(&self) -> &str {
        self.metadata.resource_version.as_deref().unwrap_or_default()
    }
}

/// Creates a policy, or replaces what kubegc wrote of it before (server-side apply). Returns its generation.
///
/// # Errors
///
/// The API server refuses it, such as one with a mistake, or gives no answer.
pub async fn apply_policy(
    connection: &Connection,
    name: &str,
    spec: &NodeDiskPolicySpec,
    limit: Duration,
) -> Result<i64, KubernetesError> {
    let resource = ApiResource::node_disk_policies();
    let apply = apply::<NodeDiskPolicy>(connection, &resource, name, Applied::Spec(spec), MANAGER, limit);
    let written = attempt(format!("write the NodeDiskPolicy {name:?}"), apply).await?;
    Ok(written.metadata.generation.unwrap_or_default())
}
