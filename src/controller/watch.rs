//! What the API server serves and shows: its resources, and which of them are collected.

pub(super) mod filter;
pub(super) mod namespaces;
pub(super) mod resources;
pub(super) mod served;
