//! Distinguishes an unavailable value from an empty one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The value from a source, or why it is unavailable, or that it was not read.
///
/// Callers cannot reach the value without handling the other case. So "could not list pods" never looks like "there are
/// no pods" (I2).
#[derive(Clone, Debug, Default, Eq, JsonSchema, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::enum_variant_names, reason = "seen and not seen are what it is about")]
pub enum Seen<T> {
    /// Nothing read the source: what was to be shown or decided did not need it.
    #[default]
    NotRead,
    /// The source returned the complete value.
    Seen(T),
    /// The value is unavailable; the cause, as text.
    NotSeen(String),
}

// === impl Seen ===

impl<T> Seen<T> {
    /// Returns the value, for a caller that takes the safe choice without one.
    pub fn as_ref(&self) -> Option<&T> {
        self.result().ok()
    }

    /// Returns the value, or why it is unavailable.
    pub fn result(&self) -> Result<&T, &str> {
        match self {
            Self::Seen(value) => Ok(value),
            Self::NotSeen(cause) => Err(cause),
            Self::NotRead => Err("not read"),
        }
    }

    /// Returns why the value is unavailable.
    pub fn cause(&self) -> Option<&str> {
        self.result().err()
    }

    /// Returns why the value is unavailable, if its source was read.
    pub fn failure(&self) -> Option<&str> {
        self.cause().filter(|_| !self.is_not_read())
    }

    /// Returns whether the value is available.
    pub fn is_seen(&self) -> bool {
        self.result().is_ok()
    }

    /// Returns whether nothing read the source.
    pub fn is_not_read(&self) -> bool {
        matches!(self, Self::NotRead)
    }

    /// Applies `f` to the value, if it is available.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Seen<U> {
        match self {
            Self::Seen(value) => Seen::Seen(f(value)),
            Self::NotSeen(cause) => Seen::NotSeen(cause),
            Self::NotRead => Seen::NotRead,
        }
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
