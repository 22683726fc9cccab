//! Replays the trace of a node under other settings: what would have been removed, and pulled again.
//!
//! The decisions are those of [`crate::plan`], in the passes that the node had. A replay differs from the node in what the trace does
//! not have: the size of an image is one number, so a layer that images share counts in parts; pods that name an image without a
//! container, records of pulls and inodes do not count; what the rules ask of pulls is as at the end of the trace.
//!
//! There is no clock and no I/O.

#![forbid(clippy::disallowed_methods, clippy::disallowed_types)]

mod policies;
mod replay;
mod suggest;
mod world;

pub use policies::{all_unused, of_kubelet, orders};
pub use replay::{Removal, Replay, Ruler, Totals};
pub use suggest::{Suggestion, suggest};

#[cfg(test)]
mod tests;
