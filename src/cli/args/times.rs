//! Times as a person writes them: a duration from now or before now, a time, or a date.

use std::time::Duration;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::daemon::now;

/// Reads a time that has passed: a duration is one before now.
pub(in crate::cli) fn before_now(text: &str) -> Result<Timestamp, String> {
    time(text, |back| now().checked_sub(back).unwrap_or(Timestamp::MIN))
}

/// Reads a time that is to come: a duration is one from now.
pub(in crate::cli) fn from_now(text: &str) -> Result<Timestamp, String> {
    time(text, |ahead| now().checked_add(ahead).unwrap_or(Timestamp::MAX))
}

fn time(text: &str, relative: impl FnOnce(SignedDuration) -> Timestamp) -> Result<Timestamp, String> {
    let from = |time: Duration| relative(SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX));
    let date = || text.parse::<Date>()?.to_zoned(TimeZone::UTC).map(|at| at.timestamp());
    humantime::parse_duration(text)
        .map(from)
        .or_else(|_| text.parse())
        .or_else(|_| date())
        .map_err(|_: jiff::Error| "expected a duration such as 24h, a date, or a time".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_duration_a_time_or_a_date() {
        let since = before_now("24h").unwrap();
        let ago = now().duration_since(since);
        assert!((24 * 3600..24 * 3600 + 60).contains(&ago.as_secs()), "{ago}");
        let ahead = from_now("1h").unwrap().duration_since(now());
        assert!((3600 - 60..=3600).contains(&ahead.as_secs()), "{ahead}");
        for read in [before_now, from_now] {
            assert_eq!(read("2026-11-21T12:00:00Z"), Ok("2026-11-21T12:00:00Z".parse().unwrap()));
            assert_eq!(read("2026-11-21"), Ok("2026-11-21T00:00:00Z".parse().unwrap()));
            assert!(read("yesterday").is_err());
        }
    }
}
