//! What stops the removals of a node, or of many, although the settings permit them: pauses and quiet hours.
//!
//! Nothing here reads a clock or does I/O. The daemon brings the file of a pause and the time together.

mod pause;
mod quiet_hours;

pub use pause::{Pause, Suspension};
pub use quiet_hours::QuietHours;
