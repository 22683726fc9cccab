//! Not having seen is not the same as nothing there.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a source answered, or why it did not.
///
/// There is no way to the value that passes by the other case, so "could not list pods" never looks like "there are no
/// pods" (I2).
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Seen<T> {
    /// The source answered completely.
    Seen(T),
    /// The source was not asked or did not answer; the cause, for people.
    NotSeen(String),
}

// === impl Seen ===

impl<T> Seen<T> {
    /// The value, for a caller that does the safe thing without one.
    pub fn as_ref(&self) -> Option<&T> {
        match self {
            Self::Seen(value) => Some(value),
            Self::NotSeen(_) => None,
        }
    }

    /// Why there is no value.
    pub fn cause(&self) -> Option<&str> {
        match self {
            Self::Seen(_) => None,
            Self::NotSeen(cause) => Some(cause),
        }
    }

    /// Applies `f` to a value that was seen.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Seen<U> {
        match self {
            Self::Seen(value) => Seen::Seen(f(value)),
            Self::NotSeen(cause) => Seen::NotSeen(cause),
        }
    }
}

impl<T> Default for Seen<T> {
    fn default() -> Self {
        Self::NotSeen("not part of this snapshot".to_owned())
    }
}

impl<T, E: std::fmt::Display> From<Result<T, E>> for Seen<T> {
    fn from(result: Result<T, E>) -> Self {
        match result {
            Ok(value) => Self::Seen(value),
            Err(error) => Self::NotSeen(error.to_string()),
        }
    }
}
