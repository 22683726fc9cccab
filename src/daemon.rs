//! To be filled.

pub mod schedule;
pub mod signals;
