//! Test doubles of the servers and the disks that kubegc accesses, for unit tests. The tests in `tests/it` use [`crate::sim`].

#[path = "core/testing/any_forest.rs"]
pub mod any_forest;
pub mod api_answers;
pub mod fake_api;
pub mod fake_kubelet;
pub mod frozen_disk;
mod hang;
pub mod in_memory;
pub mod lives;
pub mod scripted_runtime;
