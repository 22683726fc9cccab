//! Reads what follows if the condition of a rule holds: a word, or a table of limits.

use std::time::Duration;

use serde_json::json;
use toml::{Table, Value};

use crate::config::parse;
use crate::config::position::OfPart;
use crate::model::{bytes_of_text, duration_text, exact_range_text, exact_size_text, range_of_text};
use crate::rules::{ImageTotal, Limits, RuleSubject, Then};

const KEEP: &str = "keep";
const REMOVE: &str = "remove";
const DELETE: &str = "delete";
/// The limits that are durations.
const TIMES: [&str; 3] = ["min_age", "max_age", "keep_for"];
const MAX_PER_POD_CONTAINER: &str = "max_per_pod_container";
const BUDGET: &str = "budget";
const TOTAL: &str = "total";

/// Reads what follows, and adds what is wrong with it.
pub(super) fn read(of: RuleSubject, value: Option<&Value>, faults: &mut Vec<OfPart>) -> Option<Then> {
    let then = match value {
        Some(Value::String(word)) if word == KEEP => Some(Then::Keep),
        Some(Value::String(word)) if word == REMOVE && can_remove(of) => Some(Then::Remove),
        Some(Value::String(word)) if word == DELETE && of == RuleSubject::Object => Some(Then::Delete),
        Some(Value::Table(table)) if !table.is_empty() => return limits(of, table, faults).map(Then::Limits),
        _ => None,
    };
    if then.is_none() {
        faults.push(OfPart::new("then", format!("expected {}", wanted(of))));
    }
    then
}

/// The kubelet's rules remove all dead sandboxes and all logs of deleted pods; a rule can only keep some.
fn can_remove(of: RuleSubject) -> bool {
    matches!(of, RuleSubject::Image | RuleSubject::Container | RuleSubject::Checkpoint)
}

/// Returns the limits that a rule for such objects can have.
fn names(of: RuleSubject) -> &'static [&'static str] {
    match of {
        RuleSubject::Image => &["min_age", "max_age", TOTAL],
        RuleSubject::Container => &["min_age", MAX_PER_POD_CONTAINER],
        RuleSubject::Sandbox | RuleSubject::Checkpoint | RuleSubject::Object => &[],
        RuleSubject::Log => &["keep_for", BUDGET],
    }
}

fn wanted(of: RuleSubject) -> String {
    let kind: &str = of.into();
    let words = match of {
        RuleSubject::Object => "\"keep\", \"delete\"",
        of if can_remove(of) => "\"keep\", \"remove\"",
        _ => "\"keep\"",
    };
    match names(of) {
        [] => format!("{words} for {kind}"),
        names => format!("{words} or a table with {} for {kind}", names.join(", ")),
    }
}

fn limits(of: RuleSubject, table: &Table, faults: &mut Vec<OfPart>) -> Option<Limits> {
    let (mut limits, before) = (Limits::default(), faults.len());
    for (name, value) in table {
        let mut wrong = |what: String| faults.push(OfPart::new(&format!("then.{name}"), what));
        if !names(of).contains(&name.as_str()) {
            wrong(format!("no such limit; expected {}", wanted(of)));
        } else if set(&mut limits, name, value).is_none() {
            let wanted = match name.as_str() {
                MAX_PER_POD_CONTAINER => "a number from 0 on",
                BUDGET => "a size such as \"1GiB\"",
                TOTAL => "two sizes such as \"20GiB..15GiB\": where removal begins, and where it ends",
                _ => "a duration such as \"10m\"",
            };
            wrong(format!("expected {wanted}"));
        }
    }
    (faults.len() == before).then_some(limits)
}

/// Sets a limit; `None` = its value is none.
fn set(limits: &mut Limits, name: &str, value: &Value) -> Option<()> {
    match name {
        MAX_PER_POD_CONTAINER => limits.max_per_pod_container = Some(parse::number(value)?),
        BUDGET => limits.budget = Some(value.as_str().and_then(bytes_of_text)?),
        TOTAL => limits.total = Some(value.as_str().and_then(total)?),
        _ => *time_of(limits, name) = Some(parse::time(value, Duration::ZERO)?),
    }
    Some(())
}

fn total(text: &str) -> Option<ImageTotal> {
    let (above_bytes, until_bytes) = range_of_text(text)?;
    (above_bytes > until_bytes).then_some(ImageTotal { above_bytes, until_bytes })
}

fn time_of<'l>(limits: &'l mut Limits, name: &str) -> &'l mut Option<Duration> {
    match name {
        "min_age" => &mut limits.min_age,
        "max_age" => &mut limits.max_age,
        _ => &mut limits.keep_for,
    }
}

/// Returns what follows as TOML.
pub(super) fn print(then: &Then) -> Value {
    match then {
        Then::Keep => KEEP.into(),
        Then::Remove => REMOVE.into(),
        Then::Delete => DELETE.into(),
        Then::Limits(limits) => {
            let mut limits = limits.clone();
            let count = limits.max_per_pod_container.map(|count| Value::Integer(count.try_into().unwrap_or(i64::MAX)));
            let budget = limits.budget.map(|bytes| exact_size_text(bytes).into());
            let total = limits.total.map(|total| exact_range_text(total.above_bytes, total.until_bytes).into());
            let mut time = |name| Some((name, time_of(&mut limits, name).map(|time| duration_text(time).into())));
            let others = [(MAX_PER_POD_CONTAINER, count), (BUDGET, budget), (TOTAL, total)];
            let entries = TIMES.iter().filter_map(|name| time(*name)).chain(others);
            Value::Table(entries.filter_map(|(name, value)| Some((name.to_owned(), value?))).collect())
        }
    }
}

/// Returns what follows as text, as the configuration has it without quotes around a word.
pub fn then_text(then: &Then) -> String {
    match print(then) {
        Value::String(word) => word,
        limits => limits.to_string(),
    }
}

pub(super) fn schema() -> serde_json::Value {
    let times = TIMES.iter().map(|name| ((*name).to_owned(), json!({"type": ["string", "integer"]})));
    let count = (MAX_PER_POD_CONTAINER.to_owned(), json!({"type": "integer", "minimum": 0}));
    let budget = (BUDGET.to_owned(), json!({"type": "string", "pattern": "^[0-9]+[KMGT]?i?B?$"}));
    let total = (TOTAL.to_owned(), json!({"type": "string", "pattern": "^[0-9]+[KMGT]?i?B?\\.\\.[0-9]+[KMGT]?i?B?$"}));
    let limits: serde_json::Map<_, _> = times.chain([count, budget, total]).collect();
    json!({"oneOf": [
        {"enum": [KEEP, REMOVE, DELETE]},
        {"type": "object", "additionalProperties": false, "minProperties": 1, "properties": limits},
    ]})
}
