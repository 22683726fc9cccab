//! The runtime's sockets in the configuration of crictl and of the kubelet.

use std::path::Path;

use super::environment::Environment;
use super::error::Origin;
use crate::host_path::{HostFs, Resolved};

/// The default configuration file of crictl, on the host.
const CRICTL_FILE: &str = "/etc/crictl.yaml";
const CRICTL_KEYS: [&str; 2] = ["runtime-endpoint", "image-endpoint"];
const KUBELET_KEYS: [&str; 2] = ["containerRuntimeEndpoint", "imageServiceEndpoint"];
/// The keys of the sockets.
pub(super) const RUNTIME: &str = "runtime.endpoint";
pub(super) const IMAGES: &str = "runtime.image_endpoint";

/// The sockets that the configuration of another program names, with their origin.
#[derive(Debug, Default)]
pub(super) struct OtherSockets {
    pub(super) runtime: Option<(String, Origin)>,
    pub(super) images: Option<(String, Origin)>,
}

// === impl OtherSockets ===

impl OtherSockets {
    /// Reads crictl's configuration. The file is optional and not kubegc's: if it cannot be read, it names none.
    pub(super) fn of_crictl(environment: &Environment, host: &HostFs) -> Self {
        let on_host = || host.resolve(CRICTL_FILE.as_ref()).map(Resolved::into_path);
        let path = environment.crictl_config.clone().map_or_else(on_host, Ok);
        let read = path.and_then(|path| Ok((std::fs::read_to_string(&path)?, path)));
        read.map_or_else(|_| Self::default(), |(text, path)| Self::named(&path, &text, CRICTL_KEYS))
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
