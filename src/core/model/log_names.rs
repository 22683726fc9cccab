//! Parses and builds the names that the kubelet gives to logs (kubelet 1.36, `legacy.go` and `helpers.go`).

use std::path::{Path, PathBuf};

use super::{ContainerId, LogDir, PodRef, PodUid};

/// The longest file name on Linux file systems. The kubelet shortens the names of log symlinks to it.
const MAX_NAME: usize = 255;
/// The suffix of a log symlink.
const SUFFIX: &str = ".log";
/// The suffixes of a compressed log file, and of one that is being written.
const COMPRESSED: &str = ".gz";
const TEMPORARY: &str = ".tmp";
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

// === impl LogDir ===

impl LogDir {
    /// Returns its pod; `None` = its name is not in the kubelet's format.
    pub fn pod(&self) -> Option<PodRef> {
        pod_of_dir(&self.name)
    }

    /// Returns the uid of its pod, as the kubelet reads it from any name.
    pub fn pod_uid(&self) -> PodUid {
        pod_uid_of_dir(&self.name)
    }
}

/// Returns the pod, the namespace, the container and the ID in the name of a log symlink, if it is in the kubelet's
/// format.
pub fn container_of_link(name: &str) -> Option<(&str, &str, &str, &str)> {
    let name = name.strip_suffix(SUFFIX).filter(|_| has_id(name))?;
    let (name, id) = name.rsplit_once('-')?;
    let mut parts = name.split('_');
    Some((parts.next()?, parts.next()?, parts.next()?, id))
}

/// Returns whether a log symlink has a name in the kubelet's format: `POD_NAMESPACE_CONTAINER-ID.log`, possibly shortened.
pub fn is_log_link(name: &str) -> bool {
    has_id(name) || is_log_link_without_id(name)
}

/// Returns whether a log symlink has a name of the kubelet from which too little of the ID is left: it has the greatest
/// length, and begins as `POD_NAMESPACE_CONTAINER-ID`.
pub fn is_log_link_without_id(name: &str) -> bool {
    let Some(rest) = name.strip_suffix(SUFFIX).filter(|_| name.len() == MAX_NAME && !has_id(name)) else {
        return false;
    };
    let (whole, cut) = rest.rsplit_once('_').unwrap_or(("", rest));
    let is_whole = whole.is_empty() || whole.split('_').all(is_name);
    is_whole && rest.matches('_').count() <= 2 && (cut.is_empty() || cut.bytes().all(is_word)) && !rest.starts_with('_')
}

fn has_id(name: &str) -> bool {
    let Some(id) = container_id_of_link(name) else { return false };
    let is_hex = id.as_str().bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hex && name.matches('_').count() == 2
}

/// Returns whether a name has only ASCII letters, digits, dots and dashes, and at least one letter or digit. All
/// Kubernetes names in a path do. `.` and `..` do not.
fn is_name(name: &str) -> bool {
    name.bytes().all(is_word) && name.bytes().any(|byte| byte.is_ascii_alphanumeric())
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.'
}

