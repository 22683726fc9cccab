//! The clock, the loops and the signals: when a pass is made, and what one is.
//!
//! [`cycle`] is the heart: one pass in one function. It holds no policy; what goes is decided in `plan`.

mod clock;
pub mod cycle;
pub mod events;
pub mod node;
pub mod notify;
mod pods;
mod pressure;
mod revalidate;
pub mod schedule;
pub mod service;
pub mod signals;

pub use clock::{Clock, now};
pub use cycle::{Cycle, Pass, look_and_plan, recall};
