//! The binary on real nodes: its output, its actions, and what is left.

mod disk;
mod failures;
mod images;
mod leftovers;
mod lists;
pub mod pods;
mod service;
mod space;
mod undo;
mod unknown;
mod unlisted_images;
mod whole_disk;
