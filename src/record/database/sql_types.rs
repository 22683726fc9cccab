//! Conversions to and from SQLite columns: times in nanoseconds since 1970, counts within SQLite's integer range.

use std::time::Duration;

use jiff::Timestamp;
use rusqlite::types::Type;
use serde::de::DeserializeOwned;

/// Converts a time to its stored form. Times outside the range 1677 to 2262 become its ends.
pub(in crate::record) fn nanos(at: Timestamp) -> i64 {
    let nanos = at.as_nanosecond();
    i64::try_from(nanos).unwrap_or(if nanos < 0 { i64::MIN } else { i64::MAX })
}

/// Returns the time `ago` before `at`, in its stored form.
pub(in crate::record) fn nanos_before(at: Timestamp, ago: Duration) -> i64 {
    nanos(at).saturating_sub(i64::try_from(ago.as_nanos()).unwrap_or(i64::MAX))
}

pub(in crate::record) fn moment(nanos: i64) -> Timestamp {
    Timestamp::from_nanosecond(nanos.into()).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Converts a count or a number of bytes to its stored form.
pub(in crate::record) fn integer(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Converts a stored count or number of bytes.
pub(in crate::record) fn count(integer: i64) -> u64 {
    u64::try_from(integer).unwrap_or(0)
}

/// Converts a value to JSON, for columns that no query selects by.
pub(in crate::record) fn json(value: &impl serde::Serialize) -> rusqlite::Result<String> {
    serde_json::to_string(value).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
}

/// Converts a JSON column to a value.
pub(in crate::record) fn from_json<T: DeserializeOwned>(column: usize, text: &str) -> rusqlite::Result<T> {
    serde_json::from_str(text)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, error.into()))
}
