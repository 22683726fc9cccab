//! Commands that stop and resume removals.

pub(in crate::cli) mod pause;
pub(in crate::cli) mod resume;
