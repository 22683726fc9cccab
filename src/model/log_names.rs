//! Parses and builds the names that the kubelet gives to logs (kubelet 1.36, `legacy.go` and `helpers.go`).

use super::{ContainerId, PodRef, PodUid};

/// The longest file name on Linux file systems. The kubelet shortens the names of log symlinks to it.
const MAX_NAME: usize = 255;
/// The suffix of a log symlink.
const SUFFIX: &str = ".log";
/// The shortest text that the kubelet accepts as a part of an ID.
const MIN_ID: usize = 6;

/// Returns the pod's uid in the name of a log directory: the text after the last `_`, or the whole name in the old
/// format.
///
/// As in the kubelet, every name gives a result; [`pod_of_dir`] is stricter.
pub fn pod_uid_of_dir(name: &str) -> PodUid {
    name.rsplit('_').next().unwrap_or(name).into()
}

/// Returns the pod in the name of a log directory, if the name is in the kubelet's format: `NAMESPACE_NAME_UID`, or in
/// the old format a uid of 32 hexadecimal digits, with or without dashes.
pub fn pod_of_dir(name: &str) -> Option<PodRef> {
    let mut parts = name.split('_');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(namespace), Some(name), Some(uid), None) => {
            let is_ours = [namespace, name, uid].into_iter().all(is_name);
            is_ours.then(|| PodRef { uid: uid.into(), namespace: namespace.into(), name: name.into() })
        }
        (Some(uid), None, ..) if is_uuid(uid) => Some(PodRef { uid: uid.into(), ..PodRef::default() }),
        _ => None,
    }
}

/// Returns whether a log symlink has a name in the kubelet's format: `POD_NAMESPACE_CONTAINER-ID.log`, possibly shortened.
pub fn is_log_link(name: &str) -> bool {
    let Some(id) = container_id_of_link(name) else { return false };
    let is_hex = id.as_str().bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hex && name.matches('_').count() == 2
}

/// Returns whether a name has only ASCII letters, digits, dots and dashes, and at least one letter or digit. All
/// Kubernetes names in a path do. `.` and `..` do not.
fn is_name(name: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.';
    name.bytes().all(is_word) && name.bytes().any(|byte| byte.is_ascii_alphanumeric())
}

fn is_uuid(uid: &str) -> bool {
    let digits = uid.bytes().filter(|&byte| byte != b'-');
    digits.clone().count() == 32 && digits.clone().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns the name of a pod's log directory.
pub fn log_dir_name(pod: &PodRef) -> String {
    format!("{}_{}_{}", pod.namespace, pod.name, pod.uid)
}

/// Returns the container ID in the name of a log symlink, possibly shortened: the text after the last `-`, without
/// `.log`.
pub fn container_id_of_link(name: &str) -> Option<ContainerId> {
    let id = name.strip_suffix(SUFFIX)?;
    let id = id.rsplit('-').next().unwrap_or(id);
    (id.len() >= MIN_ID).then(|| id.into())
}

/// Returns the name of a container's log symlink, shortened in the same way as by the kubelet.
pub fn log_link_name(pod: &str, namespace: &str, container: &str, id: &ContainerId) -> String {
    let mut name = format!("{pod}_{namespace}_{container}-{id}");
    let mut end = name.len().min(MAX_NAME - SUFFIX.len());
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name.truncate(end);
    name + SUFFIX
}
