//! The runtime's sockets in the configuration of crictl and of the kubelet.

use std::collections::BTreeMap;
use std::path::Path;

use super::environment::Environment;
use super::error::{ConfigError, ConfigFault, Origin};
use super::kubelet::KubeletFiles;
use crate::host_path::{HostFs, Resolved};
use crate::model::yaml_error_text;

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
    /// Reads crictl's configuration.
    ///
    /// # Errors
    /// The environment names the file, and it is missing, unreadable or broken. The one at the default place is optional and
    /// not kubegc's: if it cannot be read, it names none.
    pub(super) fn of_crictl(environment: &Environment, host: &HostFs) -> Result<Self, ConfigError> {
        let Some(path) = &environment.crictl_config else {
            let default = host.resolve(CRICTL_FILE.as_ref()).map(Resolved::into_path);
            return Ok(default.map_or_else(|_| Self::default(), |path| Self::read(&path).unwrap_or_default()));
        };
        Self::read(path).map_err(|cause| {
            let right = format!("cannot read {}: {cause}", path.display());
            ConfigError { faults: vec![ConfigFault::whole(Origin::CRICTL_VARIABLE, right)] }
        })
    }

    fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
        let document = serde_saphyr::from_str::<Option<BTreeMap<String, serde_json::Value>>>(&text);
        let document = document.map_err(|error| yaml_error_text(&error))?.unwrap_or_default();
        Ok(Self::named(CRICTL_KEYS, |key| Some((path, document.get(key)?))))
    }

    /// Reads the kubelet's configuration.
    pub(super) fn of_kubelet(files: &KubeletFiles) -> Self {
        Self::named(KUBELET_KEYS, |key| files.get(key))
    }

    fn named<'a>(keys: [&'static str; 2], get: impl Fn(&str) -> Option<(&'a Path, &'a serde_json::Value)>) -> Self {
        let [runtime, images] = keys.map(|key| {
            let (path, socket) = get(key)?;
            let socket = socket.as_str()?.trim();
            (!socket.is_empty()).then(|| (socket.to_owned(), Origin::OtherProgram(path.to_owned(), key)))
        });
        Self { runtime, images }
    }
}
