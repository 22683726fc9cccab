//! Selects the sockets of the runtime.
//!
//! The order of precedence is: the flag, the environment, the kubegc configuration, the crictl configuration, the
//! kubelet configuration, then the first well-known socket that answers. `config` reads the environment and the files.
//! This module only compares values, so that each case is one row of a table in the tests. An endpoint that was named
//! is not tried here: its error names exactly that socket.

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

/// All settings that may name the endpoint of the runtime.
#[derive(Clone, Debug, PartialEq)]
pub struct EndpointCandidates {
    /// `--runtime-endpoint` and `--image-endpoint`.
    pub flag: Named,
    /// `CONTAINER_RUNTIME_ENDPOINT` and `IMAGE_SERVICE_ENDPOINT`.
    pub environment: Named,
    /// `runtime.endpoint` and `runtime.image_endpoint`.
    pub config: Named,
    /// `runtime-endpoint` and `image-endpoint` in the host's `/etc/crictl.yaml`.
    pub crictl: Named,
    /// `containerRuntimeEndpoint` and `imageServiceEndpoint` in the kubelet's configuration.
    pub kubelet: Named,
    /// The host. Default: the agent's own root is the host's.
    pub host: HostFs,
    /// The sockets that are tried if no setting names one. Default [`WELL_KNOWN`].
    pub well_known: Vec<PathBuf>,
}

/// The endpoints in one setting. An empty text counts as not set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Named {
    /// The endpoint of the runtime service.
    pub runtime: Option<String>,
    /// The endpoint of the image service.
    pub images: Option<String>,
}

/// The selected sockets.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Endpoint {
    /// The socket of the runtime service, as a path for the agent.
    pub runtime: String,
    /// The socket of the image service. Equal to `runtime` unless another one is named.
    pub images: String,
    /// The setting that named the runtime's socket.
    pub chosen_by: Rule,
}

/// The setting or rule that selected the endpoint.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Rule {
    /// The flag.
    Flag,
    /// The environment.
    Environment,
    /// The kubegc configuration.
    Config,
    /// The crictl configuration.
    Crictl,
    /// The kubelet configuration.
    Kubelet,
    /// The first well-known socket that answered.
    WellKnown,
}

// === impl EndpointCandidates ===

impl Default for EndpointCandidates {
    fn default() -> Self {
        Self {
            flag: Named::default(),
            environment: Named::default(),
            config: Named::default(),
            crictl: Named::default(),
            kubelet: Named::default(),
            host: HostFs::default(),
            well_known: WELL_KNOWN.map(PathBuf::from).into(),
        }
    }
}

impl EndpointCandidates {
    fn strongest_first(&self) -> [(Rule, &Named); 5] {
        [
            (Rule::Flag, &self.flag),
            (Rule::Environment, &self.environment),
            (Rule::Config, &self.config),
            (Rule::Crictl, &self.crictl),
            (Rule::Kubelet, &self.kubelet),
        ]
    }

    /// Returns the endpoint of the runtime with the highest precedence, and the setting that names it.
    fn named(&self) -> Option<(Rule, &str)> {
        self.strongest_first().into_iter().find_map(|(rule, named)| Some((rule, meant(named.runtime.as_ref())?)))
    }

    /// Returns the endpoint of the image service with the highest precedence. The settings of kubegc count
    /// independently of the runtime endpoint. The crictl or kubelet configuration counts only if it also named the
    /// runtime endpoint.
    fn images_named(&self, runtime_by: Rule) -> Option<(Rule, &str)> {
        let ours = |rule| matches!(rule, Rule::Flag | Rule::Environment | Rule::Config);
        let mut places = self.strongest_first().into_iter().filter(|(rule, _)| ours(*rule) || *rule == runtime_by);
        places.find_map(|(rule, named)| Some((rule, meant(named.images.as_ref())?)))
    }
}

// === impl Rule ===

impl Rule {
    /// Returns the name of the rule, for logs and errors.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Flag => "--runtime-endpoint",
            Self::Environment => "CONTAINER_RUNTIME_ENDPOINT",
            Self::Config => "runtime.endpoint",
            Self::Crictl => "/etc/crictl.yaml",
            Self::Kubelet => "the kubelet's configuration",
            Self::WellKnown => "well-known sockets",
        }
    }

    /// Returns the name of the matching setting for the image service.
    fn images_as_str(self) -> &'static str {
        match self {
            Self::Flag => "--image-endpoint",
            Self::Environment => "IMAGE_SERVICE_ENDPOINT",
            Self::Config => "runtime.image_endpoint",
            other => other.as_str(),
        }
    }
}

impl std::fmt::Display for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

/// Selects the endpoint. Connects only to well-known sockets.
pub async fn resolve(candidates: &EndpointCandidates, options: &CriOptions) -> Result<Endpoint, CriError> {
    let host = candidates.host.with_limit(options.answer_timeout);
    let (runtime, rule) = match candidates.named() {
        Some((rule, endpoint)) => (locate(&host, unix_path(endpoint, rule.as_str())?).await?, rule),
        None => (first_that_answers(candidates, options).await?, Rule::WellKnown),
    };
    let images = match candidates.images_named(rule) {
        Some((rule, endpoint)) => locate(&host, unix_path(endpoint, rule.images_as_str())?).await?,
        None => runtime.clone(),
    };
    Ok(Endpoint { runtime: text(&runtime), images: text(&images), chosen_by: rule })
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
fn unix_path(endpoint: &str, named_by: &'static str) -> Result<PathBuf, CriError> {
    let path = endpoint.strip_prefix("unix://").or_else(|| endpoint.strip_prefix("unix:")).unwrap_or(endpoint);
    if path.starts_with('/') {
        return Ok(path.into());
    }
    Err(CriError::NotUnix { endpoint: endpoint.to_owned(), named_by })
}

/// Returns the trimmed endpoint, unless it is empty.
fn meant(endpoint: Option<&String>) -> Option<&str> {
    endpoint.map(|endpoint| endpoint.trim()).filter(|endpoint| !endpoint.is_empty())
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests;
