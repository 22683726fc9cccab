//! Distinguishes an unavailable value from an empty one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The value from a source, or why it is unavailable.
///
/// Callers cannot reach the value without handling the other case. So "could not list pods" never looks like "there are
/// no pods" (I2).
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Seen<T> {
    /// The source returned the complete value.
    Seen(T),
    /// The value is unavailable; the cause, as text.
    NotSeen(String),
}

// === impl Seen ===

impl<T> Seen<T> {
    /// Returns the value, for a caller that takes the safe choice without one.
    pub fn as_ref(&self) -> Option<&T> {
        match self {
            Self::Seen(value) => Some(value),
            Self::NotSeen(_) => None,
        }
    }

    /// Returns why the value is unavailable.
    pub fn cause(&self) -> Option<&str> {
        match self {
            Self::Seen(_) => None,
            Self::NotSeen(cause) => Some(cause),
        }
    }

    /// Applies `f` to the value, if it is available.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_a_cause_not_an_empty_value() {
        assert_eq!(Seen::from(Ok::<_, std::num::ParseIntError>(0)), Seen::Seen(0));
        let cause = "invalid digit found in string".to_owned();
        assert_eq!(Seen::from("x".parse::<u8>()), Seen::NotSeen(cause));
    }
}
