//! The names that a kubelet gives to logs, read and made (kubelet 1.36, `legacy.go` and `helpers.go`).

use crate::model::{ContainerId, PodUid};

/// The longest file name on Linux file systems, which the kubelet cuts log links to.
const MAX_NAME: usize = 255;
/// What a log link ends in.
const SUFFIX: &str = ".log";
/// The shortest piece of an id that the kubelet takes for one.
const MIN_ID: usize = 6;

/// The pod's uid in the name of a log directory: the text after the last `_`, or all of it in the old form.
///
/// As in the kubelet any name yields something; [`crate::plan::Guards::keep_unrecognized_logs`] asks for more.
pub fn pod_uid_of_dir(name: &str) -> PodUid {
    name.rsplit('_').next().unwrap_or(name).into()
}

/// The container's id in the name of a log link, perhaps cut short: the text after the last `-`, less `.log`.
pub fn container_id_of_link(name: &str) -> Option<ContainerId> {
    let id = name.strip_suffix(SUFFIX)?;
    let id = id.rsplit('-').next().unwrap_or(id);
    (id.len() >= MIN_ID).then(|| id.into())
}

/// The name of a container's log link, cut as the kubelet cuts it.
pub fn log_link_name(pod: &str, namespace: &str, container: &str, id: &ContainerId) -> String {
    let mut name = format!("{pod}_{namespace}_{container}-{id}");
    let mut end = name.len().min(MAX_NAME - SUFFIX.len());
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name.truncate(end);
    name + SUFFIX
}
