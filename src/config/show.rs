//! The settings in force as text, each with its origin, or as a JSON document.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value as Json, json};

use super::Loaded;
use super::declarations::KEYS;
use super::key::Key;

/// The column of the comments, if the value is short enough.
const COMMENT_COLUMN: usize = 44;

// === impl Loaded ===

impl Loaded {
    /// Returns the settings in force as a configuration file, each with a comment on its origin.
    pub fn to_toml(&self) -> String {
        let (mut text, mut section) = (String::new(), "");
        for key in KEYS {
            let (table, name) = key.path();
            if table != section {
                section = table;
                let _ = write!(text, "\n[{section}]\n");
            }
            let line = format!("{name} = {}", key.get(&self.settings));
            let _ = writeln!(text, "{line:COMMENT_COLUMN$} # {}", self.origin(key));
        }
        text
    }

    /// Returns every key with its value and origin.
    pub fn to_json(&self) -> Json {
        let entry = |key: &Key| json!({"value": key.get(&self.settings), "origin": self.origin(key).to_string()});
        Json::Object(KEYS.iter().map(|key| (key.name.to_owned(), entry(key))).collect())
    }
}

/// Returns the JSON Schema of the configuration file, from the table of keys.
pub fn schema() -> Json {
    let (mut top, mut tables) = (Map::new(), BTreeMap::<_, Map<_, _>>::new());
    for key in KEYS {
        let (table, name) = key.path();
        let keys = if table.is_empty() { &mut top } else { tables.entry(table).or_default() };
        keys.insert(name.to_owned(), of_key(key));
    }
    top.extend(tables.into_iter().map(|(table, keys)| (table.to_owned(), object(&keys))));
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "kubegc configuration",
        "type": "object",
        "additionalProperties": false,
        "properties": top,
    })
}

fn of_key(key: &Key) -> Json {
    let mut schema = key.schema();
    if let Some(object) = schema.as_object_mut() {
        object.insert("description".to_owned(), key.description().into());
        object.insert("default".to_owned(), json!(key.default()));
    }
    schema
}

fn object(properties: &Map<String, Json>) -> Json {
    json!({"type": "object", "additionalProperties": false, "properties": properties})
}
