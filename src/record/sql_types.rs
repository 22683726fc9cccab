//! How values lie in columns: times as nanoseconds since 1970, counts as far as SQLite's integers go.

use std::time::Duration;

use jiff::Timestamp;
use rusqlite::types::Type;
use serde::de::DeserializeOwned;

/// A time as it is stored. The ends of the range, 1677 and 2262, stand for all beyond them.
pub(super) fn nanos(at: Timestamp) -> i64 {
    let nanos = at.as_nanosecond();
    i64::try_from(nanos).unwrap_or(if nanos < 0 { i64::MIN } else { i64::MAX })
}

/// The time `ago` before `at`, as it is stored.
pub(super) fn nanos_before(at: Timestamp, ago: Duration) -> i64 {
    nanos(at).saturating_sub(i64::try_from(ago.as_nanos()).unwrap_or(i64::MAX))
}

/// A time as it was stored.
pub(super) fn moment(nanos: i64) -> Timestamp {
    Timestamp::from_nanosecond(nanos.into()).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// A count or a number of bytes as it is stored.
pub(super) fn integer(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// A count or a number of bytes as it was stored.
pub(super) fn count(integer: i64) -> u64 {
    u64::try_from(integer).unwrap_or(0)
}

/// A value as JSON, for those columns that nobody selects by.
pub(super) fn json(value: &impl serde::Serialize) -> rusqlite::Result<String> {
    serde_json::to_string(value).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
}

/// A value that lies as JSON in a column.
pub(super) fn from_json<T: DeserializeOwned>(column: usize, text: &str) -> rusqlite::Result<T> {
    serde_json::from_str(text)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, error.into()))
}
