//! All configuration keys: the name, the field in [`Settings`], the flags, and one line of documentation.
//!
//! Files, flags, `config show`, the JSON Schema and the messages all use this table. A key without an entry does not
//! exist.

use toml::Value;

use super::Settings;
use super::slot::{InvalidValue, Slot};

/// One setting.
#[derive(Debug)]
pub struct Key {
    /// The dotted name, as `images.min_age`.
    pub name: &'static str,
    /// The documentation, one or two sentences.
    pub doc: &'static str,
    /// The flags that set it, without dashes; the help shows the first.
    pub flags: &'static [&'static str],
    /// The flag with one letter.
    pub short: Option<char>,
    slot: Slot,
}

/// All keys, in the order of `config show`.
pub static KEYS: &[Key] = &[
    key(
        "profile",
        Slot::Profile(|s| &mut s.policy.profile),
        "Set of guards: \"safe\" (all) or \"kubelet\" (those of the kubelet).",
    )
    .flags(&["profile"]),
    key("node", Slot::Text(|s| &mut s.node), "The node's name. Empty = the host name.").flags(&["node-name"]),
    key(
        "host_root",
        Slot::Directory(|s| &mut s.host_root),
        "Mount point of the host's root, if the agent runs in a container.",
    )
    .flags(&["host-root"]),
    key(
        "kubelet_root",
        Slot::Directory(|s| &mut s.kubelet_root),
        "Root directory of the kubelet. A pod with a directory in it is not deleted.",
    ),
    key(
        "containers.min_age",
        Slot::Duration(|s| &mut s.policy.containers.min_age),
        "Minimum age of dead containers. Younger ones are kept and not counted.",
    )
    .flags(&["minimum-container-ttl-duration"]),
    key(
        "containers.max_per_pod_container",
        Slot::Limit(|s| &mut s.policy.containers.max_per_pod_container),
        "Dead instances to keep of each container of a pod. Negative = no limit.",
    )
    .flags(&["maximum-dead-containers-per-container"]),
    key(
        "containers.max_containers",
        Slot::Limit(|s| &mut s.policy.containers.max_containers),
        "Dead containers to keep on the node. Negative = no limit.",
    )
    .flags(&["maximum-dead-containers"]),
    key(
        "containers.age_from",
        Slot::AgeFrom(|s| &mut s.policy.containers.age_from),
        "Start of the age of a container: \"created\", as in the kubelet, or \"finished\".",
    ),
    key(
        "containers.evict_terminated_pods",
        Slot::Switch(|s| &mut s.policy.containers.evict_terminated_pods),
        "Remove all dead containers and sandboxes of terminated pods.",
    ),
    key(
        "containers.interval",
        Slot::Wait(|s| &mut s.intervals.containers),
        "Wait of the service after a pass over containers, sandboxes and logs.",
    ),
    key(
        "images.high_threshold_percent",
        Slot::Percent(|s| &mut s.policy.images.high_threshold_percent),
        "Disk usage in percent at which image removal starts. 100 = never for space.",
    )
    .flags(&["image-gc-high-threshold"]),
    key(
        "images.low_threshold_percent",
        Slot::Percent(|s| &mut s.policy.images.low_threshold_percent),
        "Disk usage in percent at which image removal stops.",
    )
    .flags(&["image-gc-low-threshold"]),
    key(
        "images.min_age",
        Slot::Duration(|s| &mut s.policy.images.min_age),
        "Minimum age of images since they were first observed. Younger ones are kept.",
    )
    .flags(&["minimum-image-ttl-duration"]),
    key(
        "images.max_age",
        Slot::Duration(|s| &mut s.policy.images.max_age),
        "Maximum time an image may be unused, whatever the disk usage. 0 = off.",
    )
    .flags(&["image-maximum-gc-age"]),
    key(
        "images.keep",
        Slot::Patterns(|s| &mut s.policy.images.keep),
        "Patterns of images to keep, with * for any text. Compared with tags, digests and ids.",
    ),
    key(
        "images.all_unused",
        Slot::Switch(|s| &mut s.policy.images.all_unused),
        "Remove every unused image, whatever the disk usage.",
    ),
    key("images.interval", Slot::Wait(|s| &mut s.intervals.images), "Wait of the service after a pass over images."),
    key(
        "pressure.free_bytes",
        Slot::Space(|s| &mut s.policy.pressure.free_bytes),
        "Free bytes below which everything unused is removed, objects of terminated pods included. 0 = off.",
    ),
    key(
        "pressure.free_percent",
        Slot::Percent(|s| &mut s.policy.pressure.free_percent),
        "The same with free space in percent. 0 = off.",
    ),
    key(
        "pressure.free_inodes_percent",
        Slot::Percent(|s| &mut s.policy.pressure.free_inodes_percent),
        "The same with free inodes in percent. 0 = off.",
    ),
    key("pressure.interval", Slot::Wait(|s| &mut s.intervals.pressure), "Interval between checks for disk pressure."),
    key(
        "logs.pods_root",
        Slot::LogRoot(|s| &mut s.policy.logs.pods_root),
        "Directory of the kubelet's pod log directories.",
    ),
    key(
        "logs.containers_root",
        Slot::LogRoot(|s| &mut s.policy.logs.containers_root),
        "Directory of the kubelet's links to container logs.",
    ),
    key(
        "guards.keep_newest_of_unit",
        Slot::Switch(|s| &mut s.policy.guards.keep_newest_of_unit),
        "Keep the newest instance of each container of a pod until the pod is deleted.",
    ),
    key(
        "guards.created_grace",
        Slot::Duration(|s| &mut s.policy.guards.created_grace),
        "Keep younger containers that are created and not started: they may be about to start. 0 = off.",
    ),
    key(
        "guards.keep_foreign",
        Slot::Switch(|s| &mut s.policy.guards.keep_foreign),
        "Keep containers and sandboxes without pod labels.",
    ),
    key(
        "guards.sandbox_grace",
        Slot::Duration(|s| &mut s.policy.guards.sandbox_grace),
        "Keep younger dead sandboxes: a sandbox in creation looks dead. 0 = off.",
    ),
    key(
        "guards.gone_after",
        Slot::Duration(|s| &mut s.policy.guards.gone_after),
        "How long a pod must be missing everywhere before it counts as deleted. 0 = missing in the list is enough.",
    ),
    key(
        "guards.keep_unrecognized_logs",
        Slot::Switch(|s| &mut s.policy.guards.keep_unrecognized_logs),
        "Keep log entries whose names the kubelet does not use.",
    ),
    key(
        "guards.match_image_names",
        Slot::Switch(|s| &mut s.policy.guards.match_image_names),
        "Count an image as used if a container names its id, digest or tag, not its id alone.",
    ),
    key(
        "guards.keep_sandbox_image",
        Slot::Switch(|s| &mut s.policy.guards.keep_sandbox_image),
        "Keep the sandbox image of the runtime, pinned or not.",
    ),
    key(
        "guards.keep_pod_images",
        Slot::Switch(|s| &mut s.policy.guards.keep_pod_images),
        "Keep images named in specs of pods of this node, and images being pulled.",
    ),
    key(
        "guards.age_from_first_seen",
        Slot::Switch(|s| &mut s.policy.guards.age_from_first_seen),
        "Count the maximum age of a never-used image from its first observation, and apply the minimum age.",
    ),
    key(
        "guards.settle",
        Slot::Duration(|s| &mut s.policy.guards.settle),
        "Time after a start of the runtime in which nothing counts as unused or deleted. 0 = off.",
    ),
    key(
        "guards.fall_percent",
        Slot::Percent(|s| &mut s.policy.guards.fall_percent),
        "Nothing counts as unused or deleted when a list of the runtime falls below this percentage. 0 = off.",
    ),
    key(
        "guards.fall_hold",
        Slot::Duration(|s| &mut s.policy.guards.fall_hold),
        "How long a list that fell must hold its new level before it is trusted.",
    ),
    key(
        "guards.retry_after",
        Slot::Duration(|s| &mut s.policy.guards.retry_after),
        "Back-off after a failed removal, doubling up to an hour. 0 = retry in each pass.",
    ),
    key(
        "guards.measure_space",
        Slot::Switch(|s| &mut s.policy.guards.measure_space),
        "Remove further images while the measured free space is below the target, whatever the estimated sizes.",
    ),
    key(
        "pods.source",
        Slot::PodSources(|s| &mut s.pods.sources),
        "Pod sources: \"auto\", \"none\", or any of kube-api,kubelet,runtime.",
    )
    .flags(&["pod-source"]),
    key(
        "pods.require_kubelet_dirs",
        Slot::Switch(|s| &mut s.pods.require_kubelet_dirs),
        "Treat no pod as deleted while the kubelet's directory of pods is missing. Not for runtime and none.",
    ),
    key(
        "pods.kubeconfig",
        Slot::OptionalFile(|s| &mut s.pods.kubeconfig),
        "Kubeconfig for the API server. Empty = the in-cluster service account, else the kubelet's kubeconfig.",
    )
    .flags(&["kubeconfig"]),
    key(
        "pods.max_silence",
        Slot::Wait(|s| &mut s.pods.max_silence),
        "Longest silence of a watch of the API server before its list counts as unavailable.",
    ),
    key(
        "pods.kubelet_endpoint",
        Slot::Http(|s| &mut s.pods.kubelet.endpoint),
        "Address of the kubelet. \"http://127.0.0.1:10255\" is its read-only port.",
    ),
    key(
        "pods.kubelet_ca",
        Slot::OptionalFile(|s| &mut s.pods.kubelet.ca),
        "File with the authorities of the kubelet's certificate, or the certificate itself. Empty = search.",
    ),
    key(
        "pods.kubelet_token_file",
        Slot::OptionalFile(|s| &mut s.pods.kubelet.token_file),
        "File with the token for the kubelet. Empty = that of the in-cluster service account, if it exists.",
    ),
    key(
        "pods.kubelet_client_certificate",
        Slot::OptionalFile(|s| &mut s.pods.kubelet.client_certificate),
        "Client certificate for the kubelet.",
    ),
    key(
        "pods.kubelet_client_key",
        Slot::OptionalFile(|s| &mut s.pods.kubelet.client_key),
        "Key of the client certificate. It may be in the same file.",
    ),
    key(
        "runtime.endpoint",
        Slot::Endpoint(|s| &mut s.runtime.endpoint),
        "Socket of the runtime. Empty = that of crictl, of the kubelet, or the first well-known one that answers.",
    )
    .flags(&["runtime-endpoint", "container-runtime-endpoint"])
    .short('r'),
    key(
        "runtime.image_endpoint",
        Slot::Endpoint(|s| &mut s.runtime.image_endpoint),
        "Socket of the image service. Empty = that of the runtime.",
    )
    .flags(&["image-endpoint", "image-service-endpoint"])
    .short('i'),
    key("runtime.read_timeout", Slot::Wait(|s| &mut s.runtime.options.read_timeout), "Timeout of one reading call."),
    key(
        "runtime.removal_timeout",
        Slot::Wait(|s| &mut s.runtime.options.removal_timeout),
        "Timeout of one removal. The removal itself is never cancelled.",
    ),
    key(
        "runtime.max_message_bytes",
        Slot::Bytes(|s| &mut s.runtime.options.max_message_bytes),
        "Largest response accepted from the runtime.",
    ),
    key(
        "runtime.answer_timeout",
        Slot::Wait(|s| &mut s.runtime.options.answer_timeout),
        "Timeout of the Version call: the first call, and the probe after a call without a response.",
    ),
    key(
        "runtime.patience",
        Slot::Duration(|s| &mut s.runtime.options.patience),
        "How long a reading call retries while the runtime is unavailable. 0 = no retry.",
    ),
    key("state.path", Slot::File(|s| &mut s.state.path), "The store: last use and history.").flags(&["state"]),
    key("state.lock", Slot::File(|s| &mut s.state.lock), "Lock file: one agent per node, whatever its store.")
        .flags(&["lock"]),
    key("state.history_max_age", Slot::Duration(|s| &mut s.state.history_max_age), "Maximum age of history."),
    key(
        "state.history_max_rows",
        Slot::Count(|s| &mut s.state.history_max_rows),
        "Maximum number of removals in the history.",
    ),
    key(
        "daemon.max_backoff",
        Slot::Wait(|s| &mut s.intervals.max_backoff),
        "Longest back-off of the service after failed passes.",
    ),
    key(
        "events.enabled",
        Slot::Switch(|s| &mut s.tells_events),
        "Write events on the Node for passes that failed or removed images, if kube-api is a pod source.",
    ),
    key("log.format", Slot::LogFormat(|s| &mut s.log_format), "How the service logs: \"text\" or \"json\"."),
];

