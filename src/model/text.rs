//! Durations and numbers as text.

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

/// Returns a number of things: `1 image`, `4 images`.
pub fn count_text(number: impl Display + From<u8> + PartialEq + Copy, thing: &str) -> String {
    match thing.strip_suffix('y') {
        _ if number == 1.into() => format!("1 {thing}"),
        Some(stem) => format!("{number} {stem}ies"),
        None if thing.ends_with('x') => format!("{number} {thing}es"),
        None => format!("{number} {thing}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_agree_with_their_nouns() {
        assert_eq!(count_text(1, "log directory"), "1 log directory");
        assert_eq!(count_text(2, "log directory"), "2 log directories");
        assert_eq!(count_text(2, "sandbox"), "2 sandboxes");
        assert_eq!(count_text(0, "image"), "0 images");
    }
}
