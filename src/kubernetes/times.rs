//! Times that a tenant can write, and that no type of ours can hold: the API server stores a time of any year.
//!
//! A time that cannot be read concerns its own object only: it must not make a list unreadable (G5).

use jiff::Timestamp;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Reads a time. `None` = there is none, or it cannot be read.
pub(super) fn known<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
    Ok(read(&Value::deserialize(from)?))
}

/// Reads a time whose presence counts. One that cannot be read is the latest: a deletion with a grace period of thousands
/// of years ends then. `None` = there is none.
pub(super) fn latest<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
    let value = Value::deserialize(from)?;
    Ok(if value.is_null() { None } else { Some(read(&value).unwrap_or(Timestamp::MAX)) })
}

fn read(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}
