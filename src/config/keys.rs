//! Every key there is: its name, where its value lives in [`Settings`], the flags that mean the same, one line of doc.
//!
//! Files, flags, `config show`, the JSON Schema and the messages all go by this one table: a key that is missing here
//! does not exist.

use toml::Value;

use super::Settings;
use super::slot::{InvalidValue, Slot};

/// One setting.
#[derive(Debug)]
pub struct Key {
    /// Its dotted name, as `images.min_age`.
    pub name: &'static str,
    /// What it sets, as one or two sentences.
    pub doc: &'static str,
    /// The flags that set it, without dashes; the first is the one that the help shows.
    pub flags: &'static [&'static str],
    /// The flag of one letter.
    pub short: Option<char>,
    slot: Slot,
}

/// All keys, in the order in which `config show` prints them.
pub static KEYS: &[Key] = &[
    key(
        "profile",
        Slot::Profile(|s| &mut s.policy.profile),
        "The set of rules: \"safe\", or the kubelet's own and nothing more.",
    )
    .flags(&["profile"]),
    key("node", Slot::Text(|s| &mut s.node), "The node's name. Empty = the host name.").flags(&["node-name"]),
    key(
        "host_root",
        Slot::Directory(|s| &mut s.host_root),
        "Where the host's root is mounted, when the agent runs in a container.",
    )
    .flags(&["host-root"]),
    key(
        "kubelet_root",
        Slot::Directory(|s| &mut s.kubelet_root),
        "The kubelet's directory: a pod with a directory in it is not gone.",
    ),
    key(
        "containers.min_age",
        Slot::Duration(|s| &mut s.policy.containers.min_age),
        "Younger dead containers stay and are not counted.",
    )
    .flags(&["minimum-container-ttl-duration"]),
    key(
        "containers.max_per_pod_container",
        Slot::Limit(|s| &mut s.policy.containers.max_per_pod_container),
        "Dead instances kept of each container of a pod. Negative = no limit.",
    )
    .flags(&["maximum-dead-containers-per-container"]),
    key(
        "containers.max_containers",
        Slot::Limit(|s| &mut s.policy.containers.max_containers),
        "Dead containers kept on the node. Negative = no limit.",
    )
    .flags(&["maximum-dead-containers"]),
    key(
        "containers.age_from",
        Slot::AgeFrom(|s| &mut s.policy.containers.age_from),
        "The moment that min_age counts from: \"created\", as the kubelet, or \"finished\".",
    ),
    key(
        "containers.evict_terminated_pods",
        Slot::Switch(|s| &mut s.policy.containers.evict_terminated_pods),
        "Pods that finished but still exist lose all dead containers and sandboxes.",
    ),
    key(
        "containers.interval",
        Slot::Wait(|s| &mut s.intervals.containers),
        "How long the service waits after a pass over containers, sandboxes and logs.",
    ),
    key(
        "images.high_threshold_percent",
        Slot::Percent(|s| &mut s.policy.images.high_threshold_percent),
        "Used space in percent at which images begin to go. 100 = never for space.",
    )
    .flags(&["image-gc-high-threshold"]),
    key(
        "images.low_threshold_percent",
        Slot::Percent(|s| &mut s.policy.images.low_threshold_percent),
        "Used space in percent at which it stops.",
    )
    .flags(&["image-gc-low-threshold"]),
    key("images.min_age", Slot::Duration(|s| &mut s.policy.images.min_age), "Images first seen less long ago stay.")
        .flags(&["minimum-image-ttl-duration"]),
    key(
        "images.max_age",
        Slot::Duration(|s| &mut s.policy.images.max_age),
        "Images unused for longer go whatever the disk says. 0 = off.",
    )
    .flags(&["image-maximum-gc-age"]),
    key(
        "images.keep",
        Slot::Patterns(|s| &mut s.policy.images.keep),
        "Names that stay: * stands for any text. Compared with tags, digests and ids.",
    ),
    key(
        "images.all_unused",
        Slot::Switch(|s| &mut s.policy.images.all_unused),
        "Every unused image goes, whatever the disk says.",
    ),
    key(
        "images.interval",
        Slot::Wait(|s| &mut s.intervals.images),
        "How long the service waits after a pass over images.",
    ),
    key(
        "pressure.free_bytes",
        Slot::Space(|s| &mut s.policy.pressure.free_bytes),
        "A disk with fewer free bytes is short: what finished pods leave and every unused image goes. 0 = off.",
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
    key(
        "pressure.interval",
        Slot::Wait(|s| &mut s.intervals.pressure),
        "How often the service looks whether a disk is short.",
    ),
    key(
        "logs.pods_root",
        Slot::LogRoot(|s| &mut s.policy.logs.pods_root),
        "Where the kubelet keeps the log directories of pods.",
    ),
    key(
        "logs.containers_root",
        Slot::LogRoot(|s| &mut s.policy.logs.containers_root),
        "Where the kubelet keeps the links to container logs.",
    ),
    key(
        "guards.keep_newest_of_unit",
        Slot::Switch(|s| &mut s.policy.guards.keep_newest_of_unit),
        "Keeps the newest instance of each container of a pod until the pod is gone.",
    ),
    key(
        "guards.created_grace",
        Slot::Duration(|s| &mut s.policy.guards.created_grace),
        "Keeps younger containers that were created and not started: they may be about to start. 0 = off.",
    ),
    key(
        "guards.keep_foreign",
        Slot::Switch(|s| &mut s.policy.guards.keep_foreign),
        "Leaves containers and sandboxes without pod labels alone.",
    ),
    key(
        "guards.sandbox_grace",
        Slot::Duration(|s| &mut s.policy.guards.sandbox_grace),
        "Keeps younger dead sandboxes: one in the making looks dead. 0 = off.",
    ),
    key(
        "guards.gone_after",
        Slot::Duration(|s| &mut s.policy.guards.gone_after),
        "How long a pod must be missing everywhere before it counts as gone. 0 = absence from the list is enough.",
    ),
    key(
        "guards.keep_unrecognized_logs",
        Slot::Switch(|s| &mut s.policy.guards.keep_unrecognized_logs),
        "Keeps log entries whose names are not a kubelet's.",
    ),
    key(
        "guards.match_image_names",
        Slot::Switch(|s| &mut s.policy.guards.match_image_names),
        "Counts an image as used if a container names it by id, digest or tag, and not by id alone.",
    ),
    key(
        "guards.keep_sandbox_image",
        Slot::Switch(|s| &mut s.policy.guards.keep_sandbox_image),
        "Keeps the image of the runtime's sandboxes, pinned or not.",
    ),
    key(
        "guards.keep_pod_images",
        Slot::Switch(|s| &mut s.policy.guards.keep_pod_images),
        "Keeps images that pods of this node name, and those being pulled.",
    ),
    key(
        "guards.age_from_first_seen",
        Slot::Switch(|s| &mut s.policy.guards.age_from_first_seen),
        "Counts the maximum age of a never-used image from its first sight, and obeys the minimum age too.",
    ),
    key(
        "guards.settle",
        Slot::Duration(|s| &mut s.policy.guards.settle),
        "Nothing counts as unused or gone for this long after the runtime started. 0 = off.",
    ),
    key(
        "guards.fall_percent",
        Slot::Percent(|s| &mut s.policy.guards.fall_percent),
        "Nothing counts as unused or deleted when a list of the runtime falls below this percentage. 0 = off.",
    ),
    key(
        "guards.fall_hold",
        Slot::Duration(|s| &mut s.policy.guards.fall_hold),
        "How long a list that fell must stay at its new level before it is trusted.",
    ),
    key(
        "guards.retry_after",
        Slot::Duration(|s| &mut s.policy.guards.retry_after),
        "The wait after a failed removal, doubling up to an hour. 0 = tries in each pass.",
    ),
    key(
        "guards.measure_space",
        Slot::Switch(|s| &mut s.policy.guards.measure_space),
        "Goes on to the next images while the measured space is short, whatever the sizes add up to.",
    ),
    key(
        "pods.source",
        Slot::PodSources(|s| &mut s.pods.sources),
        "Who knows the pods: \"auto\", \"none\", or of kube-api,kubelet,kubelet-dir,runtime those that are to be asked.",
    )
    .flags(&["pod-source"]),
    key(
        "pods.kubeconfig",
        Slot::OptionalFile(|s| &mut s.pods.kubeconfig),
        "How kube-api reaches the API server. Empty = the in-cluster account, else the kubelet's own kubeconfig.",
    )
    .flags(&["kubeconfig"]),
    key(
        "pods.max_silence",
        Slot::Wait(|s| &mut s.pods.max_silence),
        "A watch of the API server that is silent for longer counts as not seen.",
    ),
    key(
        "pods.kubelet_endpoint",
        Slot::Http(|s| &mut s.pods.kubelet.endpoint),
        "Where the kubelet is asked. \"http://127.0.0.1:10255\" is its read-only port.",
    ),
    key(
        "pods.kubelet_ca",
        Slot::OptionalFile(|s| &mut s.pods.kubelet.ca),
        "What the kubelet's certificate is checked against: authorities, or that certificate itself. Empty = what is found.",
    ),
    key(
        "pods.kubelet_token_file",
        Slot::OptionalFile(|s| &mut s.pods.kubelet.token_file),
        "The token that is shown to the kubelet. Empty = the in-cluster account's, if there is one.",
    ),
    key(
        "pods.kubelet_client_certificate",
        Slot::OptionalFile(|s| &mut s.pods.kubelet.client_certificate),
        "The certificate that is shown to the kubelet.",
    ),
    key(
        "pods.kubelet_client_key",
        Slot::OptionalFile(|s| &mut s.pods.kubelet.client_key),
        "The key of that certificate; it may lie in the same file.",
    ),
    key(
        "runtime.endpoint",
        Slot::Endpoint(|s| &mut s.runtime.endpoint),
        "The runtime's socket. Empty = crictl's, the kubelet's, then the well-known ones.",
    )
    .flags(&["runtime-endpoint", "container-runtime-endpoint"])
    .short('r'),
    key(
        "runtime.image_endpoint",
        Slot::Endpoint(|s| &mut s.runtime.image_endpoint),
        "The image service's socket. Empty = the runtime's.",
    )
    .flags(&["image-endpoint", "image-service-endpoint"])
    .short('i'),
    key(
        "runtime.read_timeout",
        Slot::Wait(|s| &mut s.runtime.options.read_timeout),
        "The longest wait for one reading call.",
    ),
    key(
        "runtime.removal_timeout",
        Slot::Wait(|s| &mut s.runtime.options.removal_timeout),
        "The longest wait for one removal, which is never cancelled.",
    ),
    key(
        "runtime.max_message_bytes",
        Slot::Bytes(|s| &mut s.runtime.options.max_message_bytes),
        "The largest answer taken from the runtime.",
    ),
    key(
        "runtime.answer_timeout",
        Slot::Wait(|s| &mut s.runtime.options.answer_timeout),
        "The longest wait for the answer to Version: the first call, and the probe after a call without an answer.",
    ),
    key(
        "runtime.patience",
        Slot::Duration(|s| &mut s.runtime.options.patience),
        "For how long a reading call tries again while the runtime is away. 0 = it fails at once.",
    ),
    key("state.path", Slot::File(|s| &mut s.state.path), "The store: last use and history.").flags(&["state"]),
    key(
        "state.lock",
        Slot::File(|s| &mut s.state.lock),
        "The lock that only one agent of the node holds, whatever its store is.",
    )
    .flags(&["lock"]),
    key("state.history_max_age", Slot::Duration(|s| &mut s.state.history_max_age), "History older than this goes."),
    key(
        "state.history_max_rows",
        Slot::Count(|s| &mut s.state.history_max_rows),
        "The most removals kept in the history.",
    ),
    key(
        "daemon.max_backoff",
        Slot::Wait(|s| &mut s.intervals.max_backoff),
        "The longest wait of the service after failed passes.",
    ),
    key(
        "events.enabled",
        Slot::Switch(|s| &mut s.tells_events),
        "Tells of passes that failed or removed images in events on the Node, if the API server is a source of pods.",
    ),
    key("log.format", Slot::LogFormat(|s| &mut s.log_format), "How the service logs: \"text\" or \"json\"."),
];

/// Finds a key by its dotted name.
pub fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

/// The known name that is most like `name`, if one is like it at all.
pub fn nearest(name: &str) -> Option<&'static str> {
    let scored = KEYS.iter().map(|key| (key.likeness(name), key.name));
    scored.filter(|(score, _)| *score > 0.8).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, name)| name)
}

