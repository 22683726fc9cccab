//! One value of a source, not yet checked.

use toml::Value;

use super::error::Origin;

/// One value from a source.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    /// The dotted key.
    pub(super) key: String,
    /// The value, of any type.
    pub(super) value: Value,
    /// The source of the value.
    pub(super) origin: Origin,
}