/// Returns the key with this dotted name.
pub fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

/// Returns the known name that is most similar to `name`, if any is similar enough.
pub fn nearest(name: &str) -> Option<&'static str> {
    let scored = KEYS.iter().map(|key| (key.likeness(name), key.name));
    scored.filter(|(score, _)| *score > 0.8).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, name)| name)
}

// === impl Key ===

impl Key {
    /// Returns the flag for the help and the messages.
    pub fn flag(&self) -> Option<&'static str> {
        self.flags.first().copied()
    }

    /// Describes the allowed values, as the object of "wants".
    pub fn allowed(&self) -> String {
        self.slot.allowed()
    }

    /// Sets the field to a value from TOML.
    pub fn set(&self, settings: &mut Settings, value: &Value) -> Result<(), InvalidValue> {
        self.slot.set(settings, value)
    }

    /// Returns the value in force, as TOML.
    pub fn get(&self, settings: &Settings) -> Value {
        self.slot.get(settings)
    }

    /// Returns the JSON Schema of the value.
    pub fn schema(&self) -> serde_json::Value {
        self.slot.schema()
    }

    /// Returns whether the key can take this type of value if the input has no types: text settings take only text.
    pub(super) fn can_be(&self, value: &Value) -> bool {
        self.slot.can_be(value)
    }

    /// Returns whether the value is unset, so that the next source applies, as for the empty endpoint of the commented
    /// file.
    pub fn says_nothing(&self, value: &Value) -> bool {
        self.slot.may_be_empty() && value.as_str() == Some("")
    }

    /// Returns whether the profile sets the default of this key.
    pub fn is_guard(&self) -> bool {
        self.name.starts_with("guards.")
    }

    const fn flags(mut self, flags: &'static [&'static str]) -> Self {
        self.flags = flags;
        self
    }

    const fn short(mut self, short: char) -> Self {
        self.short = Some(short);
        self
    }

    /// Returns the similarity to a name; 1 = the same, ignoring case and dashes. A flag's name, or a name below this
    /// key, also gives 1. The last part of the name has extra weight: a key in the wrong table is a more common mistake
    /// than a similar key.
    fn likeness(&self, name: &str) -> f64 {
        let (typed, own) = (normal(name), normal(self.name));
        let whole = strsim::jaro_winkler(&typed, &own);
        let last = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
        let tail = strsim::normalized_damerau_levenshtein(&last(&typed), &last(&own));
        let is_flag = self.flags.iter().any(|flag| normal(flag) == last(&typed));
        let is_within = typed.strip_prefix(&own).is_some_and(|rest| rest.starts_with('.'));
        if is_flag || is_within { 1.0 } else { f64::midpoint(whole, tail) }
    }
}

