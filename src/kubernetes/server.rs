//! Facts about the API server itself.

use std::time::Duration;

use http::Request;
use serde::Deserialize;

use super::connection::built;
use super::{Connection, KubernetesError};

/// The part of `/version` that people know.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    git_version: String,
}

/// Returns the version of the API server, as `v1.36.2`.
///
/// # Errors
///
/// The API server did not answer, or its answer has no version.
pub async fn server_version(connection: &Connection, limit: Duration) -> Result<String, KubernetesError> {
    let what = "read the version of the API server";
    let request = built(what, Request::get("/version").body(Vec::new()))?;
    Ok(connection.request::<Version>(what, request, limit).await?.git_version)
}
