//! Settings: their sources, and their resolved values.
//!
//! The input ([`Typed`], [`Environment`], files) and the result ([`Settings`]) are two types. [`load`] converts the
//! input into the result. One table, [`KEYS`], lists every key. Only this module reads the environment and the
//! configuration files, and it reads them once. `plan` receives a [`crate::plan::Policy`], without its origin.
//!
//! The table reads the values, not serde: a derived reader stops at the first fault, and reports neither the line nor the
//! permitted range. Flags, documents and suggestions come from the table too.

mod declarations;
mod entry;
mod environment;
mod error;
mod files;
mod key;
mod kubelet;
mod layers;
mod loaded;
mod parse;
mod place;
mod reference;
mod resolve;
mod rules;
mod settings;
mod show;
mod sockets;
#[cfg(test)]
mod tests;
mod values;

pub use declarations::KEYS;
pub use environment::Environment;
pub use error::{ConfigError, ConfigFault, MAX_SHOWN, Origin};
pub use files::ConfigFiles;
pub use key::{Key, find, nearest};
pub use layers::Typed;
pub use loaded::Loaded;
pub use place::Place;
pub use reference::{default_toml, reference};
pub use resolve::{load, load_in_part};
pub use rules::then_text;
pub use settings::{
    Intervals, KubeletSettings, LogFormat, LogLevel, MetricsSettings, Mode, PodSettings, RuntimeSettings, Settings,
    StateSettings,
};
pub use show::schema;