fn is_uuid(uid: &str) -> bool {
    let digits = uid.bytes().filter(|&byte| byte != b'-');
    digits.clone().count() == 32 && digits.clone().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns the name of a pod's log directory.
pub fn log_dir_name(pod: &PodRef) -> String {
    format!("{}_{}_{}", pod.namespace, pod.name, pod.uid)
}

/// Returns the directory of a container's logs beneath the pod log root, if both its names can be the kubelet's.
pub fn container_log_dir(pod: &PodRef, container: &str) -> Option<PathBuf> {
    log_dir_of(pod).filter(|_| is_name(container)).map(|dir| Path::new(&dir).join(container))
}

/// Returns the name of a pod's log directory, if the pod's names can be the kubelet's.
pub fn log_dir_of(pod: &PodRef) -> Option<String> {
    Some(log_dir_name(pod)).filter(|dir| pod_of_dir(dir).as_ref() == Some(pod))
}

/// Returns the name of the log file of an instance, which is not rotated yet.
pub fn log_file_name(attempt: u32) -> String {
    format!("{attempt}{SUFFIX}")
}

/// Returns the attempt in the name of a log file, rotated or not: `3.log`, `3.log.20260102-150405.gz`.
pub fn attempt_of_log(name: &str) -> Option<u32> {
    let (attempt, rest) = name.split_once(SUFFIX)?;
    let attempt = attempt.parse().ok()?;
    // `03.log` is no name of the kubelet.
    let is_canonical = name.len() - rest.len() == log_file_name(attempt).len();
    (is_canonical && (rest.is_empty() || rest.starts_with('.'))).then_some(attempt)
}

/// Returns whether a log file is not rotated, by its name.
pub fn is_current_log(name: &str) -> bool {
    attempt_of_log(name).is_some_and(|attempt| name == log_file_name(attempt))
}

/// Returns the name that a rotated log file had before the kubelet compressed it: `3.log.20260102-150405` for itself, and for the same
/// with `.gz`, or with `.tmp` while it is being compressed (1.36, `container_log_manager.go`). `None` = it is no such file.
pub fn rotated_log(name: &str) -> Option<&str> {
    let rotated = name.strip_suffix(COMPRESSED).or_else(|| name.strip_suffix(TEMPORARY)).unwrap_or(name);
    let (log, time) = rotated.rsplit_once('.')?;
    let (day, second) = time.split_once('-')?;
    let are_digits = |text: &str, count| text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    (is_current_log(log) && are_digits(day, 8) && are_digits(second, 6)).then_some(rotated)
}

/// Returns whether the kubelet may be compressing a rotated file, of which `is_young` says for each of its forms that exists whether it was
/// written a short time ago. It writes the temporary file, renames it, and removes the rotated one (1.36, `compressLog`). Where it was
/// ended in between, both forms stay: at the next rotation it removes the temporary or the uncompressed one itself.
///
/// # Errors
/// Those of `is_young`.
pub fn is_compressing<E>(name: &str, mut is_young: impl FnMut(&str) -> Result<Option<bool>, E>) -> Result<bool, E> {
    let Some(rotated) = rotated_log(name) else { return Ok(false) };
    let mut form = |suffix| is_young(&format!("{rotated}{suffix}"));
    Ok(form(TEMPORARY)? == Some(true) || form(COMPRESSED)? == Some(true) && form("")?.is_some())
}

/// The name of a log file. In their order the files of a container have its lines from the first to the last.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct LogFileName {
    /// The attempt of its instance.
    pub attempt: u32,
    /// Whether the runtime writes to it or did so last. A rotated file has earlier lines.
    pub is_current: bool,
    /// When it was rotated, as in the name: `20260102-150405`; empty if it is not.
    rotated_at: String,
    /// Whether it is compressed. For a moment the kubelet has the same file in both forms.
    pub is_compressed: bool,
}

// === impl LogFileName ===

impl LogFileName {
    /// Reads the name of a log file: `ATTEMPT.log[.TIME[.gz]]` (kubelet 1.36, `pkg/kubelet/logs/container_log_manager.go`). `None` = no
    /// such name, for example that of a temporary file.
    pub fn parse(name: &str) -> Option<Self> {
        let (attempt, is_compressed) = (attempt_of_log(name)?, name.ends_with(COMPRESSED));
        if is_current_log(name) {
            return Some(Self { attempt, is_current: true, rotated_at: String::new(), is_compressed });
        }
        let (_, time) = rotated_log(name).filter(|_| !name.ends_with(TEMPORARY))?.rsplit_once('.')?;
        Some(Self { attempt, is_current: false, rotated_at: time.to_owned(), is_compressed })
    }

