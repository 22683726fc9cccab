//! The requests: one connection, lists, watches, writes, and when a request is sent again.

pub(super) mod bucket;
pub(super) mod client;
pub(super) mod clients;
pub(super) mod connection;
pub(super) mod list;
pub(super) mod metadata;
pub(super) mod path;
pub(super) mod pauses;
pub(super) mod repeats;
pub(super) mod watch;
pub(super) mod watch_lines;
pub(super) mod writer;
