//! Durations in the notations of kubegc and the kubelet.

use std::time::Duration;

/// The longest allowed duration: 100 years. A longer one could overflow the arithmetic with times.
pub(super) const LONGEST: Duration = Duration::from_hours(100 * 8766);

/// The units of Go's `time.ParseDuration`.
const GO_UNITS: [&str; 7] = ["ns", "us", "µs", "ms", "s", "m", "h"];

/// Parses `2m`, `168h`, `7d`, `1h 30m`, `1.5h`, `0`.
pub(super) fn parse(text: &str) -> Option<Duration> {
    humantime::parse_duration(text).ok()
}

/// Parses Go's notation: as [`parse`], without days and longer units, and without spaces.
pub(super) fn parse_go(text: &str) -> Option<Duration> {
    let mut units = text.split(|c: char| c.is_ascii_digit() || c == '.').filter(|unit| !unit.is_empty());
    units.all(|unit| GO_UNITS.contains(&unit)).then(|| parse(text)).flatten().filter(|time| *time <= LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::duration_text as text;

    #[test]
    fn what_is_written_is_read_again() {
        for (seconds, want) in [(0, "0s"), (90, "1m30s"), (120, "2m"), (5400, "1h30m"), (30 * 86400, "30d")] {
            let time = Duration::from_secs(seconds);
            assert_eq!(text(time), want);
            assert_eq!(parse(want), Some(time));
        }
        let odd = Duration::new(3_456_789, 123_456_789);
        assert_eq!(parse(&text(odd)), Some(odd));
    }

    #[test]
    fn go_knows_no_days() {
        assert_eq!(parse_go("2m0s"), Some(Duration::from_mins(2)));
        assert_eq!(parse_go("1h30m"), Some(Duration::from_mins(90)));
        assert_eq!(parse_go("1.5h"), Some(Duration::from_mins(90)));
        assert_eq!(parse_go("0"), Some(Duration::ZERO));
        assert_eq!(parse_go("0s"), Some(Duration::ZERO));
        for bad in ["7d", "2 m", "2min", "-5m", "5", ""] {
            assert_eq!(parse_go(bad), None, "{bad:?}");
        }
    }
}
