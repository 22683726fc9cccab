//! Durations and numbers as text.

use std::borrow::Cow;
use std::fmt::{Display, Write as _};
use std::time::Duration;

/// Returns a duration as text that the configuration accepts: `2m`, `7d`, `1h30m`.
pub fn duration_text(time: Duration) -> String {
    const UNITS: [(u128, &str); 7] = [
        (86_400_000_000_000, "d"),
        (3_600_000_000_000, "h"),
        (60_000_000_000, "m"),
        (1_000_000_000, "s"),
        (1_000_000, "ms"),
        (1_000, "us"),
        (1, "ns"),
    ];
    let (mut rest, mut text) = (time.as_nanos(), String::new());
    for (size, unit) in UNITS {
        if rest >= size {
            let _ = write!(text, "{}{unit}", rest / size);
            rest %= size;
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

/// Returns the text of an error of the YAML parser, which begins with a prefix of its own: `error: line 1 …`.
pub fn yaml_error_text(error: &impl Display) -> String {
    let text = error.to_string();
    text.strip_prefix("error: ").unwrap_or(&text).to_owned()
}

/// Returns a size as [`size_text`] does, with `>=` if it is at least this.
pub fn at_least_text(is_least: bool, bytes: u64) -> String {
    format!("{}{}", if is_least { ">=" } else { "" }, size_text(bytes))
}

/// Returns a size in units of 1024: `512B`, `7.0MiB`, `1.2TiB`.
pub fn size_text(bytes: u64) -> String {
    // No larger one is needed for 64 bits.
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes}B");
    }
    // Tenths of the next larger unit, rounded. 1024.0 of a unit is 1.0 of the next one.
    let (mut tenths, mut unit) = ((u128::from(bytes) * 10 + 512) / 1024, 0);
    while tenths >= 10240 {
        tenths = (tenths + 512) / 1024;
        unit += 1;
    }
    format!("{}.{}{}", tenths / 10, tenths % 10, UNITS.get(unit).unwrap_or(&"EiB"))
}

/// Returns an age in seconds as kubectl does: `45s`, `3m20s`, `47h`, `2d3h`, `95d`.
pub fn age_text(seconds: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;
    let two = |whole: i64, unit: &str, rest: i64, small: &str| match rest {
        0 => format!("{whole}{unit}"),
        rest => format!("{whole}{unit}{rest}{small}"),
    };
    match seconds {
        ..0 => "0s".to_owned(),
        s if s < 2 * MINUTE => format!("{s}s"),
        s if s < 10 * MINUTE => two(s / MINUTE, "m", s % MINUTE, "s"),
        s if s < 3 * HOUR => format!("{}m", s / MINUTE),
        s if s < 8 * HOUR => two(s / HOUR, "h", s % HOUR / MINUTE, "m"),
        s if s < 2 * DAY => format!("{}h", s / HOUR),
        s if s < 8 * DAY => two(s / DAY, "d", s % DAY / HOUR, "h"),
        s if s < 2 * YEAR => format!("{}d", s / DAY),
        s if s < 8 * YEAR => two(s / YEAR, "y", s % YEAR / DAY, "d"),
        s => format!("{}y", s / YEAR),
    }
}

/// Returns a number of things: `1 image`, `4 images`.
pub fn count_text(number: impl Display + From<u8> + PartialEq + Copy, thing: &str) -> String {
    match thing.strip_suffix('y') {
        _ if number == 1.into() => format!("1 {thing}"),
        Some(stem) => format!("{number} {stem}ies"),
        None if thing.ends_with('x') => format!("{number} {thing}es"),
        None => format!("{number} {thing}s"),
    }
}

/// Makes text safe to print and to log: names come from tenants and may contain any character. Line ends would begin a
/// line of the log, escape sequences change a terminal, and marks of direction show a name in another order.
pub fn printable_text(text: &str) -> String {
    let mut printable = String::with_capacity(text.len());
    for c in text.chars() {
        if is_harmful(c) {
            printable.extend(c.escape_default());
        } else {
            printable.push(c);
        }
    }
    printable
}

/// As [`printable_text`], for text of several lines.
pub fn printable_lines(text: &str) -> String {
    text.split('\n').map(printable_text).collect::<Vec<_>>().join("\n")
}

/// Cuts text that others wrote, and that is shown, to at most `longest` characters: the API server stores names of a MiB in
/// owner references. Events, the log, metrics, errors and pages use this function and no other one (G5).
pub fn cut_text(text: &str, longest: usize) -> Cow<'_, str> {
    match text.char_indices().nth(longest) {
        Some((end, _)) => Cow::Owned(format!("{}…", text.get(..end).unwrap_or_default())),
        None => Cow::Borrowed(text),
    }
}

