//! Random input for unit tests.

pub mod any_forest;
