//! Loads the settings of a service again: what the agent and the controller have in common.

use std::fmt::Display;

use crate::config::{KEYS, Loaded, Settings};

/// The fact that readiness shows about the last load of the configuration.
pub const CONFIGURATION: &str = "configuration";
/// The message about settings that are invalid.
pub(super) const NOT_RELOADED: &str = "settings not reloaded; the previous settings remain in force";

/// Loads the settings again, and logs why they cannot be loaded.
///
/// # Errors
/// Those of `load`.
pub fn load_again<E: Display>(load: impl FnOnce() -> Result<Loaded, E>) -> Result<Loaded, E> {
    load().inspect_err(|error| tracing::error!(%error, "{NOT_RELOADED}"))
}

/// Logs the settings that a reload does not change, and returns them.
pub fn needing_restart(in_force: &Settings, loaded: &Settings, concerns: fn(&str) -> bool) -> String {
    let keys = differing(in_force, loaded, concerns);
    if !keys.is_empty() {
        tracing::warn!(settings = keys, "changed settings need a restart");
    }
    keys
}

/// Returns the keys with different values, of those that concern the service.
pub(super) fn differing(one: &Settings, other: &Settings, concerns: fn(&str) -> bool) -> String {
    let differ = KEYS.iter().filter(|key| concerns(key.name)).filter(|key| key.get(one) != key.get(other));
    differ.map(|key| key.name).collect::<Vec<_>>().join(", ")
}
