//! Kubernetes events about passes, on the Node, as the kubelet 1.36 emits them when its own collection fails.
//!
//! [`Notices`] decides which events a pass causes. [`Events`] has the queue, and the task that turns notices into events. A
//! repeated notice raises the count of the existing event. A token bucket limits the writes, as in client-go. Events never
//! delay a pass: a full queue drops notices, and each write has a timeout. If kubegc may not write events, it logs that
//! once and tries again after a back-off.

mod api;
mod event_recorder;
mod notices;
mod rate_limiter;
mod sink;
mod task;
#[cfg(test)]
mod tests;

pub use api::ApiSink;
pub use notices::{Notice, Notices, Reason};
pub use sink::{EventSink, NodeEvent, SinkError};
pub use task::Events;
