//! Settings: their sources, and their resolved values.
//!
//! The input ([`Typed`], [`Environment`], files) and the result ([`Settings`]) are two types. [`load`] converts the
//! input into the result. One table, [`KEYS`], lists every key. Only this module reads the environment and the
//! configuration files, and it reads them once. `plan` receives a [`crate::plan::Policy`], without its origin.

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

pub use environment::Environment;
pub use error::{ConfigError, ConfigFault, Origin};
pub use keys::{KEYS, Key, find, nearest};
pub use layers::Typed;
pub use resolve::{Loaded, load};
pub use settings::{
    Intervals, KubeletSettings, LogFormat, PodSettings, PodSources, RuntimeSettings, Settings, StateSettings,
};
pub use show::{DEFAULT_TOML, schema};
pub use slot::InvalidValue;
