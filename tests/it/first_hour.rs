//! What an on-call engineer meets in the first hour: the shell must not mislead.

mod agent_socket;
mod collections;
mod configuration;
mod history;
mod messages;
mod pausing;
mod service;

use crate::cli_on_sim::Host;
