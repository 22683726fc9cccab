//! What passes tell the cluster: Kubernetes events on the node, as the kubelet raises them (spec 1.3, 6.7, 6.8).
//!
//! [`Notices`] says what a pass is worth telling, [`start_recorder`] makes the way from the passes to the [`EventRecorder`],
//! which turns notices into events: the same again is not a new event but a higher count, and a bucket of tokens bounds
//! the writes as client-go does. Nothing here holds up a pass: the way is a queue that drops what does not fit, and each
//! write has a limit. Whoever may not write events is told so once and asked again after a rest.

mod api;
mod event_recorder;
mod notices;
mod rate_limiter;
mod sink;
#[cfg(test)]
mod tests;

pub use api::ApiSink;
pub use event_recorder::{EventQueue, EventRecorder, start_recorder};
pub use notices::{Ended, Notice, Notices, Reason};
pub use sink::{EventSink, NodeEvent, SinkError};
