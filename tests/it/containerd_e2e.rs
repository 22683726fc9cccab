//! The binary on real nodes: what it says, what it does, and what remains.

mod failures;
mod images;
mod lists;
mod pods;
mod service;
mod space;
