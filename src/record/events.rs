//! Kubernetes events about passes, on the Node, as the kubelet 1.36 emits them when its own collection fails.
//!
//! [`Notices`] decides which events a pass causes. [`Events`] gives them to the task that writes them, and never delays a pass:
//! a full queue drops events. If kubegc may not write events, it logs that once and tries again after a back-off.

mod notices;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{EventSource, ObjectReference};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

pub use self::notices::{Notice, Notices, Reason};
use crate::kubernetes::{Bucket, Cause, Connection, EventWriter, KubernetesError, NewEvent};
use crate::model::Outage;
use crate::plan::Pass;

/// The component that reports the events.
const COMPONENT: &str = "kubegc";
/// The limit of client-go's event filter: this many events at once, then one per interval.
const BURST: u32 = 25;
const INTERVAL: Duration = Duration::from_mins(5);
/// How long a shutdown may wait for events that are not written yet.
const SHUTDOWN_WAIT: Duration = Duration::from_secs(1);

/// The events of the passes of an agent.
#[derive(Debug)]
pub struct Events {
    node: String,
    notices: Notices,
    /// `None` = no events are written.
    writing: Option<(mpsc::Sender<NewEvent>, JoinHandle<()>)>,
}

// === impl Events ===

impl Events {
    /// Starts the task that writes events of the node with this name. `None` = no events are written.
    pub fn start(connection: Option<Connection>, node: &str) -> Self {
        let writing = connection.map(|connection| {
            let source = EventSource { component: Some(COMPONENT.to_owned()), host: Some(node.to_owned()) };
            let mut outage = Outage::default();
            let log = move |fault| log(&mut outage, fault);
            let (queue, writer) = EventWriter::new(Arc::new(connection), source, Bucket::full(INTERVAL, BURST), log);
            (queue, tokio::spawn(writer.run(CancellationToken::new())))
        });
        Self { node: node.to_owned(), notices: Notices::default(), writing }
    }

    /// Queues the events of a pass, and returns at once.
    pub fn announce(&mut self, now: Timestamp, pass: &Pass) {
        let Some((queue, _)) = &self.writing else { return };
        let notices = self.notices.of(pass).into_iter();
        let dropped = notices.filter_map(|notice| queue.try_send(event(&self.node, now, notice)).err());
        if dropped.count() > 0 {
            tracing::debug!("dropping the events of a pass: earlier events are not written yet");
        }
    }

    /// Waits at most `SHUTDOWN_WAIT` for events that are not written yet.
    pub async fn end(self) {
        let Some((queue, writing)) = self.writing else { return };
        drop(queue);
        let _ = timeout(SHUTDOWN_WAIT, writing).await;
    }
}

/// Returns the event of a notice. It is in the namespace `default`, as the kubelet's, because a Node has no namespace. The
/// Node's uid is its name, as in the kubelet's events; `kubectl describe` searches for that.
fn event(node: &str, at: Timestamp, Notice { reason, class, message }: Notice) -> NewEvent {
    let (name, uid) = (Some(node.to_owned()), Some(node.to_owned()));
    let about = ObjectReference { kind: Some("Node".to_owned()), name, uid, ..ObjectReference::default() };
    let (namespace, is_warning, class) = ("default".to_owned(), reason.is_warning(), Some(class));
    NewEvent { namespace, about, reason: reason.as_str(), is_warning, message, at, class }
}

/// Logs a failure once, until a write succeeds again.
fn log(outage: &mut Outage, fault: Option<KubernetesError>) {
    match fault {
        Some(error @ KubernetesError { cause: Cause::NoAccess { .. }, .. }) => {
            tracing::debug!(%error, "no events written: no API server available");
        }
        fault => {
            if let Some(error) = outage.begins(fault) {
                tracing::warn!(%error, "cannot write events; passes continue without them");
            }
        }
    }
}
