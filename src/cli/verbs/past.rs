//! Commands about what was recorded.

pub(in crate::cli) mod history;
pub(in crate::cli) mod lab;
pub(in crate::cli) mod undo;
