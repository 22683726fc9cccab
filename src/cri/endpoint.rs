//! Which sockets to speak to.
//!
//! Strongest first: the flag, the environment, our configuration, crictl's, the kubelet's, and at last the well-known
//! sockets, first that answers. The reading of environment and files is `config`'s; here are only values, so that every
//! case is a row of a table. What was named is not tried here: whoever named it gets the error of that very socket.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use super::rooted::{self, Place};
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

const CRICTL: &str = "/etc/crictl.yaml";
const KUBELET: &str = "the kubelet's configuration";

/// The longest wait for a socket that nobody named.
const QUICKLY: Duration = Duration::from_secs(2);

/// All that may say where the runtime is.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidates {
    /// `--runtime-endpoint` and `--image-endpoint`.
    pub flag: Named,
    /// `CONTAINER_RUNTIME_ENDPOINT` and `IMAGE_SERVICE_ENDPOINT`.
    pub environment: Named,
    /// `runtime.endpoint` and `runtime.image_endpoint`.
    pub config: Named,
    /// The text of the host's `/etc/crictl.yaml`; `None` = there is none.
    pub crictl: Option<String>,
    /// The text of the kubelet's configuration; `None` = not given.
    pub kubelet: Option<String>,
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

/// The keys of crictl's configuration that count here.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct CrictlFile {
    runtime_endpoint: Option<String>,
    image_endpoint: Option<String>,
}

/// The keys of a `KubeletConfiguration` that count here.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct KubeletFile {
    container_runtime_endpoint: Option<String>,
    image_service_endpoint: Option<String>,
}

// === impl Candidates ===

impl Default for Candidates {
    fn default() -> Self {
        Self {
            flag: Named::default(),
            environment: Named::default(),
            config: Named::default(),
            crictl: None,
            kubelet: None,
            host_root: "/".into(),
            well_known: WELL_KNOWN.map(PathBuf::from).into(),
        }
    }
}

// === impl Rule ===

impl Rule {
    fn as_str(self) -> &'static str {
        match self {
            Self::Flag => "--runtime-endpoint",
            Self::Environment => "CONTAINER_RUNTIME_ENDPOINT",
            Self::Config => "runtime.endpoint",
            Self::Crictl => CRICTL,
            Self::Kubelet => KUBELET,
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

/// Finds the endpoint. Files are understood only when it comes to them: a broken one does not stand in the way of what
/// is named above it. Only the well-known sockets are connected to.
pub async fn resolve(candidates: &Candidates, options: &CriOptions) -> Result<Endpoint, CriError> {
    let root = &candidates.host_root;
    let (runtime, rule, named_with_it) = match named(candidates)? {
        Some((rule, named)) => (seen(root, &unix_path(named.runtime.as_deref(), rule.as_str())?), rule, named.images),
        None => (first_that_answers(candidates, options).await?, Rule::WellKnown, None),
    };
    let images = match image_endpoint(candidates, rule, named_with_it) {
        Some((named_by, endpoint)) => seen(root, &unix_path(Some(&endpoint), named_by)?),
        None => runtime.clone(),
    };
    Ok(Endpoint { runtime: text(&runtime), images: text(&images), chosen_by: rule })
}

/// The strongest place that names the runtime's endpoint, with what it names.
fn named(candidates: &Candidates) -> Result<Option<(Rule, Named)>, CriError> {
    let settings = [
        (Rule::Flag, &candidates.flag),
        (Rule::Environment, &candidates.environment),
        (Rule::Config, &candidates.config),
    ];
    for (rule, named) in settings {
        if is_named(named.runtime.as_ref()) {
            return Ok(Some((rule, named.clone())));
        }
    }
    if let Some(file) = parse::<CrictlFile>(CRICTL, candidates.crictl.as_deref())?
        && is_named(file.runtime_endpoint.as_ref())
    {
        return Ok(Some((Rule::Crictl, Named { runtime: file.runtime_endpoint, images: file.image_endpoint })));
    }
    if let Some(file) = parse::<KubeletFile>(KUBELET, candidates.kubelet.as_deref())?
        && is_named(file.container_runtime_endpoint.as_ref())
    {
        let (runtime, images) = (file.container_runtime_endpoint, file.image_service_endpoint);
        return Ok(Some((Rule::Kubelet, Named { runtime, images })));
    }
    Ok(None)
}

/// The image service's endpoint, where one is named: a setting of its own, from flag to configuration, and from a file
/// only along with the runtime's.
fn image_endpoint(candidates: &Candidates, rule: Rule, in_file: Option<String>) -> Option<(&'static str, String)> {
    let settings = [
        (Rule::Flag, candidates.flag.images.clone()),
        (Rule::Environment, candidates.environment.images.clone()),
        (Rule::Config, candidates.config.images.clone()),
        (rule, in_file),
    ];
    let named = settings.into_iter().find(|(_, images)| is_named(images.as_ref()));
    named.and_then(|(rule, images)| Some((rule.images_as_str(), images?)))
}

/// Tries the well-known sockets in turn. One that is there and does not work is worth more to the reader than a list.
async fn first_that_answers(candidates: &Candidates, options: &CriOptions) -> Result<PathBuf, CriError> {
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
    match rooted::resolve(host_root, path) {
        Ok(Place::There(beneath)) => beneath,
        _ if path.exists() => path.to_path_buf(),
        Ok(Place::Missing(beneath)) => beneath,
        Err(_) => host_root.join(path.strip_prefix("/").unwrap_or(path)),
    }
}

/// The path in a unix endpoint: `unix:///run/x.sock`, `unix:/run/x.sock` or `/run/x.sock`.
fn unix_path(endpoint: Option<&str>, named_by: &'static str) -> Result<PathBuf, CriError> {
    let endpoint = endpoint.unwrap_or_default().trim();
    let path = endpoint.strip_prefix("unix://").or_else(|| endpoint.strip_prefix("unix:")).unwrap_or(endpoint);
    if path.starts_with('/') {
        return Ok(path.into());
    }
    Err(CriError::NotUnix { endpoint: endpoint.to_owned(), named_by })
}

fn parse<'a, T: Deserialize<'a> + Default>(file: &'static str, text: Option<&'a str>) -> Result<Option<T>, CriError> {
    let Some(text) = text.filter(|text| !text.trim().is_empty()) else { return Ok(None) };
    serde_saphyr::from_str(text).map(Some).map_err(|error| CriError::ParseFile { file, cause: error.to_string() })
}

fn is_named(endpoint: Option<&String>) -> bool {
    endpoint.is_some_and(|endpoint| !endpoint.trim().is_empty())
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests;
