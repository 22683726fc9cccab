//! What kubegc reads of an answer of an API server. `tests/data/api_answers.json` has the answers of real API servers:
//! `tests/it/on_node/api_answers.rs` holds the file to the real ones, and the unit tests hold the fake one to the file.

use serde_json::{Map, Value, json};

/// The fields that kubegc reads.
const FIELDS: [&str; 32] = [
    "apiVersion",
    "causes",
    "code",
    "continue",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "details",
    "field",
    "finalizers",
    "freshness",
    "group",
    "groupVersion",
    "groups",
    "items",
    "kind",
    "metadata",
    "name",
    "namespace",
    "namespaced",
    "object",
    "reason",
    "remainingItemCount",
    "resource",
    "resourceVersion",
    "resources",
    "responseKind",
    "scope",
    "type",
    "uid",
    "verbs",
    "version",
    "versions",
];
/// The fields whose values differ in each run.
const VALUES: [&str; 4] = ["continue", "deletionTimestamp", "resourceVersion", "uid"];
/// The verbs that kubegc looks for.
const VERBS: [&str; 3] = ["delete", "list", "watch"];
/// The lists of discovery, and what is compared of them.
const DISCOVERED: [&str; 3] = ["groups", "items", "resources"];
const ONE_OF_DISCOVERED: [&str; 3] = ["apps", "configmaps", "deployments"];

/// Returns the answers of real API servers of this minor version, by the name of the request.
pub fn recorded(minor: u32) -> Value {
    let all: Value = serde_json::from_str(include_str!("../../tests/data/api_answers.json")).unwrap();
    all[format!("1.{minor}")].clone()
}

/// Returns what kubegc reads of an answer, or of each line of a watch.
pub fn read(code: u16, body: &str) -> Value {
    let lines = body.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| json!(line)));
    let lines: Vec<Value> = lines.map(|line| part(&line)).collect();
    json!({"code": code, "body": if lines.len() == 1 { lines[0].clone() } else { json!(lines) }})
}

fn part(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut kept: Map<_, _> = fields.iter().filter_map(|(name, value)| field(name, value)).collect();
            let kind = fields.get("kind").and_then(Value::as_str).unwrap_or_default();
            // Only an answer that an object is missing, or that a field is wrong, must say which.
            if kind == "Status" && !matches!(kept.get("code").and_then(Value::as_u64), Some(404 | 422)) {
                kept.remove("details");
            }
            if kind == "Status" || kind.ends_with("List") {
                kept.remove("apiVersion");
            }
            Value::Object(kept)
        }
        Value::Array(all) => all.iter().map(part).collect(),
        value => value.clone(),
    }
}

/// Returns a field as it is compared; `None` = it is not. An empty value is as good as none.
fn field(name: &str, value: &Value) -> Option<(String, Value)> {
    let is_empty = |value: &Value| [Value::Null, json!(""), json!([]), json!({})].contains(value);
    if !FIELDS.contains(&name) || is_empty(value) {
        return None;
    }
    let value = match value {
        _ if VALUES.contains(&name) => json!(true),
        Value::Array(all) if name == "verbs" => {
            all.iter().filter(|it| VERBS.iter().any(|verb| *it == verb)).cloned().collect()
        }
        Value::Array(all) if DISCOVERED.contains(&name) => all.iter().filter(|it| is_compared(it)).map(part).collect(),
        value => part(value),
    };
    // An empty list of discovery says something; an object of which nothing is read does not.
    (value != json!({})).then(|| (name.to_owned(), value))
}

/// Returns whether an element of a list is compared: all objects, and one resource of discovery.
fn is_compared(element: &Value) -> bool {
    let names = [&element["name"], &element["resource"], &element["metadata"]["name"]];
    let is_object = element["metadata"]["uid"].is_string();
    // The group of the core has no name.
    let is_core = element["versions"].is_array() && names.iter().all(|name| name.as_str().is_none_or(str::is_empty));
    is_object || is_core || names.iter().any(|name| name.as_str().is_some_and(|it| ONE_OF_DISCOVERED.contains(&it)))
}
