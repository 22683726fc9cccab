//! One value of a source, not yet checked.

use std::sync::Arc;

use toml::Value;

use super::config_error::{ConfigFault, Origin};
use super::position::{self, OfPart};

/// What is wrong with a value.
#[derive(Debug)]
pub(super) enum WrongValue {
    /// It is not what the type of its setting allows.
    NotAllowed,
    /// What is wrong with the value as a whole.
    Whole(String),
    /// What is wrong with each part of it.
    Parts(Vec<OfPart>),
}

/// One value from a source.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) key: String,
    /// The value, of any type.
    pub(super) value: Value,
    /// The source of the value.
    pub(super) origin: Origin,
    /// The text of its file, if that is TOML: for the positions of the parts of the value.
    pub(super) file: Option<Arc<str>>,
}

// === impl Entry ===

impl Entry {
    /// Returns the fault of a part of the value, with its position in the file. Without a file, a position in an expression remains.
    pub(super) fn fault_of(&self, OfPart { path, subject, fault }: &OfPart) -> ConfigFault {
        let fault_at = |origin, what| ConfigFault::of(origin, &self.key, &self.value, format!("{subject}{what}"));
        match (&self.origin, &self.file) {
            (Origin::File(file, _), Some(text)) => {
                let position = position::of(text, &format!("{}.{path}", self.key), fault.at);
                fault_at(Origin::File(file.clone(), Some(position)), fault.what.clone())
            }
            (origin, _) => fault_at(origin.clone(), fault.to_string()),
        }
    }
}
