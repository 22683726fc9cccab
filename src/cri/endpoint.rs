//! Which sockets to speak to.
//!
//! Strongest first: the flag, the environment, our configuration, crictl's, the kubelet's, and at last the well-known
//! sockets, first that answers. The reading of environment and files is `config`'s; here are only values, so that every
//! case is a row of a table. What was named is not tried here: whoever named it gets the error of that very socket.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::host_path::{self, Resolved};
use super::{CriError, CriOptions, RuntimeReader};

/// Sockets of the runtimes and distributions we know, the commonest first. `/var/run` is `/run` on all of them.
pub const WELL_KNOWN: [&str; 7] = [
    "/run/containerd/containerd.sock",
    "/run/crio/crio.sock",
    "/run/cri-dockerd.sock",
    "/run/k3s/containerd/containerd.sock",
    "/run/k0s/containerd.sock",
    "/var/snap/microk8s/common/run/containerd.sock",
    "/run/dockershim.sock",
];

/// The longest wait for a socket that nobody named.
const QUICKLY: Duration = Duration::from_secs(2);

/// All that may say where the runtime is.
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
    /// Where the host's root is mounted. Default `/`.
    pub host_root: PathBuf,
    /// The sockets tried when nothing is named. Default [`WELL_KNOWN`].
    pub well_known: Vec<PathBuf>,
}

/// The endpoints that one place names. An empty text names nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Named {
    /// The runtime service's.
    pub runtime: Option<String>,
    /// The image service's.
    pub images: Option<String>,
}

/// The sockets that were found.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Endpoint {
    /// The runtime service's socket, as the agent sees it.
    pub runtime: String,
    /// The image service's socket; the same unless another is named.
    pub images: String,
    /// What named the runtime's.
    pub chosen_by: Rule,
}

/// What chose the endpoint.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Rule {
    /// The flag.
    Flag,
    /// The environment.
    Environment,
    /// Our configuration.
    Config,
    /// crictl's configuration.
    Crictl,
    /// The kubelet's configuration.
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
            host_root: "/".into(),
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

    /// The strongest place that names the runtime's endpoint, and what it names.
    fn named(&self) -> Option<(Rule, &str)> {
        self.strongest_first().into_iter().find_map(|(rule, named)| Some((rule, meant(named.runtime.as_ref())?)))
    }

    /// The strongest place that names the image service's. Ours are settings of their own; crictl's and the kubelet's go
    /// only with the runtime that they name themselves.
    fn images_named(&self, runtime_by: Rule) -> Option<(Rule, &str)> {
        let ours = |rule| matches!(rule, Rule::Flag | Rule::Environment | Rule::Config);
        let mut places = self.strongest_first().into_iter().filter(|(rule, _)| ours(*rule) || *rule == runtime_by);
        places.find_map(|(rule, named)| Some((rule, meant(named.images.as_ref())?)))
    }
}

// === impl Rule ===

impl Rule {
    /// The rule in words, for logs and errors.
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

    /// What names the image service's endpoint where this names the runtime's.
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

/// Finds the endpoint. Only the well-known sockets are connected to.
pub async fn resolve(candidates: &EndpointCandidates, options: &CriOptions) -> Result<Endpoint, CriError> {
    let root = &candidates.host_root;
    let (runtime, rule) = match candidates.named() {
        Some((rule, endpoint)) => (seen(root, &unix_path(endpoint, rule.as_str())?), rule),
        None => (first_that_answers(candidates, options).await?, Rule::WellKnown),
    };
    let images = match candidates.images_named(rule) {
        Some((rule, endpoint)) => seen(root, &unix_path(endpoint, rule.images_as_str())?),
        None => runtime.clone(),
    };
    Ok(Endpoint { runtime: text(&runtime), images: text(&images), chosen_by: rule })
}

/// Tries the well-known sockets in turn. One that is there and does not work is worth more to the reader than a list.
async fn first_that_answers(candidates: &EndpointCandidates, options: &CriOptions) -> Result<PathBuf, CriError> {
    let answer_timeout = options.answer_timeout.min(QUICKLY);
    let options = CriOptions { patience: Duration::ZERO, answer_timeout, ..options.clone() };
    let mut there = None;
    for path in &candidates.well_known {
        let path = seen(&candidates.host_root, path);
        let endpoint = text(&path);
        match RuntimeReader::new(&endpoint, &endpoint, options.clone()).check().await {
            Ok(()) => return Ok(path),
            Err(CriError::NoSocket { .. }) => {}
            Err(error) => there = there.or(Some(error)),
        }
    }
    let tried = candidates.well_known.iter().map(|path| text(path)).collect();
    Err(there.unwrap_or(CriError::NoEndpoint { tried }))
}

/// Where a path of the host is for the agent. A socket that is mounted by itself, under its own path, counts too.
fn seen(host_root: &Path, path: &Path) -> PathBuf {
    if host_root == Path::new("/") {
        return path.to_path_buf();
    }
    match host_path::resolve(host_root, path) {
        Ok(Resolved::Exists(beneath)) => beneath,
        _ if path.exists() => path.to_path_buf(),
        Ok(Resolved::Missing(beneath)) => beneath,
        Err(_) => host_root.join(path.strip_prefix("/").unwrap_or(path)),
    }
}

/// The path in a unix endpoint: `unix:///run/x.sock`, `unix:/run/x.sock` or `/run/x.sock`.
fn unix_path(endpoint: &str, named_by: &'static str) -> Result<PathBuf, CriError> {
    let path = endpoint.strip_prefix("unix://").or_else(|| endpoint.strip_prefix("unix:")).unwrap_or(endpoint);
    if path.starts_with('/') {
        return Ok(path.into());
    }
    Err(CriError::NotUnix { endpoint: endpoint.to_owned(), named_by })
}

/// What was written, unless it is empty.
fn meant(endpoint: Option<&String>) -> Option<&str> {
    endpoint.map(|endpoint| endpoint.trim()).filter(|endpoint| !endpoint.is_empty())
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests;
