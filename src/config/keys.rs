//! The keys of the settings: lookup by name, and access to the values.

use serde_json::Value as Json;
use toml::Value;

use super::Settings;
use super::declarations::KEYS;
use super::values::{Allowed, InvalidValue, ValueType};

/// One setting.
pub struct Key {
    /// The dotted name, as `images.min_age`.
    pub name: &'static str,
    /// The lines of the description, as the compiler passes doc comments.
    pub(super) doc: &'static str,
    /// The flags that set it, without dashes; the help shows the first.
    pub flags: &'static [&'static str],
    /// The flag with one letter; empty = none.
    pub(super) short: &'static [char],
    pub(super) slot: &'static dyn Slot,
}

/// A field of the settings, and the type of its values.
pub(super) struct Field<T: 'static> {
    pub(super) of: ValueType<T>,
    pub(super) get: fn(&Settings) -> &T,
    pub(super) get_mut: fn(&mut Settings) -> &mut T,
}

/// A [`Field`] of any type.
pub(super) trait Slot: Sync {
    /// Sets the field to a value from TOML.
    fn set(&self, settings: &mut Settings, value: &Value) -> Result<(), InvalidValue>;

    /// Returns the value of the field as TOML.
    fn get(&self, settings: &Settings) -> Value;

    /// Returns which values are allowed.
    fn allowed(&self) -> &Allowed;
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

    /// Returns the whole description.
    pub fn description(&self) -> String {
        self.lines().collect::<Vec<_>>().join("\n")
    }

    /// Returns the summary of the description.
    pub fn summary(&self) -> String {
        self.lines().take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
    }

    /// Returns the name of the table of the key; empty = the top level.
    pub(super) fn table(&self) -> &'static str {
        self.name.rsplit_once('.').map_or("", |(table, _)| table)
    }

    /// Returns the name of the key in its table.
    pub(super) fn leaf(&self) -> &'static str {
        self.name.rsplit_once('.').map_or(self.name, |(_, leaf)| leaf)
    }

    /// Returns the flag for the help and the messages.
    pub fn flag(&self) -> Option<&'static str> {
        self.flags.first().copied()
    }

    /// Returns the flag with one letter.
    pub fn short(&self) -> Option<char> {
        self.short.first().copied()
    }

    /// Describes the allowed values, as the object of "wants".
    pub fn allowed(&self) -> String {
        (self.slot.allowed().text)()
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
    pub fn schema(&self) -> Json {
        (self.slot.allowed().schema)()
    }

    /// Returns whether the key can take this type of value if the input has no types: text settings take only text.
    pub(super) fn takes(&self, value: &Value) -> bool {
        (self.slot.allowed().takes)(value)
    }

    /// Returns whether the value is unset, so that the next source applies, as for the empty endpoint of the commented
    /// file.
    pub fn says_nothing(&self, value: &Value) -> bool {
        self.slot.allowed().may_be_empty && value.as_str().is_some_and(|text| text.trim().is_empty())
    }

    /// Returns whether the profile sets the default of this key.
    pub fn is_guard(&self) -> bool {
        self.name.starts_with("guards.")
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

// === impl Field ===

impl<T> Slot for Field<T> {
    fn set(&self, settings: &mut Settings, value: &Value) -> Result<(), InvalidValue> {
        *(self.get_mut)(settings) = (self.of.parse)(value)?;
        Ok(())
    }

    fn get(&self, settings: &Settings) -> Value {
        (self.of.print)((self.get)(settings))
    }

    fn allowed(&self) -> &Allowed {
        &self.of.allowed
    }
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
            other = another_value(key, &other);
        }
        let (before, after) = (leaves(&Settings::default()), leaves(&other));
        let same: Vec<_> = before.iter().filter(|(path, value)| after.get(*path) == Some(value)).collect();
        assert_eq!(same, Vec::new());
    }

    /// Returns the settings with another value of this key.
    fn another_value(key: &Key, settings: &Settings) -> Settings {
        let texts =
            ["77m", "77MiB", "/seventy/seven", "http://127.0.0.1:77", "finished", "kubelet", "kube-api", "json"];
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
