//! The commands. Each has its arguments, whose doc comments are the help text, and all that is known of it as a
//! [`Verb`](super::verb::Verb). `src/cli.rs` lists them; a group, such as `fleet`, lists its own.

pub(super) mod collect;
pub(super) mod config;
pub(super) mod container_logs;
pub(super) mod controller;
#[cfg(feature = "sim")]
pub(super) mod demo;
pub(super) mod disk;
pub(super) mod fleet;
pub(super) mod images;
mod past;
pub(super) mod plan;
mod program;
pub(super) mod report;
pub(super) mod run;
pub(super) mod snapshot;
pub(super) mod status;
pub(super) mod why;

pub(super) use fleet::{pause, resume};
pub(super) use past::{history, lab, undo};
pub(super) use program::{completions, man, version};
