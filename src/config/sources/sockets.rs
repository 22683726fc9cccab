//! The runtime's sockets in the configuration of crictl and of the kubelet.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value as Json;

use super::environment::Environment;
use super::files::read_regular;
use super::kubelet_config::KubeletFiles;
use crate::config::config_error::{ConfigError, ConfigFault, Origin};
use crate::host_path::{HostFs, Resolved};
use crate::model::yaml_error_text;

/// The default configuration file of crictl, on the host.
const CRICTL_FILE: &str = "/etc/crictl.yaml";

/// The sockets of the runtime and of the image service that the configuration of another program names, with their origin.
pub(in crate::config) type Sockets = [Option<(String, Origin)>; 2];

/// Reads crictl's configuration.
///
/// # Errors
/// The environment names the file, and it is missing, unreadable or broken. The one at the default place is optional and not
/// kubegc's: if it cannot be read, it names none.
pub(in crate::config) fn of_crictl(environment: &Environment, host: &HostFs) -> Result<Sockets, ConfigError> {
    let Some(path) = &environment.crictl_config else {
        let default = host.resolve(CRICTL_FILE.as_ref()).map(Resolved::into_path);
        return Ok(default.ok().and_then(|path| read(&path).ok()).unwrap_or_default());
    };
    read(path).map_err(|cause| {
        let right = format!("cannot read {}: {cause}", path.display());
        ConfigError { faults: vec![ConfigFault::whole(Origin::CRICTL_VARIABLE, right)] }
    })
}

fn read(path: &Path) -> Result<Sockets, String> {
    let text = read_regular(path).map_err(|error| error.to_string())?.0;
    let document = serde_saphyr::from_str::<Option<BTreeMap<String, Json>>>(&text);
    let document = document.map_err(|error| yaml_error_text(&error))?.unwrap_or_default();
    Ok(named(["runtime-endpoint", "image-endpoint"], |key| Some((path, document.get(key)?))))
}

/// Returns the sockets in the kubelet's configuration.
pub(super) fn of_kubelet(files: &KubeletFiles) -> Sockets {
    named(["containerRuntimeEndpoint", "imageServiceEndpoint"], |key| files.get(key))
}

fn named<'a>(keys: [&'static str; 2], get: impl Fn(&str) -> Option<(&'a Path, &'a Json)>) -> Sockets {
    keys.map(|key| {
        let (path, socket) = get(key)?;
        let socket = socket.as_str()?.trim();
        (!socket.is_empty()).then(|| (socket.to_owned(), Origin::OtherProgram(path.to_owned(), key)))
    })
}
