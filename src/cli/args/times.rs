//! Times as a person writes them: a duration from now or before now, a time, or a date. Every flag with a time uses this file, so
//! that one text is the same time everywhere.

use std::time::Duration;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, Zoned};

use crate::daemon::now;

/// Reads a time that has passed: a duration is one before now.
pub(in crate::cli) fn before_now(text: &str) -> Result<Timestamp, String> {
    time(text, |back| now().checked_sub(back).unwrap_or(Timestamp::MIN))
}

/// Reads a time that is to come: a duration is one from now.
pub(in crate::cli) fn from_now(text: &str) -> Result<Timestamp, String> {
    match time(text, |ahead| now().checked_add(ahead).unwrap_or(Timestamp::MAX))? {
        at if at > now() => Ok(at),
        at => Err(format!("{at:.0} is in the past: expected a time to come; one without a zone is UTC")),
    }
}

/// A time without a zone is UTC, as in all output: the zone of a shell is not that of the nodes.
fn time(text: &str, relative: impl FnOnce(SignedDuration) -> Timestamp) -> Result<Timestamp, String> {
    let from = |time: Duration| relative(SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX));
    // jiff reads a date and time without the zone in brackets after it.
    let without_zone = || text.parse::<DateTime>().ok().filter(|_| !text.contains('['));
    humantime::parse_duration(text)
        .map(from)
        .or_else(|_| text.parse())
        .or_else(|_| text.parse::<Zoned>().map(|at| at.timestamp()))
        .ok()
        .or_else(|| Some(without_zone()?.to_zoned(TimeZone::UTC).ok()?.timestamp()))
        .ok_or_else(|| "expected a duration such as 24h, a date, or a time such as 2026-11-21T12:00 (UTC)".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_one_from_now_or_before_now() {
        let since = before_now("24h").unwrap();
        let ago = now().duration_since(since);
        assert!((24 * 3600..24 * 3600 + 60).contains(&ago.as_secs()), "{ago}");
        let ahead = from_now("1h").unwrap().duration_since(now());
        assert!((3600 - 60..=3600).contains(&ahead.as_secs()), "{ahead}");
    }

    #[test]
    fn the_time_of_day_counts_with_and_without_a_zone() {
        let ten = "10:00:00Z";
        let rows = [
            ("T10:00", ten),
            (" 10:00", ten),
            ("T10:00:00", ten),
            ("T10", ten),
            ("T10:00Z", ten),
            ("T10:00:00+02:00", "08:00:00Z"),
            ("T10:00[Europe/Berlin]", "09:00:00Z"),
            ("", "00:00:00Z"),
        ];
        for (time, expected) in rows {
            let expected = format!("2999-12-01T{expected}").parse().unwrap();
            for read in [before_now, from_now] {
                assert_eq!(read(&format!("2999-12-01{time}")), Ok(expected), "{time:?}");
            }
        }
        assert_eq!(before_now("20261201T1000"), before_now("2026-12-01T10:00Z"));
    }

    #[test]
    fn what_is_no_time_or_has_no_known_zone_is_refused() {
        for text in
            ["yesterday", "10:00", "2999-12-01T10:00[Europe/Nowhere]", "2999-12-01T10:00 UTC", "2999-12-01 at 10"]
        {
            let error = before_now(text).unwrap_err();
            assert!(error.contains("2026-11-21T12:00 (UTC)"), "{text}: {error}");
        }
    }

    #[test]
    fn an_end_is_not_in_the_past() {
        for text in ["2020-12-01T10:00", "2020-12-01", "0s"] {
            assert!(from_now(text).unwrap_err().contains("in the past"), "{text}");
        }
        assert_eq!(before_now("2020-12-01T10:00"), Ok("2020-12-01T10:00:00Z".parse().unwrap()));
    }
}
