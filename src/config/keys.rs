//! Looks up settings by name.

use super::declarations::KEYS;
use super::key::Key;

/// Returns the key with this dotted name.
pub fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

/// Returns the known name that is most similar to `name`, if any is similar enough.
pub fn nearest(name: &str) -> Option<&'static str> {
    let scored = KEYS.iter().map(|key| (key.likeness(name), key.name));
    scored.filter(|(score, _)| *score > 0.8).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use toml::Value;

    use super::super::Settings;
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
        // Disk pressure is no setting: it is what a disk has now. Two fields are the user's, not the configuration's. The
        // others are limits that only tests change.
        let no_settings = [
            "under_pressure",
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
            "lease.name",
        ];
        let settings = before.iter().filter(|(path, _)| !no_settings.iter().any(|name| path.ends_with(name)));
        let same: Vec<_> =
            settings.filter(|(path, value)| after.iter().all(|after| after.get(*path) == Some(value))).collect();
        assert_eq!(same, Vec::new());
    }

    /// Returns the settings with another value of this key.
    fn another_value(key: &Key, settings: &Settings) -> Settings {
        let texts = [
            "77m",
            "77MiB",
            "/seventy/seven",
            "http://127.0.0.1:77",
            "127.0.0.1:77",
            "finished",
            "kubelet",
            "kube-api",
            "json",
            "observe",
            "warn",
        ];
        let values = [true.into(), false.into(), 77.into()].into_iter().chain(texts.map(Value::from));
        let with = |value| {
            let mut other = settings.clone();
            key.set(&mut other, &value).ok().map(|()| other)
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
