//! The annotations of kube-janitor, which say when an object ends. They are what a tenant writes.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// How long an object lives from its creation on, and when it ends.
const TTL: &str = "janitor/ttl";
const EXPIRES: &str = "janitor/expires";
pub(super) const NAMES: [&str; 2] = [TTL, EXPIRES];
/// The longest value in bytes. A longer one cannot be read.
const LONGEST: usize = 32;

/// Returns when an object ends by the value of an annotation. `None` = it cannot be read, or the creation is unknown.
pub(super) fn end(name: &str, text: &str, created_at: Option<Timestamp>) -> Option<Timestamp> {
    match name {
        _ if text.len() > LONGEST => None,
        TTL => end_of_ttl(text, created_at),
        _ => end_of_time(text),
    }
}

/// Returns when a time to live ends, as kube-janitor has it: a number and one of s, m, h, d, w, or `forever`. `None` = it
/// cannot be read.
fn end_of_ttl(text: &str, created_at: Option<Timestamp>) -> Option<Timestamp> {
    if text == "forever" {
        return Some(Timestamp::MAX);
    }
    let is_known =
        text.ends_with(['s', 'm', 'h', 'd', 'w']) && text.bytes().rev().skip(1).all(|it| it.is_ascii_digit());
    let ttl = humantime::parse_duration(text).ok().filter(|_| is_known)?;
    created_at.map(|at| at.saturating_add(ttl).unwrap_or(Timestamp::MAX))
}

/// Returns the time of an annotation, as kube-janitor has it: a date, or a date with a time, in UTC.
fn end_of_time(text: &str) -> Option<Timestamp> {
    let without_zone = || text.parse::<DateTime>().ok()?.to_zoned(TimeZone::UTC).ok();
    text.parse().ok().or_else(|| without_zone().map(|at| at.timestamp()))
}
