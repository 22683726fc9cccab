//! Commands about what was recorded.

pub(in crate::cli) mod history;
