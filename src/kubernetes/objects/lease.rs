//! Reads and writes a Lease of `coordination.k8s.io`.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::core::params::PostParams;

use crate::kubernetes::kubernetes_error::attempt;
use crate::kubernetes::requests::connection::built;
use crate::kubernetes::{ApiResource, Connection, KubernetesError};

/// The name of a Lease.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LeaseName {
    pub namespace: String,
    pub name: String,
}

/// Reads a Lease. `None` = the API server itself answers that it does not exist.
///
/// # Errors
///
/// Any other answer, and none.
pub async fn read_lease(
    connection: &Connection,
    name: &LeaseName,
    limit: Duration,
) -> Result<Option<Lease>, KubernetesError> {
    let read = async {
        let leases = ApiResource::leases();
        match connection.request(leases.get(&name.namespace, &name.name)?, limit).await {
            Err(cause) if cause.proves_absence(&leases, &name.name) => Ok(None),
            read => read.map(Some),
        }
    };
    attempt(name.what("read"), read).await
}

/// Creates the Lease if it has no resource version, else replaces the one with this version.
///
/// # Errors
///
/// Another client has created or changed it (409), or the API server did not write it.
pub async fn write_lease(
    connection: &Connection,
    name: &LeaseName,
    lease: &Lease,
    limit: Duration,
) -> Result<Lease, KubernetesError> {
    let write = async {
        let body = built(serde_json::to_vec(lease))?;
        let (path, escaped) = ApiResource::leases().object(&name.namespace, &name.name)?;
        let request = match lease.metadata.resource_version {
            None => path.create(&PostParams::default(), body),
            Some(_) => path.replace(&escaped, &PostParams::default(), body),
        };
        connection.request(built(request)?, limit).await
    };
    attempt(name.what("write"), write).await
}

// === impl LeaseName ===

impl LeaseName {
    fn what(&self, verb: &str) -> String {
        format!("{verb} the lease {} in namespace {}", self.name, self.namespace)
    }
}
