//! Commands about the program itself: its version, its manual pages, completions for a shell.

pub(in crate::cli) mod completions;
pub(in crate::cli) mod man;
pub(in crate::cli) mod version;
