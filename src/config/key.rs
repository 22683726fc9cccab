//! A setting: its key, its description, its flags, and access to its value.

use serde_json::Value as Json;
use toml::Value;

use super::error::InvalidValue;
use super::settings::Settings;
use super::values::{Allowed, ValueType};

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
