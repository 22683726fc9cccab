//! Settings: their sources, and their resolved values.
//!
//! The input ([`Typed`], [`Environment`], files) and the result ([`Settings`]) are two types. [`load`] converts the
//! input into the result. One table, [`KEYS`], lists every key. Only this module reads the environment and the
//! configuration files, and it reads them once. `plan` receives a [`crate::plan::Policy`], without its origin.
//!
//! The table reads the values, not serde: a derived reader stops at the first fault, and reports neither the line nor the
//! permitted range. Flags, documents and suggestions come from the table too.

mod config_error;
mod declarations;
mod entry;
mod key;
mod loaded;
mod parse;
mod position;
mod requirements;
mod resolve;
mod rule_tables;
mod settings;
mod show;
mod sources;
#[cfg(test)]
mod tests;
mod values;

pub use config_error::{ConfigError, ConfigFault, MAX_SHOWN, Origin};
pub use declarations::KEYS;
pub use key::{Key, find, nearest};
pub use loaded::Loaded;
pub use position::Position;
pub use requirements::{Need, Requirement};
pub use resolve::{load, load_in_part, load_upon};
pub use rule_tables::then_text;
pub use settings::{
    Intervals, KubeletSettings, LogFormat, LogLevel, MetricsSettings, Mode, PodSettings, RuntimeSettings, Settings,
    StateSettings,
};
pub use show::schema;
pub use show::{default_toml, reference};
pub use sources::environment::Environment;
pub use sources::files::ConfigFiles;
pub use sources::layers::Typed;
