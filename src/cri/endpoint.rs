//! Selects the sockets of the runtime: those that the configuration names, otherwise the only well-known socket at which a
//! runtime is.
//!
//! With several runtimes on a host, only a person knows which one the kubelet uses, so kubegc takes none, as kubeadm does. An
//! empty runtime beside the kubelet's would show a node without pods, and everything on it would look unused.
//!
//! An endpoint that is named is not tried here: its error names exactly that socket.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{CriError, CriOptions, RuntimeReader};
use crate::host_path::HostFs;

/// The sockets of the supported runtimes and distributions, most common first. `/var/run` is `/run` on all of them.
pub const WELL_KNOWN: [&str; 8] = [
    "/run/containerd/containerd.sock",
    "/run/crio/crio.sock",
    "/run/cri-dockerd.sock",
    "/run/k3s/containerd/containerd.sock",
    "/run/k3s/cri-dockerd/cri-dockerd.sock",
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
    pub endpoint: String,
    /// The origin, for errors.
    pub named_by: String,
}

/// The selected sockets, as paths for the agent.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Endpoint {
    /// The socket of the runtime service.
    pub runtime: String,
    /// The socket of the image service. Equal to `runtime` unless another one is named.
    pub images: String,
    /// The other well-known sockets, at which no runtime may be. Empty if the socket was named.
    pub others: Vec<PathBuf>,
}

// === impl Endpoint ===

impl Endpoint {
    /// Returns the endpoint with both services at one socket.
    pub fn at(socket: String) -> Self {
        Self { runtime: socket.clone(), images: socket, others: Vec::new() }
    }
}

// === impl EndpointCandidates ===

impl Default for EndpointCandidates {
    fn default() -> Self {
        let well_known = WELL_KNOWN.map(PathBuf::from).into();
        Self { runtime: None, images: None, host: HostFs::default(), well_known }
    }
}

/// Selects the endpoint. Connects only to well-known sockets.
///
/// # Errors
/// No runtime is at a well-known socket, or several are.
pub async fn resolve(candidates: &EndpointCandidates, options: &CriOptions) -> Result<Endpoint, CriError> {
    let host = candidates.host.with_limit(options.answer_timeout);
    let (runtime, others) = match &candidates.runtime {
        Some(named) => (locate(&host, unix_path(named)?).await?, Vec::new()),
        None => the_only_one(candidates, options).await?,
    };
    let images = match &candidates.images {
        Some(named) => locate(&host, unix_path(named)?).await?,
        None => runtime.clone(),
    };
    Ok(Endpoint { runtime: text(&runtime), images: text(&images), others })
}

/// Checks that no runtime has come to another well-known socket since that of `reader` was selected: the kubelet's may have
/// started later.
///
/// # Errors
/// One has.
pub async fn check_alone(reader: &RuntimeReader, host: &HostFs, others: &[PathBuf]) -> Result<(), CriError> {
    let endpoint = reader.runtime.path();
    let mut rivals = probe(host, others, &reader.options).await.runtimes;
    rivals.retain(|(_, answer)| !matches!(answer, Ok(path) if path == endpoint));
    if rivals.is_empty() { Ok(()) } else { Err(several(text(endpoint), &rivals)) }
}

/// Where the agent finds a socket whose runtime answers, or why it does not.
type Answer = Result<PathBuf, CriError>;

/// What the well-known sockets are.
#[derive(Debug, Default)]
struct Found {
    /// Those of a runtime. One that does not answer now may do so later.
    runtimes: Vec<(PathBuf, Answer)>,
    /// The first error of a file that is no socket of a runtime, or on a file system that hangs.
    error: Option<CriError>,
}

/// Returns where the runtime is, and the other well-known sockets.
async fn the_only_one(
    candidates: &EndpointCandidates,
    options: &CriOptions,
) -> Result<(PathBuf, Vec<PathBuf>), CriError> {
    let EndpointCandidates { host, well_known, .. } = candidates;
    let Found { mut runtimes, error } = probe(host, well_known, options).await;
    let Some((path, answer)) = runtimes.pop() else {
        let tried = well_known.iter().map(|path| text(path)).collect();
        return Err(error.unwrap_or(CriError::NoEndpoint { tried }));
    };
    if !runtimes.is_empty() {
        runtimes.push((path, answer));
        let (first, _) = runtimes.remove(0);
        return Err(several(text(&first), &runtimes));
    }
    Ok((answer?, well_known.iter().filter(|other| **other != path).cloned().collect()))
}

fn several(first: String, others: &[(PathBuf, Answer)]) -> CriError {
    let others = others.iter().map(|(path, _)| text(path));
    CriError::SeveralRuntimes { endpoints: std::iter::once(first).chain(others).collect() }
}

/// Probes each socket in order. Two paths to one socket count once.
async fn probe(host: &HostFs, sockets: &[PathBuf], options: &CriOptions) -> Found {
    let answer_timeout = options.answer_timeout.min(QUICKLY);
    let options = CriOptions { patience: Duration::ZERO, answer_timeout, ..options.clone() };
    let host = host.with_limit(answer_timeout);
    let mut found = Found::default();
    for path in sockets {
        match answers(&host, path, &options).await {
            Err(error) if error.is_no_socket() => {}
            Err(error @ (CriError::NotCri { .. } | CriError::Access(_))) => found.error = found.error.or(Some(error)),
            Ok(at) if found.runtimes.iter().any(|(_, known)| matches!(known, Ok(known) if *known == at)) => {}
            answer => found.runtimes.push((path.clone(), answer)),
        }
    }
    found
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