    /// Returns whether both are the same file, compressed or not.
    pub fn is_twin(&self, other: &Self) -> bool {
        (self.attempt, &self.rotated_at) == (other.attempt, &other.rotated_at)
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_directory_is_named_after_its_pod() {
        let old = "01234567-89ab-cdef-0123-456789abcdef";
        let rows = [
            ("default_web-0_u1", Some(("default", "web-0", "u1"))),
            ("kube-system_etcd.node-1_0123abc", Some(("kube-system", "etcd.node-1", "0123abc"))),
            (old, Some(("", "", old))),
            ("0123456789abcdef0123456789abcdef", Some(("", "", "0123456789abcdef0123456789abcdef"))),
            ("0123456789abcdef0123456789abcde", None),
            ("0123456789abcdef0123456789abcdex", None),
            ("default_web-0", None),
            ("default_web-0_u1_2", None),
            ("default__u1", None),
            ("default_web_..", None),
            ("default_web_.-", None),
            ("default_web_u/1", None),
            ("lost+found", None),
        ];
        for (name, pod) in rows {
            let pod = pod.map(|(namespace, name, uid): (&str, &str, &str)| PodRef {
                uid: uid.into(),
                namespace: namespace.into(),
                name: name.into(),
            });
            assert_eq!(pod_of_dir(name), pod, "{name}");
            let dir = pod.as_ref().filter(|pod| !pod.name.is_empty()).map(log_dir_name);
            assert_eq!(dir.unwrap_or_else(|| name.to_owned()), name);
        }
        assert_eq!(["a_b_u", "u", "a_"].map(pod_uid_of_dir), ["u".into(), "u".into(), "".into()]);
    }

    #[test]
    fn a_log_file_is_named_after_its_attempt() {
        let rows = [
            ("0.log", Some(0)),
            ("12.log", Some(12)),
            ("3.log.20260102-150405", Some(3)),
            ("3.log.20260102-150405.gz", Some(3)),
            ("03.log", None),
            ("+3.log", None),
            ("3.logs", None),
            ("3.txt", None),
            (".log", None),
            ("-1.log", None),
            ("4294967296.log", None),
        ];
        for (name, attempt) in rows {
            assert_eq!(attempt_of_log(name), attempt, "{name}");
        }
        assert_eq!(log_file_name(12), "12.log");
    }

    #[test]
    fn a_rotated_log_has_the_time_of_its_rotation() {
        let rotated = "3.log.20260102-150405";
        let forms = [rotated.to_owned(), format!("{rotated}.gz"), format!("{rotated}.tmp")];
        for form in &forms {
            assert_eq!((rotated_log(form), is_current_log(form)), (Some(rotated), false), "{form}");
        }
        for other in [
            "3.log",
            "03.log.20260102-150405",
            "3.log.2026010-2150405",
            "3.log.20260102-150405.gz.tmp",
            "3.log.20260102-150405.old",
            "3.log.20260102-15040x",
            "3.log.x.20260102-150405",
            "20260102-150405",
        ] {
            assert_eq!(rotated_log(other), None, "{other}");
        }
        assert_eq!(["3.log", "03.log", "3.log.gz"].map(is_current_log), [true, false, false]);
    }

    #[test]
    fn a_file_is_being_compressed_for_a_short_time() {
        let (plain, gz, tmp) = ("3.log.20260102-150405", "3.log.20260102-150405.gz", "3.log.20260102-150405.tmp");
        let rows: [(&[(&str, bool)], bool); 7] = [
            (&[(plain, true)], false),
            (&[(gz, true)], false),
            (&[(plain, false), (tmp, true)], true),
            (&[(tmp, true)], true),
            (&[(plain, false), (tmp, false)], false),
            (&[(plain, false), (gz, true)], true),
            (&[(plain, true), (gz, false)], false),
        ];
        for (files, expected) in rows {
            let is_young = |name: &str| Ok::<_, ()>(files.iter().find(|file| file.0 == name).map(|file| file.1));
            assert_eq!([plain, gz, tmp].map(|name| is_compressing(name, is_young)), [Ok(expected); 3], "{files:?}");
        }
        assert_eq!(is_compressing("3.log", |_| Err(())), Ok(false), "it is not rotated");
    }

    #[test]
    fn log_files_are_in_the_order_of_their_lines() {
        let names = [
            "0.log.20260102-150405.gz",
            "0.log.20260102-150406",
            "0.log.20260102-150406.gz",
            "0.log",
            "2.log.20250102-150405",
            "2.log",
            "10.log",
        ];
        let parsed: Vec<_> = names.iter().map(|name| LogFileName::parse(name).unwrap()).collect();
        assert!(parsed.is_sorted(), "{parsed:?}");
        let twins: Vec<_> = parsed.windows(2).map(|two| two[0].is_twin(&two[1])).collect();
        assert_eq!(twins, [false, true, false, false, false, false]);
    }

    #[test]
    fn other_names_are_no_log_files() {
        let odd = [
            "0.log.20260102-150405.tmp",
            "0.log.20260102-150405.gz.tmp",
            "0.log.tmp",
            "0.log.gz",
            "0.log.",
            "0.log.2026010-150405",
            "0.log.20260102-15040x",
            "0.log.20260102-150405.gz.gz",
            "0.log.20260102-150405\u{1b}[2J",
            "00.log",
            ".0.log",
            "../0.log",
            "0.log/..",
            "",
        ];
        for name in odd {
            assert_eq!(LogFileName::parse(name), None, "{name}");
        }
    }

    /// The labels of a container are data, and no path.
    #[test]
    fn a_container_log_directory_has_names_of_a_kubelet() {
        let pod = |name: &str| PodRef { uid: "u1".into(), namespace: "default".into(), name: name.into() };
        let dir = |pod_name: &str, container: &str| container_log_dir(&pod(pod_name), container);
        assert_eq!(dir("web-0", "app"), Some("default_web-0_u1/app".into()));
        for (name, container) in
            [("..", "app"), ("a/b", "app"), ("a_b", "app"), ("web", ".."), ("web", ""), ("web", "a/b")]
        {
            assert_eq!(dir(name, container), None, "{name} {container}");
        }
    }

    #[test]
    fn a_log_symlink_ends_in_its_container_id() {
        let rows = [
            ("web-0_default_app-0123456789ab.log", Some("0123456789ab"), true),
            ("web-0_default_app-012345.log", Some("012345"), true),
            ("web-0_default_app-01234.log", None, false),
            ("web-0_default_app-0123456789ab", None, false),
            ("web-0_default_app-xyzxyz.log", Some("xyzxyz"), false),
            ("web-0_app-012345.log", Some("012345"), false),
            ("web_0_default_app-012345.log", Some("012345"), false),
        ];
        for (name, id, is_link) in rows {
            assert_eq!((container_id_of_link(name), is_log_link(name)), (id.map(ContainerId::from), is_link), "{name}");
        }
    }

    #[test]
    fn a_long_log_symlink_name_may_have_no_id() {
        let name = |pod: usize, container: &str| {
            log_link_name(&"x".repeat(pod), "default", container, &"0123456789abcdef".into())
        };
        for (pod, container, is_without) in [
            (226, "app", false),
            (232, "app", false),
            (234, "app", true),
            (235, "app", true),
            (238, "app", true),
            (241, "app", true),
            (246, "app", true),
            (253, "app", true),
            (220, "with-a-long-container", true),
        ] {
            let name = name(pod, container);
            assert_eq!(
                (name.len(), is_log_link_without_id(&name), is_log_link(&name)),
                (255, is_without, true),
                "{name}"
            );
            assert_eq!(container_of_link(&name).is_none(), is_without, "{name}");
        }
        for rest in ["x".repeat(250), format!("{}_a_b_c", "x".repeat(245)), format!("a b{}", "x".repeat(248))] {
            assert!(!is_log_link(&format!("{rest}.log")), "{rest}");
        }
        assert!(!is_log_link(&format!("_{}.log", "x".repeat(250))));
        assert!(!is_log_link(&format!("a__{}.log", "x".repeat(248))));
    }

    #[test]
    fn long_log_symlink_names_are_cut_between_characters() {
        let name = |pod: &str| log_link_name(pod, "default", "app", &"0123456789ab".into());
        assert_eq!(name("web-0"), "web-0_default_app-0123456789ab.log");
        assert_eq!(name(&"x".repeat(226)), format!("{}_default_app-0123456789ab.log", "x".repeat(226)));
        assert_eq!(name(&"x".repeat(227)), format!("{}_default_app-0123456789a.log", "x".repeat(227)));
        assert_eq!(name(&"é".repeat(200)), format!("{}.log", "é".repeat(125)));
    }
}
