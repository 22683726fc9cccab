//! The daemon: clock, schedule, signals, and the GC pass.
//!
//! [`cycle`] contains one whole pass in one function. It contains no policy: `plan` decides what is removed.

pub mod agent;
mod clock;
pub mod cycle;
pub mod node;
pub mod policies;
mod pressure;
pub(super) mod process;
pub mod publisher;
pub mod reload;
pub mod schedule;
pub mod service;

pub use clock::{Clock, Monotonic, now};
pub use cycle::Cycle;
pub use cycle::failed_sources::failed_sources;
pub use cycle::pauses::{end_pause, removals_ended, suspension_of_files, write_pause};
pub use cycle::planning::{PassKind, needs_of_rules};
pub use process::{file_limit, file_watch, notify, signals, watchdog};
