//! Reads the rules of the operator from the key `rule`: a list of tables.

pub(super) mod order;
mod then;

use std::collections::HashSet;
use std::str::FromStr;

use serde_json::json;
use strum::VariantNames;
use toml::{Table, Value};

pub use then::then_text;

use super::entry::WrongValue;
use super::position::OfPart;
use crate::controller::ResourceName;
use crate::rules::{MAX_LENGTH, Rule, RuleSubject, RuleText, Rules, Then};

/// The most rules. Each is evaluated for each object.
const MOST: usize = 64;
pub(super) const KEY: &str = "rule";
/// The keys of a rule.
const FIELDS: [&str; 7] = ["name", "for", RESOURCE, "when", "then", "until", "note"];
const RESOURCE: &str = "resource";

/// Reads the rules, or returns all their faults.
pub(super) fn read(value: &Value) -> Result<Rules, WrongValue> {
    parsed(value).map_err(WrongValue::Parts)
}

/// Returns what is allowed in the conditions and probably not intended.
pub(super) fn doubts(rules: &Rules) -> impl Iterator<Item = OfPart> {
    let of_rule = |(index, rule): (usize, &Rule)| {
        let named = format!("rule {:?}", rule.text().name);
        rule.doubts().iter().map(|doubt| in_rule(index, &named, OfPart::new("when", doubt.clone()))).collect::<Vec<_>>()
    };
    rules.iter().enumerate().flat_map(of_rule)
}

/// Adds the rule to a fault of a part of it.
fn in_rule(index: usize, rule: &str, OfPart { path, subject, fault }: OfPart) -> OfPart {
    OfPart { path: format!("{index}.{path}"), subject: format!("{rule}: {subject}"), fault }
}

/// Creates a fault of a value that has no part to blame.
fn whole(what: String) -> OfPart {
    OfPart { path: String::new(), subject: String::new(), fault: what.into() }
}

fn parsed(value: &Value) -> Result<Rules, Vec<OfPart>> {
    let tables = value.as_array().ok_or_else(|| vec![whole("expected tables [[rule]]".to_owned())])?;
    if tables.len() > MOST {
        return Err(vec![whole(format!("{} rules, and at most {MOST} are allowed", tables.len()))]);
    }
    let (mut rules, mut faults, mut names) = (Vec::new(), Vec::new(), HashSet::new());
    for (index, table) in tables.iter().enumerate() {
        let written = table.get("name").and_then(Value::as_str).map(|name| format!("rule {name:?}"));
        let named = written.unwrap_or_else(|| format!("rule {}", index + 1));
        let rule = table.as_table().ok_or_else(|| vec![whole("is not a table".to_owned())]).and_then(rule);
        match rule {
            Ok(rule) if !names.insert(rule.text().name.clone()) => {
                let fault = OfPart::new("name", "two rules have this name".to_owned());
                faults.push(in_rule(index, &named, fault));
            }
            Ok(rule) => rules.push(rule),
            Err(of_rule) => faults.extend(of_rule.into_iter().map(|fault| in_rule(index, &named, fault))),
        }
    }
    if faults.is_empty() { Ok(rules.into_iter().collect()) } else { Err(faults) }
}

fn rule(table: &Table) -> Result<Rule, Vec<OfPart>> {
    let mut faults: Vec<_> =
        table.keys().filter(|key| !FIELDS.contains(&key.as_str())).map(|key| unknown(key)).collect();
    match text(table, &mut faults) {
        Some(text) if faults.is_empty() => compile(text),
        _ => {
            faults.extend(faults_of_condition(table));
            Err(faults)
        }
    }
}

fn compile(text: RuleText) -> Result<Rule, Vec<OfPart>> {
    Rule::compile(text).map_err(|errors| errors.into_iter().map(|error| OfPart::new("when", error)).collect())
}

/// Returns what is wrong with the condition of a rule that has other faults.
fn faults_of_condition(table: &Table) -> Vec<OfPart> {
    let text = |key| table.get(key).and_then(Value::as_str).filter(|text| !text.trim().is_empty());
    let of = text("for").and_then(|of| of.parse().ok());
    let condition = of.zip(text("when")).map(|(of, when)| RuleText {
        name: String::new(),
        subject: of,
        resource: String::new(),
        when: when.to_owned(),
        then: Then::Keep,
        until: None,
        note: String::new(),
    });
    condition.and_then(|text| compile(text).err()).unwrap_or_default()
}

