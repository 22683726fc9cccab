//! What the API server serves and shows: its resources, and a monitor for each.

pub(super) mod filter;
pub(super) mod monitors;
pub(super) mod namespaces;
pub(super) mod resources;
pub(super) mod served;
