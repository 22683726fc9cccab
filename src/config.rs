//! Settings: what was written where, and what it means.

mod settings;

pub use settings::{Intervals, LogFormat, PodSource, RuntimeSettings, Settings, StateSettings};
