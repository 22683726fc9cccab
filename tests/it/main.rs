//! All tests that use the public interface, in one binary.
//!
//! One binary beside `tests/architecture.rs`, because linking takes most of the time of the tests.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::match_bool,
    reason = "a test may fail loudly, ask the clock, start programs and remove its own files"
)]

mod agent;
mod cases;
mod cli;
mod cli_on_sim;
mod completions;
mod containerd_contract;
mod containerd_e2e;
mod containerd_image;
mod containerd_reader;
mod containerd_rig;
mod containerd_soak;
mod contract;
mod controller_matrix;
mod corpus;
mod disk_pressure;
mod faults;
mod first_hour;
mod generated;
mod kill;
mod kubectl_access;
mod lab;
mod listed;
mod logs;
mod manifests;
mod matrix;
mod memory;
mod monitoring;
mod node_lock;
mod on_crio;
mod on_node;
mod properties;
mod release;
mod reload;
mod report;
mod rig;
mod rules_page;
mod sample;
mod service;
mod shell;
mod sim;
mod systemd;
mod terminal;
mod why_page;
