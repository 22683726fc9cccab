//! Who takes events.

use jiff::Timestamp;

use super::Reason;

/// An event on the node, as it is now.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NodeEvent {
    /// Its own name, made of the node's and the moment.
    pub name: String,
    /// Why there is one.
    pub reason: Reason,
    /// The words of the last time.
    pub message: String,
    /// How often it happened.
    pub count: u32,
    /// The first time.
    pub first: Timestamp,
    /// The last time.
    pub last: Timestamp,
    /// Says that it was created.
    pub(super) is_written: bool,
}

/// Takes events; the API server, or a list in a test.
pub trait EventSink {
    /// Writes an event that is new.
    fn create(&self, event: &NodeEvent) -> impl Future<Output = Result<(), SinkError>> + Send;

    /// Writes count, moment and words of one that was created.
    fn update(&self, event: &NodeEvent) -> impl Future<Output = Result<(), SinkError>> + Send;
}

/// Why an event was not taken.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SinkError {
    /// We may not write events. In the server's words.
    #[error("{0}")]
    Forbidden(String),
    /// The event to be updated is not there: it is too old.
    #[error("there is no such event any more")]
    Gone,
    /// Nothing says how to reach an API server: this is no node of a cluster.
    #[error("{0}")]
    NoServer(String),
    /// Anything else.
    #[error("{0}")]
    Failed(String),
}