/// Returns whether a character acts on a terminal, a log or a page, instead of being shown. All are in the first plane of Unicode.
pub fn is_harmful(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// Formats bytes with the largest unit that needs no fraction, so that the text is the same number: `256MiB`, `65537B`.
pub fn exact_size_text(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let whole = units.into_iter().find(|(shift, _)| bytes != 0 && bytes.trailing_zeros() >= *shift);
    whole.map_or_else(|| format!("{bytes}B"), |(shift, unit)| format!("{}{unit}", bytes >> shift))
}

/// Returns two sizes as the configuration has them: `20GiB..15GiB`.
pub fn exact_range_text(begin: u64, end: u64) -> String {
    format!("{}..{}", exact_size_text(begin), exact_size_text(end))
}

/// Returns the two sizes of a range such as `20GiB..15GiB`; `None` = it is none.
pub fn range_of_text(text: &str) -> Option<(u64, u64)> {
    let (begin, end) = text.split_once("..")?;
    Some((bytes_of_text(begin)?, bytes_of_text(end)?))
}

/// Returns the bytes of a size with a unit of 1024, such as `1Gi`, or of 0; `None` = it is none. Any other number without a unit
/// may mean MiB or GiB.
pub fn bytes_of_text(text: &str) -> Option<u64> {
    let text = text.trim();
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let number: u64 = number.parse().ok()?;
    let shift = match unit.trim() {
        "" if number == 0 => 0,
        "B" => 0,
        "Ki" | "KiB" => 10,
        "Mi" | "MiB" => 20,
        "Gi" | "GiB" => 30,
        "Ti" | "TiB" => 40,
        _ => return None,
    };
    number.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printable_text_has_no_character_that_acts() {
        assert_eq!(printable_text("a\nb\u{1b}[1m\u{202e}é\u{85}"), "a\\nb\\u{1b}[1m\\u{202e}é\\u{85}");
    }

    #[test]
    fn text_is_cut_between_characters() {
        assert_eq!(cut_text("äöü", 3), "äöü");
        assert_eq!(cut_text("äöü", 2), "äö…");
        assert_eq!(cut_text("", 0), "");
    }

    #[test]
    fn sizes_have_one_decimal_in_their_largest_unit() {
        let rows = [
            (0, "0B"),
            (1023, "1023B"),
            (1024, "1.0KiB"),
            (1536, "1.5KiB"),
            (1024 * 1024 - 1, "1.0MiB"),
            (1_048_524, "1023.9KiB"),
            (7 << 20, "7.0MiB"),
            (3 << 29, "1.5GiB"),
            ((1 << 40) + (205 << 30), "1.2TiB"),
            (u64::MAX, "16.0EiB"),
        ];
        assert_eq!(rows.map(|(bytes, _)| size_text(bytes)), rows.map(|(_, text)| text));
    }

    #[test]
    fn numbers_agree_with_their_nouns() {
        assert_eq!(count_text(1, "log directory"), "1 log directory");
        assert_eq!(count_text(2, "log directory"), "2 log directories");
        assert_eq!(count_text(2, "sandbox"), "2 sandboxes");
        assert_eq!(count_text(0, "image"), "0 images");
    }
}
