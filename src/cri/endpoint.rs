//! Selects the sockets of the runtime: those that the configuration names, otherwise the first well-known socket that
//! answers.
//!
//! An endpoint that is named is not tried here: its error names exactly that socket.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{CriError, CriOptions, RuntimeReader};
use crate::host_path::HostFs;

/// The sockets of the supported runtimes and distributions, most common first. `/var/run` is `/run` on all of them.
pub const WELL_KNOWN: [&str; 7] = [
    "/run/containerd/containerd.sock",
    "/run/crio/crio.sock",
    "/run/cri-dockerd.sock",
    "/run/k3s/containerd/containerd.sock",
    "/run/k0s/containerd.sock",
    "/var/snap/microk8s/common/run/containerd.sock",
    "/run/dockershim.sock",
];

/// The time limit of a probe of a well-known socket.
const QUICKLY: Duration = Duration::from_secs(2);

/// The sockets that the configuration names, and where to search otherwise.
#[derive(Clone, Debug, PartialEq)]
pub struct EndpointCandidates {
    /// The endpoint of the runtime service; `None` = search.
    pub runtime: Option<Named>,
    /// The endpoint of the image service; `None` = that of the runtime service.
    pub images: Option<Named>,
    /// The host. Default: the agent's own root is the host's.
    pub host: HostFs,
    /// The sockets that are tried if the runtime's is not named.
    pub well_known: Vec<PathBuf>,
}

/// An endpoint, and what names it.
#[derive(Clone, Debug, PartialEq)]
pub struct Named {
    /// The endpoint.
    pub endpoint: String,
    /// The origin, for errors.
    pub named_by: String,
}

/// The selected sockets, as paths for the agent.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Endpoint {
    /// The socket of the runtime service.
    pub runtime: String,
    /// The socket of the image service. Equal to `runtime` unless another one is named.
    pub images: String,
}

// === impl EndpointCandidates ===

impl Default for EndpointCandidates {
    fn default() -> Self {
        let well_known = WELL_KNOWN.map(PathBuf::from).into();
        Self { runtime: None, images: None, host: HostFs::default(), well_known }
    }
}

/// Selects the endpoint. Connects only to well-known sockets.
pub async fn resolve(candidates: &EndpointCandidates, options: &CriOptions) -> Result<Endpoint, CriError> {
    let host = candidates.host.with_limit(options.answer_timeout);
    let runtime = match &candidates.runtime {
        Some(named) => locate(&host, unix_path(named)?).await?,
        None => first_that_answers(candidates, options).await?,
    };
    let images = match &candidates.images {
        Some(named) => locate(&host, unix_path(named)?).await?,
        None => runtime.clone(),
    };
    Ok(Endpoint { runtime: text(&runtime), images: text(&images) })
}

/// Tries the well-known sockets in order. If a socket exists but does not work, its error is returned, because it is
/// more useful than the list of tried paths.
async fn first_that_answers(candidates: &EndpointCandidates, options: &CriOptions) -> Result<PathBuf, CriError> {
    let answer_timeout = options.answer_timeout.min(QUICKLY);
    let options = CriOptions { patience: Duration::ZERO, answer_timeout, ..options.clone() };
    let host = candidates.host.with_limit(answer_timeout);
    let mut there = None;
    for path in &candidates.well_known {
        match answers(&host, path, &options).await {
            Ok(path) => return Ok(path),
            Err(CriError::NoSocket { .. }) => {}
            Err(error) => there = there.or(Some(error)),
        }
    }
    let tried = candidates.well_known.iter().map(|path| text(path)).collect();
    Err(there.unwrap_or(CriError::NoEndpoint { tried }))
}

/// Returns where a socket is if a runtime answers there.
async fn answers(host: &HostFs, path: &Path, options: &CriOptions) -> Result<PathBuf, CriError> {
    let path = locate(host, path.to_owned()).await?;
    let endpoint = text(&path);
    RuntimeReader::new(&endpoint, &endpoint, options.clone()).check().await?;
    Ok(path)
}

/// Returns the path at which the agent finds a socket of the host. A socket that is mounted alone, at its own path,
/// counts too.
async fn locate(host: &HostFs, path: PathBuf) -> Result<PathBuf, CriError> {
    let place = path.clone();
    Ok(host.run(&place, move |host| host.locate(&path).into_path()).await?)
}

/// Returns the path in a unix endpoint: `unix:///run/x.sock`, `unix:/run/x.sock` or `/run/x.sock`.
fn unix_path(Named { endpoint, named_by }: &Named) -> Result<PathBuf, CriError> {
    let path = endpoint.strip_prefix("unix://").or_else(|| endpoint.strip_prefix("unix:")).unwrap_or(endpoint);
    if path.starts_with('/') {
        return Ok(path.into());
    }
    Err(CriError::NotUnix { endpoint: endpoint.clone(), named_by: named_by.clone() })
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests;