// === impl Key ===

impl Key {
    /// The flag that the help and the messages name.
    pub fn flag(&self) -> Option<&'static str> {
        self.flags.first().copied()
    }

    /// What may be written, as the object of "wants".
    pub fn allowed(&self) -> String {
        self.slot.allowed()
    }

    /// Takes a value as written.
    pub fn set(&self, settings: &mut Settings, value: &Value) -> Result<(), InvalidValue> {
        self.slot.set(settings, value)
    }

    /// The value in force, as it would be written.
    pub fn get(&self, settings: &Settings) -> Value {
        self.slot.get(settings)
    }

    /// What a JSON Schema says of the value.
    pub fn schema(&self) -> serde_json::Value {
        self.slot.schema()
    }

    /// Says whether a value of this type can be meant where no type was written: text settings take nothing but text.
    pub(super) fn can_be(&self, value: &Value) -> bool {
        self.slot.can_be(value)
    }

    /// Says whether the value leaves it to the next source, as the empty endpoint of the commented file does.
    pub fn says_nothing(&self, value: &Value) -> bool {
        self.slot.may_be_empty() && value.as_str() == Some("")
    }

    /// Says whether a profile decides the value where nobody else does.
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

    /// 1 = the same, whatever the case, the dashes, and the table: a key at the wrong place is meant more often than
    /// another key of a like name.
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
        // `profile` is a key and its flag.
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

    /// The fields of the settings that hold no other fields, by their paths, from the text that `Debug` makes.
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
