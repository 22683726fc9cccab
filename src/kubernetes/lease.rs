//! Reads and writes a Lease of `coordination.k8s.io`.

use std::time::Duration;

use http::Request;
use k8s_openapi::api::coordination::v1::Lease;
use kube::core::Request as Path;
use kube::core::params::{GetParams, PostParams};

use super::connection::built;
use super::path::segment;
use super::{Connection, KubernetesError};

/// The name of a Lease.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LeaseName {
    /// The namespace.
    pub namespace: String,
    /// The name.
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
    let request = name.path("read")?.get(&name.escaped("read")?, &GetParams::default());
    match name.send(connection, "read", request, limit).await {
        Err(error) if error.says_not_found("leases", &name.name) || error.says_not_found("", &name.name) => Ok(None),
        read => read.map(Some),
    }
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
    let what = "write";
    let body = built(what, serde_json::to_vec(lease))?;
    let request = match lease.metadata.resource_version {
        None => name.path(what)?.create(&PostParams::default(), body),
        Some(_) => name.path(what)?.replace(&name.escaped(what)?, &PostParams::default(), body),
    };
    name.send(connection, what, request, limit).await
}

// === impl LeaseName ===

impl LeaseName {
    fn path(&self, verb: &str) -> Result<Path, KubernetesError> {
        let namespace = segment(&self.what(verb), &self.namespace)?;
        Ok(Path::new(format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases")))
    }

    fn escaped(&self, verb: &str) -> Result<String, KubernetesError> {
        segment(&self.what(verb), &self.name)
    }

    fn what(&self, verb: &str) -> String {
        format!("{verb} the lease {} in namespace {}", self.name, self.namespace)
    }

    async fn send(
        &self,
        connection: &Connection,
        verb: &str,
        request: Result<Request<Vec<u8>>, kube::core::request::Error>,
        limit: Duration,
    ) -> Result<Lease, KubernetesError> {
        let what = self.what(verb);
        connection.request(&what, built(&what, request)?, limit).await
    }
}
