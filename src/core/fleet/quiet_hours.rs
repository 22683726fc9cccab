//! Quiet hours: times of a week in which the scheduled passes remove nothing, such as `Mo-Fr 08:00-18:00 Europe/Berlin`.

use std::fmt::{Display, Formatter};
use std::str::FromStr;

use jiff::Timestamp;
use jiff::civil::{Date, Weekday};
use jiff::tz::TimeZone;

const DAY: u16 = 24 * 60;

/// Hours of some days of the week in one time zone. Hours that end before they begin end on the next day.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct QuietHours {
    text: String,
    /// From Monday on.
    days: [bool; 7],
    /// Minutes of the day: the first one, and the first one that is not quiet.
    from: u16,
    to: u16,
    zone: TimeZone,
}

// === impl QuietHours ===

impl QuietHours {
    /// Returns when the quiet hours end that contain a time; `None` = none contain it.
    pub fn end_of(&self, now: Timestamp) -> Option<Timestamp> {
        let local = now.to_zoned(self.zone.clone());
        let today = local.date();
        // Those that began yesterday may last until today.
        [today.yesterday().ok()?, today].into_iter().filter(|date| self.is_on(date.weekday())).find_map(|date| {
            let ends_on = if self.to <= self.from { date.tomorrow().ok()? } else { date };
            let (begin, end) = (self.time(date, self.from)?, self.time(ends_on, self.to)?);
            (begin..end).contains(&now).then_some(end)
        })
    }

    /// Returns the end of all quiet hours that contain a time, the latest of them.
    pub fn latest_end(all: &[Self], now: Timestamp) -> Option<Timestamp> {
        all.iter().filter_map(|hours| hours.end_of(now)).max()
    }

    fn is_on(&self, day: Weekday) -> bool {
        let position = usize::try_from(day.to_monday_zero_offset()).ok();
        position.and_then(|day| self.days.get(day)).copied().unwrap_or_default()
    }

    /// Returns a time of a day in the zone. A time that the day lacks, because clocks are set forward, is the one after the gap.
    fn time(&self, date: Date, minute: u16) -> Option<Timestamp> {
        let date = if minute == DAY { date.tomorrow().ok()? } else { date };
        let (hour, minute) = (minute % DAY / 60, minute % 60);
        let time = date.at(i8::try_from(hour).ok()?, i8::try_from(minute).ok()?, 0, 0);
        Some(time.to_zoned(self.zone.clone()).ok()?.timestamp())
    }
}

impl Display for QuietHours {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

/// The error is what is wrong with the text.
impl FromStr for QuietHours {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words: Vec<_> = text.split_whitespace().collect();
        let (days, hours, zone) = match words[..] {
            [hours] => ("Mo-Su", hours, "UTC"),
            [hours, zone] if hours.contains(':') => ("Mo-Su", hours, zone),
            [days, hours] => (days, hours, "UTC"),
            [days, hours, zone] => (days, hours, zone),
            _ => return Err(format!("expected days, hours and a time zone, and {text:?} has {} words", words.len())),
        };
        let (from, to) = hours.split_once('-').ok_or_else(|| format!("{hours:?} is not of the form 08:00-18:00"))?;
        let (from, to) = (minute(from)?, minute(to)?);
        if from == to || from == DAY {
            return Err(format!("{hours} has no time in it; a whole day is 00:00-24:00"));
        }
        let zone =
            TimeZone::get(zone).map_err(|_| format!("{zone:?} is not a time zone such as Europe/Berlin or UTC"))?;
        Ok(Self { text: words.join(" "), days: week(days)?, from, to, zone })
    }
}

fn minute(text: &str) -> Result<u16, String> {
    let wrong = || format!("{text:?} is not a time from 00:00 to 24:00");
    let (hour, minute) = text.split_once(':').ok_or_else(wrong)?;
    let number = |text: &str| -> Option<u16> {
        let is_number = text.len() <= 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|_| is_number)
    };
    let of_day =
        number(hour).zip(number(minute).filter(|minute| *minute < 60)).map(|(hour, minute)| hour * 60 + minute);
    of_day.filter(|minute| *minute <= DAY).ok_or_else(wrong)
}

/// Reads days and ranges of days, such as `Mo-Fr` or `Mon,Sat-Sun`.
fn week(text: &str) -> Result<[bool; 7], String> {
    let mut days = [false; 7];
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (day(first)?, day(last)?);
        // From Saturday to Monday is over the end of the week.
        let length = (last + 7 - first) % 7;
        for (position, is_on) in days.iter_mut().enumerate() {
            *is_on |= (position + 7 - first) % 7 <= length;
        }
    }
    Ok(days)
}

