//! Positions in a configuration file: the line and column of a value, and of a character of a string.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::rules::Fault;

/// A line and a column, from 1. Columns count characters.
pub type Position = (usize, usize);

/// A fault of a part of a value, or a doubt about it.
#[derive(Debug)]
pub(super) struct OfPart {
    /// The path of the part below the key, as `0.when`; empty = the value as a whole.
    pub path: String,
    /// The words before the fault, as `rule "base": when: `.
    pub subject: String,
    pub fault: Fault,
}

// === impl OfPart ===

impl OfPart {
    /// Creates a fault of a part that has a name.
    pub(super) fn new(name: &str, fault: impl Into<Fault>) -> Self {
        Self { path: name.to_owned(), subject: format!("{name}: "), fault: fault.into() }
    }
}

/// Returns the position of an offset in a text.
pub(super) fn at(text: &str, offset: usize) -> Position {
    let before = text.get(..offset).unwrap_or_default();
    let last = before.rsplit('\n').next().unwrap_or_default();
    (1 + before.matches('\n').count(), 1 + last.chars().count())
}

/// Returns the position of a value by its dotted path, or of a character in it. Of a part that is not there, it is the position of the
/// innermost table.
pub(super) fn of(text: &str, path: &str, character: Option<Position>) -> Position {
    let span = span(text, path);
    let inner = character.map_or(0, |position| offset(text.get(span.clone()).unwrap_or_default(), position));
    at(text, span.start + inner)
}

fn span(text: &str, path: &str) -> Range<usize> {
    let Ok(table) = DeTable::parse(text) else { return 0..0 };
    let root = Spanned::new(table.span(), DeValue::Table(table.into_inner()));
    let mut value = &root;
    for part in path.split('.') {
        let inner = match value.get_ref() {
            DeValue::Array(items) => part.parse().ok().and_then(|index: usize| items.get(index)),
            DeValue::Table(table) => table.get(part),
            _ => None,
        };
        value = inner.unwrap_or(value);
    }
    value.span()
}

/// Returns where a character of a string is in its TOML.
fn offset(toml: &str, character: Position) -> usize {
    let (has_escapes, is_long) = (toml.starts_with('"'), toml.starts_with("\"\"\"") || toml.starts_with("'''"));
    let quotes = if is_long { 3 } else { 1 };
    // A line break right after the quotes is not part of the string.
    let body = toml.get(quotes..).unwrap_or_default();
    let text = body.strip_prefix("\r\n").or_else(|| body.strip_prefix('\n')).unwrap_or(body);
    let (mut rest, mut position) = (text, (1, 1));
    while let Some((length, read)) = next(rest, has_escapes) {
        match read {
            Some(_) if position >= character => break,
            Some('\n') => position = (position.0 + 1, 1),
            Some(_) => position.1 += 1,
            None => {}
        }
        rest = rest.get(length..).unwrap_or_default();
    }
    toml.len() - rest.len()
}

/// Returns the length of the first character in TOML, and the character, or any other than a line break for an escape; `None` = a
/// line break that is escaped, with the space after it.
fn next(toml: &str, has_escapes: bool) -> Option<(usize, Option<char>)> {
    let first = toml.chars().next()?;
    let Some(escaped) = toml.strip_prefix('\\').filter(|_| has_escapes) else {
        return Some((first.len_utf8(), Some(first)));
    };
    Some(match escaped.chars().next()? {
        'n' => (2, Some('\n')),
        'x' => (4, Some('x')),
        'u' => (6, Some('u')),
        'U' => (10, Some('U')),
        other if other.is_whitespace() => (toml.len() - escaped.trim_start().len(), None),
        other => (2, Some(other)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_of_a_string_has_a_place_in_the_file() {
        for (toml, character, expected) in [
            ("a = 'image.x'", (1, 7), (1, 12)),
            ("a = \"'ä' == image.x\"", (1, 8), (1, 13)),
            ("a = \"\\\"b\\u00e4\\\" == x\"", (1, 9), (1, 21)),
            ("a = '''\n  one &&\n  two'''", (2, 3), (3, 3)),
            ("a = '''one &&\r\n  two'''", (2, 3), (2, 3)),
            ("a = \"\"\"\none \\\n   two\"\"\"", (1, 5), (3, 4)),
            ("a = \"one\\ntwo\"", (2, 1), (1, 11)),
        ] {
            let decoded: toml::Table = toml.parse().unwrap();
            assert_eq!(of(toml, "a", Some(character)), expected, "{toml}: {:?}", decoded["a"]);
        }
    }
}
