//! The settings in force as text, each with its origin, or as a JSON document; and what is made from their declarations: the configuration
//! file with comments, and `docs/configuration.md`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value as Json, json};

use super::Loaded;
use super::declarations::{KEYS, TABLES};
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

const SOURCES: &str = "\
kubegc reads these sources in this order, and a later one overrides an earlier one: `--kubelet-config`,
`/etc/kubegc/kubegc.toml`, `conf.d/*.toml` next to it in the order of their names, the environment
(CONTAINER_RUNTIME_ENDPOINT, IMAGE_SERVICE_ENDPOINT, KUBECONFIG, NODE_NAME), flags, `--set`. `kubegc config check`
reports the errors in them. `kubegc config show` shows the settings in force and the origin of each.

Durations have a unit: \"90s\", \"2m\", \"168h\", \"7d\". A negative limit means no limit.
";

/// The beginning of the configuration file with all defaults.
const DEFAULTS: &str = "\
kubegc: all config keys with their defaults.

A line without a space after # is a key with its default. Uncomment only what you change: a key that is set here
overrides the kubelet's configuration (`--kubelet-config`) and the guards of the profile.

";

/// Returns the configuration file with all defaults as comments, and a comment on each key.
///
/// A file with all defaults as values would turn off `--kubelet-config`, and set each guard whatever the profile is.
pub fn default_toml() -> String {
    let header = comment(&format!("{DEFAULTS}{SOURCES}"));
    header
        + &tables(|name, about, keys| {
            let heading = if name.is_empty() { String::new() } else { format!("{}[{name}]\n", comment(about)) };
            format!("\n{heading}{}", keys.iter().map(toml_key).collect::<Vec<_>>().join("\n"))
        })
}

/// Returns the reference in Markdown.
pub fn reference() -> String {
    let header = "# Configuration reference\n\n\
                  <!-- Made by scripts/generate.sh from src/config/declarations.rs. -->\n\n";
    format!(
        "{header}{SOURCES}{}",
        tables(|name, about, keys| {
            let heading = if name.is_empty() { "Top level".to_owned() } else { format!("`[{name}]`") };
            let about = if about.is_empty() { String::new() } else { format!("{about}\n\n") };
            format!("\n## {heading}\n\n{about}{}", keys.iter().map(markdown_key).collect::<Vec<_>>().join("\n"))
        })
    )
}

/// Formats each table, by its name, its description and its keys.
fn tables(format: impl Fn(&str, &str, &[Key]) -> String) -> String {
    let tables = KEYS.chunk_by(|one, next| one.path().0 == next.path().0);
    let formatted = tables.map(|keys| {
        let name = keys.first().map_or("", |key| key.path().0);
        let about = TABLES.iter().find(|(table, _)| *table == name).map_or("", |(_, about)| about);
        format(name, about, keys)
    });
    formatted.collect()
}

fn toml_key(key: &Key) -> String {
    let about: String = key.lines().filter(|line| !line.is_empty()).map(comment).collect();
    let flag = key.flag().map_or_else(String::new, |flag| format!("# Flag: --{flag}\n"));
    format!("{about}{flag}#{} = {}\n", key.path().1, key.default())
}

fn markdown_key(key: &Key) -> String {
    let (about, default) = (key.description(), key.default());
    let short = key.short().map(|short| format!("`-{short}`"));
    let flags: Vec<_> = key.flags.iter().map(|flag| format!("`--{flag}`")).chain(short).collect();
    let flags = if flags.is_empty() { String::new() } else { format!("- Flag: {}\n", flags.join(", ")) };
    format!("### `{}`\n\n{about}\n\n- Default: `{default}`\n- Value: {}\n{flags}", key.name, key.allowed())
}

fn comment(text: &str) -> String {
    text.lines().map(|line| format!("# {line}").trim_end().to_owned() + "\n").collect()
}
