//! The daemon: clock, schedule, signals, and the GC pass.
//!
//! [`cycle`] contains one whole pass in one function. It contains no policy: `plan` decides what is removed.

mod accounts;
pub mod agent;
mod clock;
pub mod cycle;
mod existing;
mod failed_sources;
pub mod file_limit;
pub mod file_watch;
mod live;
pub mod node;
pub mod notify;
mod planning;
mod pressure;
mod recording;
pub mod reload;
mod rule_log;
pub mod schedule;
pub mod service;
pub mod signals;
mod usage;
pub mod watchdog;

pub use clock::{Clock, Monotonic, now};
pub use cycle::Cycle;
pub use failed_sources::failed_sources;
pub use planning::{PassKind, needs_of_rules};
