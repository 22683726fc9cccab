//! Settings: what was written where, and what it means.
//!
//! What was typed ([`Typed`], [`Environment`], files) and what it means ([`Settings`]) are two types, and [`load`] is the
//! way from one to the other. One table, [`KEYS`], knows every key. Nothing but this room reads the environment or a
//! configuration file, and it reads them once: `plan` gets a [`crate::plan::Policy`] and never asks where it comes from.

mod duration;
mod environment;
mod error;
mod keys;
mod kubelet;
mod layers;
mod resolve;
mod settings;
mod show;
mod slot;
#[cfg(test)]
mod tests;

pub use duration::text as duration_text;
pub use environment::Environment;
pub use error::{ConfigError, ConfigFault, Origin};
pub use keys::{KEYS, Key, find, nearest};
pub use layers::Typed;
pub use resolve::{Loaded, load};
pub use settings::{
    Intervals, KubeletSettings, LogFormat, PodSettings, PodSourceName, PodSources, RuntimeSettings, Settings,
    StateSettings,
};
pub use show::{DEFAULT_TOML, schema};
pub use slot::InvalidValue;
