//! Reads and writes a NodeDiskPolicy.

use std::time::Duration;

use kube::core::params::{Patch, PatchParams};
use serde::de::IgnoredAny;
use serde_json::json;

use crate::fleet::{NodeDiskPolicy, NodeDiskPolicySpec};
use crate::kubernetes::kubernetes_error::attempt;
use crate::kubernetes::requests::connection::built;
use crate::kubernetes::{ApiResource, Connection, KubernetesError, Watched};

/// The field manager of what commands write.
const MANAGER: &str = "kubegc-fleet";

impl Watched for NodeDiskPolicy {
    const METADATA_ONLY: bool = false;

    fn resource_version(&self) -> &str {
        self.metadata.resource_version.as_deref().unwrap_or_default()
    }
}

/// Creates a policy, or replaces what kubegc wrote of it before (server-side apply).
///
/// # Errors
///
/// The API server refuses it, such as one with a mistake, or gives no answer.
pub async fn apply_policy(
    connection: &Connection,
    name: &str,
    spec: &NodeDiskPolicySpec,
    limit: Duration,
) -> Result<(), KubernetesError> {
    let resource = ApiResource::node_disk_policies();
    let apply = async {
        let policy = json!({
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": { "name": name, "labels": { "app.kubernetes.io/managed-by": "kubegc" } },
            "spec": spec,
        });
        let (path, escaped) = resource.object("", name)?;
        let request = path.patch(&escaped, &PatchParams::apply(MANAGER).force(), &Patch::Apply(policy));
        connection.request::<IgnoredAny>(built(request)?, limit).await.map(drop)
    };
    attempt(format!("write the NodeDiskPolicy {name:?}"), apply).await
}
