//! Durations as text.

use std::fmt::Write as _;
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
