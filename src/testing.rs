//! Test doubles of the servers that kubegc connects to, for unit tests. The tests in `tests/it` use [`crate::sim`].

pub mod fake_api;
pub mod fake_kubelet;
pub mod scripted_runtime;
