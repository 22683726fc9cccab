//! Ages and times in decisions and documents.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// The beginning of 2001. No container is older, so an earlier time is unknown, and not a great age.
const FIRST_KNOWN_SECOND: i64 = 978_307_200;

/// Returns the creation time of an object if the runtime knows it: one before 2001 is unknown.
pub fn known(at: Timestamp) -> Option<Timestamp> {
    Some(at).filter(|at| at.as_second() >= FIRST_KNOWN_SECOND)
}

/// Returns the time since `since`; 0 if `since` is unknown, or in the future because the clock was set back.
pub(super) fn age(now: Timestamp, since: Timestamp) -> Duration {
    let age = known(since).map(|since| now.duration_since(since));
    age.and_then(|age| Duration::try_from(age).ok()).unwrap_or_default()
}

/// Returns whether `since` is at least `min_age` ago. A time in the future never is, as in the kubelet.
pub(super) fn is_older(now: Timestamp, since: Timestamp, min_age: Duration) -> bool {
    SignedDuration::try_from(min_age).is_ok_and(|min_age| now.duration_since(since) >= min_age)
}

/// Returns whole seconds, for documents.
pub(super) fn seconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX)
}
