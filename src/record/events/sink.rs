//! The trait for writing events.

use jiff::Timestamp;

use super::Reason;

/// An event on the node, in its current state.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NodeEvent {
    /// The name of the event, from the node's name and the time.
    pub name: String,
    /// The reason of the event.
    pub reason: Reason,
    /// The latest message.
    pub message: String,
    /// How many times it occurred.
    pub count: u32,
    /// The first time.
    pub first: Timestamp,
    /// The last time.
    pub last: Timestamp,
    /// Whether it was created on the server.
    pub(super) is_written: bool,
}

/// Writes events; the API server, or a list in a test.
pub trait EventSink {
    /// Creates a new event.
    fn create(&self, event: &NodeEvent) -> impl Future<Output = Result<(), SinkError>> + Send;

    /// Updates the count, the time and the message of a created event.
    fn update(&self, event: &NodeEvent) -> impl Future<Output = Result<(), SinkError>> + Send;
}

/// Why an event was not written.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SinkError {
    /// No permission to write events. The server's message.
    #[error("{0}")]
    Forbidden(String),
    /// The event to update no longer exists: it expired.
    #[error("the event no longer exists")]
    Missing,
    /// No API server is configured: this host is not a node of a cluster.
    #[error("{0}")]
    NoServer(String),
    /// Any other error.
    #[error("{0}")]
    Failed(String),
}