/// Reads a day of the week: its first two letters, or more of its name.
fn day(text: &str) -> Result<usize, String> {
    const DAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
    let lower = text.to_lowercase();
    let found = DAYS.iter().position(|day| lower.len() >= 2 && day.starts_with(&lower));
    found.ok_or_else(|| format!("{text:?} is not a day such as Mo, Tue or Saturday"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quiet(text: &str) -> QuietHours {
        text.parse().unwrap()
    }

    /// Returns the end of the quiet hours at a time in UTC.
    fn end(hours: &str, time: &str) -> Option<String> {
        quiet(hours).end_of(time.parse().unwrap()).map(|end| end.to_string())
    }

    /// 2026-06-01 is a Monday.
    #[test]
    fn hours_are_those_of_their_zone() {
        let work = "Mo-Fr 08:00-18:00 Europe/Berlin";
        // In summer Berlin is two hours ahead.
        assert_eq!(end(work, "2026-06-01T05:59:59Z"), None);
        assert_eq!(end(work, "2026-06-01T06:00:00Z"), Some("2026-06-01T16:00:00Z".to_owned()));
        assert_eq!(end(work, "2026-06-01T16:00:00Z"), None);
        // In winter it is one.
        assert_eq!(end(work, "2026-12-01T16:30:00Z"), Some("2026-12-01T17:00:00Z".to_owned()));
        assert_eq!(end(work, "2026-06-06T10:00:00Z"), None, "Saturday");
        assert_eq!(end("08:00-18:00", "2026-06-06T08:00:00Z"), Some("2026-06-06T18:00:00Z".to_owned()));
        assert_eq!(end("Sat 08:00-18:00", "2026-06-06T08:00:00Z"), Some("2026-06-06T18:00:00Z".to_owned()));
        assert_eq!(end("08:00-18:00 Asia/Tokyo", "2026-06-05T23:00:00Z"), Some("2026-06-06T09:00:00Z".to_owned()));
    }

    #[test]
    fn hours_over_midnight_belong_to_the_day_on_which_they_begin() {
        let nights = "Fr 22:00-06:00";
        assert_eq!(end(nights, "2026-06-05T21:59:00Z"), None);
        assert_eq!(end(nights, "2026-06-05T22:00:00Z"), Some("2026-06-06T06:00:00Z".to_owned()));
        assert_eq!(end(nights, "2026-06-06T05:59:00Z"), Some("2026-06-06T06:00:00Z".to_owned()));
        assert_eq!(end(nights, "2026-06-05T05:00:00Z"), None, "that night began on Thursday");
        assert_eq!(end("Sa 00:00-24:00", "2026-06-06T23:59:59Z"), Some("2026-06-07T00:00:00Z".to_owned()));
        assert_eq!(end("Sa 00:00-24:00", "2026-06-07T00:00:00Z"), None);
    }

    /// In Berlin, 2026-03-29 lacks the hour from 02:00, and 2026-10-25 has it twice.
    #[test]
    fn a_change_of_the_clocks_moves_no_end() {
        let night = "Su 01:00-02:30 Europe/Berlin";
        assert_eq!(end(night, "2026-03-29T00:30:00Z"), Some("2026-03-29T01:30:00Z".to_owned()));
        assert_eq!(
            end("Su 01:00-04:00 Europe/Berlin", "2026-10-25T02:30:00Z"),
            Some("2026-10-25T03:00:00Z".to_owned())
        );
    }

    #[test]
    fn days_are_names_and_ranges() {
        let on = |text: &str| quiet(&format!("{text} 08:00-18:00")).days.map(u8::from);
        assert_eq!(on("Mo-Fr"), [1, 1, 1, 1, 1, 0, 0]);
        assert_eq!(on("mon,Thursday"), [1, 0, 0, 1, 0, 0, 0]);
        assert_eq!(on("Sa-Mo"), [1, 0, 0, 0, 0, 1, 1]);
        assert_eq!(on("We"), [0, 0, 1, 0, 0, 0, 0]);
        assert_eq!(on("Mo-Su"), [1; 7]);
    }

    #[test]
    fn of_several_the_latest_end_counts() {
        let all = ["08:00-18:00", "10:00-20:00", "12:00-13:00"].map(quiet);
        let end = |time: &str| QuietHours::latest_end(&all, time.parse().unwrap()).map(|end| end.to_string());
        assert_eq!(end("2026-06-06T12:30:00Z"), Some("2026-06-06T20:00:00Z".to_owned()));
        assert_eq!(end("2026-06-06T07:30:00Z"), None);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, wrong) in [
            ("", "expected days, hours and a time zone"),
            ("Mo 08:00-18:00 Europe/Berlin now", "has 4 words"),
            ("Mo-Fr", "\"Mo\" is not a time"),
            ("Mo 8-18", "\"8\" is not a time"),
            ("Mo 08:00", "\"08:00\" is not of the form"),
            ("Mo 08:00-25:00", "\"25:00\" is not a time from 00:00 to 24:00"),
            ("Mo 08:60-18:00", "\"08:60\" is not a time"),
            ("Mo +8:00-18:00", "\"+8:00\" is not a time"),
            ("Mo 08:00-08:00", "has no time in it; a whole day is 00:00-24:00"),
            ("T 08:00-18:00", "\"T\" is not a day"),
            ("Mo-Xx 08:00-18:00", "\"Xx\" is not a day"),
            ("Mo 08:00-18:00 Berlin", "\"Berlin\" is not a time zone"),
        ] {
            let error = text.parse::<QuietHours>().unwrap_err();
            assert!(error.contains(wrong), "{text:?}: {error}");
        }
    }

    #[test]
    fn it_is_printed_as_it_was_written() {
        assert_eq!(quiet(" Mo-Fr  08:00-18:00 Europe/Berlin ").to_string(), "Mo-Fr 08:00-18:00 Europe/Berlin");
    }
}
