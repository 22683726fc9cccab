//! The runtime's sockets: those of the settings, otherwise those of crictl or of the kubelet, otherwise the one that the
//! search finds.

use std::path::Path;

use super::error::Origin;
use super::{Environment, Loaded};
use crate::cri::{CriError, Endpoint, EndpointCandidates, Named};

/// The default configuration file of crictl, below the host's root.
const CRICTL_FILE: &str = "etc/crictl.yaml";
const CRICTL_KEYS: [&str; 2] = ["runtime-endpoint", "image-endpoint"];
const KUBELET_KEYS: [&str; 2] = ["containerRuntimeEndpoint", "imageServiceEndpoint"];
const RUNTIME: &str = "runtime.endpoint";
const IMAGES: &str = "runtime.image_endpoint";

/// The sockets that the configuration of another program names, with their origin.
#[derive(Debug, Default)]
pub(super) struct OtherSockets {
    runtime: Option<(String, Origin)>,
    images: Option<(String, Origin)>,
}

// === impl OtherSockets ===

impl OtherSockets {
    /// Reads crictl's configuration. The file is optional and not kubegc's: if it cannot be read, it names none.
    pub(super) fn of_crictl(environment: &Environment, host_root: &Path) -> Self {
        let path = environment.crictl_config.clone().unwrap_or_else(|| host_root.join(CRICTL_FILE));
        std::fs::read_to_string(&path).map_or_else(|_| Self::default(), |text| Self::named(&path, &text, CRICTL_KEYS))
    }

    /// Reads the text of the kubelet's configuration.
    pub(super) fn of_kubelet(path: &Path, text: &str) -> Self {
        Self::named(path, text, KUBELET_KEYS)
    }

    fn named(path: &Path, text: &str, keys: [&'static str; 2]) -> Self {
        let document: serde_json::Value = serde_saphyr::from_str(text).unwrap_or_default();
        let [runtime, images] = keys.map(|key| {
            let socket = document.get(key)?.as_str()?.trim();
            (!socket.is_empty()).then(|| (socket.to_owned(), Origin::OtherProgram(path.to_owned(), key)))
        });
        Self { runtime, images }
    }
}

// === impl Loaded ===

impl Loaded {
    /// Takes the sockets from the first program that names the runtime's, unless a setting names it. The image service's
    /// comes from the same program, unless a setting names it.
    pub(super) fn adopt(&mut self, others: impl IntoIterator<Item = OtherSockets>) {
        if self.settings.runtime.endpoint.is_none()
            && let Some(OtherSockets { runtime, images }) = others.into_iter().find(|other| other.runtime.is_some())
        {
            self.default_socket(RUNTIME, runtime);
            self.default_socket(IMAGES, images);
        }
    }

    /// Returns the settings with the sockets that are used. If no runtime is found, the origin says why.
    #[must_use]
    pub fn with_endpoint(mut self, found: &Result<Endpoint, CriError>) -> Self {
        match found {
            Ok(endpoint) => {
                self.default_socket(RUNTIME, Some((endpoint.runtime.clone(), Origin::Search)));
                self.default_socket(IMAGES, Some((endpoint.images.clone(), Origin::SameAs(RUNTIME))));
            }
            Err(error) if self.settings.runtime.endpoint.is_none() => {
                self.origins.insert(RUNTIME, Origin::NotFound(error.to_string()));
            }
            Err(_) => {}
        }
        self
    }

    /// Returns the sockets that are named, for the search.
    pub fn candidates(&self) -> EndpointCandidates {
        let named = |socket: &Option<String>, key| {
            let named_by = || self.origins.get(key).map(ToString::to_string).unwrap_or_default();
            socket.clone().map(|endpoint| Named { endpoint, named_by: named_by() })
        };
        let runtime = &self.settings.runtime;
        EndpointCandidates {
            runtime: named(&runtime.endpoint, RUNTIME),
            images: named(&runtime.image_endpoint, IMAGES),
            host_root: self.settings.host_root.clone(),
            ..EndpointCandidates::default()
        }
    }

    /// Sets a socket that is not set yet.
    fn default_socket(&mut self, key: &'static str, socket: Option<(String, Origin)>) {
        let runtime = &mut self.settings.runtime;
        let field = if key == RUNTIME { &mut runtime.endpoint } else { &mut runtime.image_endpoint };
        if field.is_none()
            && let Some((socket, origin)) = socket
        {
            *field = Some(socket);
            self.origins.insert(key, origin);
        }
    }
}