const fn key(name: &'static str, slot: Slot, doc: &'static str) -> Key {
    Key { name, doc, flags: &[], short: None, slot }
}

fn normal(name: &str) -> String {
    name.to_lowercase().replace('-', "_")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn no_name_and_no_flag_occurs_twice() {
        let mut names: Vec<_> = KEYS.iter().flat_map(|key| key.flags.iter().copied().chain([key.name])).collect();
        names.extend(["config", "kubelet-config", "set"]);
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        // `profile` is both a key and its flag.
        assert_eq!(names.len(), all - 1, "{names:?}");
    }

    #[test]
    fn every_field_of_the_settings_has_a_key() {
        let mut other = Settings::default();
        for key in KEYS {
            let value = key.slot.another_value(&other);
            key.set(&mut other, &value).unwrap_or_else(|wrong| panic!("{} = {value}: {wrong:?}", key.name));
        }
        let (before, after) = (leaves(&Settings::default()), leaves(&other));
        let same: Vec<_> = before.iter().filter(|(path, value)| after.get(*path) == Some(value)).collect();
        assert_eq!(same, Vec::new());
    }

    /// Returns the leaf fields of the settings by path, from the `Debug` text.
    fn leaves(settings: &Settings) -> BTreeMap<String, String> {
        let (text, mut path, mut leaves) = (format!("{settings:#?}"), Vec::new(), BTreeMap::new());
        for line in text.lines().map(|line| line.trim().trim_end_matches(',')) {
            let (name, value) = line.split_once(':').unwrap_or(("", line));
            match line.chars().last() {
                Some('{' | '[' | '(') => path.push(name.to_owned()),
                Some('}' | ']' | ')') if line.len() == 1 => drop(path.pop()),
                _ => drop(leaves.insert(format!("{}.{name}", path.join(".")), value.to_owned())),
            }
        }
        leaves
    }

    #[test]
    fn what_is_shown_can_be_written() {
        let settings = Settings::default();
        for key in KEYS {
            let mut again = settings.clone();
            key.set(&mut again, &key.get(&settings)).unwrap_or_else(|wrong| panic!("{}: {wrong:?}", key.name));
            assert_eq!(again, settings, "{}", key.name);
        }
    }

    #[test]
    fn the_nearest_key_is_named() {
        assert_eq!(nearest("image.high_threshold_percent"), Some("images.high_threshold_percent"));
        assert_eq!(nearest("high_threshold_percent"), Some("images.high_threshold_percent"));
        assert_eq!(nearest("images.min-age"), Some("images.min_age"));
        assert_eq!(nearest("containers.max_per_container"), Some("containers.max_per_pod_container"));
        assert_eq!(nearest("image_gc_high_threshold"), Some("images.high_threshold_percent"));
        assert_eq!(nearest("colour"), None);
    }
}