fn unknown(key: &str) -> OfPart {
    OfPart::new(key, format!("no such key; a rule has {}", FIELDS.join(", ")))
}

/// Reads the parts of a rule and adds what is wrong with each.
fn text(table: &Table, faults: &mut Vec<OfPart>) -> Option<RuleText> {
    let mut string = |key: &str| {
        let value = table.get(key).and_then(Value::as_str).map(str::to_owned).filter(|text| !text.trim().is_empty());
        if value.is_none() {
            faults.push(OfPart::new(key, "expected a text".to_owned()));
        }
        value
    };
    let (name, when) = (string("name"), string("when"));
    let of = word(table, "for", RuleSubject::VARIANTS, faults);
    let then = of.and_then(|of| then::read(of, table.get("then"), faults));
    let resource = of.and_then(|of| resource(of, table.get(RESOURCE), faults));
    let until = match table.get("until") {
        None => None,
        Some(until) => {
            let text = until.as_str().map(str::to_owned).or_else(|| until.as_datetime().map(ToString::to_string));
            let day = text.and_then(|text| text.parse().ok());
            if day.is_none() {
                faults.push(OfPart::new("until", "expected a day such as 2027-06-30".to_owned()));
            }
            day
        }
    };
    let note = match table.get("note").map(Value::as_str) {
        Some(None) => {
            faults.push(OfPart::new("note", "expected a text".to_owned()));
            String::new()
        }
        note => note.flatten().unwrap_or_default().to_owned(),
    };
    Some(RuleText { name: name?, subject: of?, resource: resource?, when: when?, then: then?, until, note })
}

/// Reads the resource of a rule: one for objects has one, and no other has.
fn resource(of: RuleSubject, value: Option<&Value>, faults: &mut Vec<OfPart>) -> Option<String> {
    let name = value.and_then(Value::as_str).filter(|name| name.parse::<ResourceName>().is_ok());
    match (of == RuleSubject::Object, value, name) {
        (false, None, _) => Some(String::new()),
        (true, _, Some(name)) => Some(name.to_owned()),
        (is_wanted, ..) => {
            let wanted =
                if is_wanted { "expected a resource such as \"jobs.batch\"" } else { "only a rule for object has it" };
            faults.push(OfPart::new(RESOURCE, wanted.to_owned()));
            None
        }
    }
}

fn word<T: FromStr>(table: &Table, key: &str, words: &[&str], faults: &mut Vec<OfPart>) -> Option<T> {
    let word = table.get(key).and_then(Value::as_str).and_then(|word| word.parse().ok());
    if word.is_none() {
        let words: Vec<_> = words.iter().map(|word| format!("{word:?}")).collect();
        faults.push(OfPart::new(key, format!("expected {}", words.join(" or "))));
    }
    word
}

/// Returns the rules as TOML.
pub(super) fn print(rules: &Rules) -> Value {
    Value::Array(rules.iter().map(|rule| Value::Table(table(rule.text()))).collect())
}

fn table(rule: &RuleText) -> Table {
    let RuleText { name, subject: of, resource, when, then, until, note } = rule;
    let word = |word: &'static str| Some(Value::from(word));
    let entries = [
        ("name", Some(name.as_str().into())),
        ("for", word(of.into())),
        (RESOURCE, Some(resource.as_str().into()).filter(|_| !resource.is_empty())),
        ("when", Some(when.as_str().into())),
        ("then", Some(then::print(then))),
        // As a text, because JSON has no dates.
        ("until", until.map(|day| day.to_string().into())),
        ("note", Some(note.as_str().into()).filter(|_| !note.is_empty())),
    ];
    entries.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
}

pub(super) fn schema() -> serde_json::Value {
    let text = json!({"type": "string", "minLength": 1});
    let rule = json!({
        "type": "object",
        "required": ["name", "for", "when", "then"],
        "additionalProperties": false,
        "properties": {
            "name": text,
            "for": {"enum": RuleSubject::VARIANTS},
            RESOURCE: text,
            "when": {"type": "string", "minLength": 1, "maxLength": MAX_LENGTH},
            "then": then::schema(),
            "until": {"type": "string"},
            "note": {"type": "string"},
        },
    });
    json!({"type": "array", "maxItems": MOST, "items": rule})
}

#[cfg(test)]
mod tests;
