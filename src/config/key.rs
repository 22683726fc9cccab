//! A setting: its key, its description, its flags, and access to its value.

use serde_json::Value as Json;
use toml::Value;

use super::declarations::KEYS;
use super::entry::WrongValue;
use super::settings::Settings;
use super::values::Allowed;

pub struct Key {
    /// The dotted name, as `images.min_age`.
    pub name: &'static str,
    /// The lines of the description, as the compiler passes doc comments.
    pub(super) doc: &'static str,
    /// The flags that set it, without dashes; the help shows the first.
    pub flags: &'static [&'static str],
    /// The flag with one letter; empty = none.
    pub(super) short: &'static [char],
    pub(super) allowed: &'static Allowed,
    /// Sets the field to a value from TOML.
    pub(super) set: fn(&mut Settings, &Value) -> Result<(), WrongValue>,
    /// Returns the value of the field as TOML.
    pub(super) get: fn(&Settings) -> Value,
}

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
    /// Returns the lines of the description; the first paragraph is the summary.
    pub(super) fn lines(&self) -> impl Iterator<Item = &'static str> {
        self.doc.lines().map(|line| line.strip_prefix(' ').unwrap_or(line))
    }

    pub fn description(&self) -> String {
        self.lines().collect::<Vec<_>>().join("\n")
    }

    /// Returns the summary of the description.
    pub fn summary(&self) -> String {
        self.lines().take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
    }

    /// Returns the name of the table of the key, or the empty string, and the name of the key in it.
    pub(super) fn path(&self) -> (&'static str, &'static str) {
        self.name.rsplit_once('.').unwrap_or(("", self.name))
    }

    /// Returns the flag for the help and the messages.
    pub fn flag(&self) -> Option<&'static str> {
        self.flags.first().copied()
    }

    /// Returns the flag with one letter.
    pub fn short(&self) -> Option<char> {
        self.short.first().copied()
    }

    /// Describes the allowed values, as the object of "expected".
    pub fn allowed(&self) -> String {
        self.allowed.text()
    }

    pub(super) fn schema(&self) -> Json {
        self.allowed.schema()
    }

    /// Returns the value in force, as TOML.
    pub fn get(&self, settings: &Settings) -> Value {
        (self.get)(settings)
    }

    /// Returns the built-in value, as TOML.
    pub fn default(&self) -> Value {
        self.get(&Settings::default())
    }

    /// Returns whether a value is allowed.
    pub(super) fn allows(&self, value: &Value) -> bool {
        (self.set)(&mut Settings::default(), value).is_ok()
    }

    /// Returns whether the value leaves the setting to the source before: the empty string where that is the default, as for
    /// the endpoint of the commented file.
    pub(super) fn is_unset_by(&self, value: &Value) -> bool {
        value.as_str().is_some_and(|text| text.trim().is_empty()) && self.default().as_str() == Some("")
    }

    /// Returns the similarity to a name; 1 = the same, ignoring case and dashes. A flag's name, or a name below this
    /// key, also gives 1. The last part of the name has extra weight: a key in the wrong table is a more common mistake
    /// than a similar key.
    pub(super) fn likeness(&self, name: &str) -> f64 {
        let (typed, own) = (normal(name), normal(self.name));
        let whole = strsim::jaro_winkler(&typed, &own);
        let last = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
        let tail = strsim::normalized_damerau_levenshtein(&last(&typed), &last(&own));
        let is_flag = self.flags.iter().any(|flag| normal(flag) == last(&typed));
        let is_within = typed.strip_prefix(&own).is_some_and(|rest| rest.starts_with('.'));
        if is_flag || is_within { 1.0 } else { f64::midpoint(whole, tail) }
    }
}

/// Returns whether the profile sets the default of a key.
pub(super) fn is_of_profile(name: &str) -> bool {
    name.starts_with("guards.") || name == "leftovers.remove"
}

fn normal(name: &str) -> String {
    name.to_lowercase().replace('-', "_")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::owners::OwnerGuards;
    use crate::plan::{Guards, Profile};
    use crate::pod_gc::PodGcPolicy;

    #[test]
    fn no_name_and_no_flag_occurs_twice() {
        let mut names: Vec<_> = KEYS.iter().flat_map(|key| key.flags.iter().copied().chain([key.name])).collect();
        names.extend(["config", "kubelet-config", "set"]);
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        // `profile` and `mode` are both a key and its flag.
        assert_eq!(names.len(), all - 2, "{names:?}");
    }

    #[test]
    fn every_field_of_the_settings_has_a_key() {
        let before = leaves(&Settings::default());
        let by_keys = KEYS.iter().fold(Settings::default(), |settings, key| another_value(key, &settings));
        let mut by_profile = Settings::default();
        by_profile.policy.guards = Guards::of(Profile::Kubelet);
        (by_profile.controller.guards, by_profile.pod_gc) = (OwnerGuards::none(), PodGcPolicy::upstream());
        let after = [by_keys, by_profile].map(|settings| leaves(&settings));
        // The limits of the kubelet are its own. Two fields are the user's, not the configuration's. The rules for objects are in
        // those of the policy. The others are limits that only tests change.
        let no_settings = [
            "eviction.images..",
            "eviction.node..",
            "pods.by_person",
            "pods.own_kubeconfig",
            "guards.fall_percent",
            "options.read_timeout",
            "options.max_message_bytes",
            "options.answer_timeout",
            "options.patience",
            "intervals.pressure",
            "intervals.max_backoff",
            "calls.answer",
            "controller.discovery",
            "controller.first_lists",
            "controller.rules.rules.",
            "lease.name",
        ];
        let of_pass = |path: &str| path.starts_with(".policy.pass.");
        let settings =
            before.iter().filter(|(path, _)| !of_pass(path) && !no_settings.iter().any(|name| path.ends_with(name)));
        let same: Vec<_> =
            settings.filter(|(path, value)| after.iter().all(|after| after.get(*path) == Some(value))).collect();
        assert_eq!(same, Vec::new());
    }

    /// Returns the settings with another value of this key.
    fn another_value(key: &Key, settings: &Settings) -> Settings {
        let texts = [
            "77m",
            "77MiB",
            "Mo-Fr 08:00-18:00",
            "policies",
            "image.size_bytes",
            "free 7GiB..9GiB",
            "pod 7MiB",
            "images 7, bytes 7GiB, pause 7s, start 7m",
            "/seventy/seven",
            "http://127.0.0.1:77",
            "127.0.0.1:77",
            "finished",
            "kubelet",
            "kube-api",
            "json",
            "observe",
            "pod_directory",
            "warn",
        ];
        let rule = "rule = [{name = 'a', for = 'image', when = 'true', then = 'keep'}]".parse::<toml::Table>().unwrap();
        let values =
            [true.into(), false.into(), 77.into(), rule["rule"].clone()].into_iter().chain(texts.map(Value::from));
        let with = |value| {
            let mut other = settings.clone();
            (key.set)(&mut other, &value).map(|()| other).ok()
        };
        let mut others = values.filter_map(with);
        others.find(|other| other != settings).unwrap_or_else(|| panic!("{} has no other value", key.name))
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
            (key.set)(&mut again, &key.get(&settings)).unwrap_or_else(|wrong| panic!("{}: {wrong:?}", key.name));
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
