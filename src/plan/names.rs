//! The names that a kubelet gives to logs, read and made (kubelet 1.36, `legacy.go` and `helpers.go`).

use crate::model::{ContainerId, PodRef, PodUid};

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

/// The pod in the name of a log directory, if a kubelet can have made it: `NAMESPACE_NAME_UID`, or in the old form a uid
/// of 32 hexadecimal digits, with dashes or without.
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

/// Says whether a kubelet can have made this log link: `POD_NAMESPACE_CONTAINER-ID.log`, perhaps cut.
pub fn is_log_link(name: &str) -> bool {
    let Some(id) = container_id_of_link(name) else { return false };
    let is_hex = id.as_str().bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hex && name.matches('_').count() == 2
}

/// Lower-case letters, digits, dots and dashes, as in all names of Kubernetes that make up a path; never `.` or `..`.
fn is_name(name: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.';
    name.bytes().all(is_word) && name.bytes().any(|byte| byte.is_ascii_alphanumeric())
}

fn is_uuid(uid: &str) -> bool {
    let digits = uid.bytes().filter(|&byte| byte != b'-');
    digits.clone().count() == 32 && digits.clone().all(|byte| byte.is_ascii_hexdigit())
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
