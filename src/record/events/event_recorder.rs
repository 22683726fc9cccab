//! Writes events from notices, in a task apart from the passes.

use std::collections::HashMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::rate_limiter::Bucket;
use super::{EventSink, NodeEvent, Notice, Reason, SinkError};
use crate::model::Outage;

/// The number of passes that the queue holds. Notices of further passes are dropped.
const QUEUE: usize = 16;
/// The timeout of one write.
const LIMIT: Duration = Duration::from_secs(10);
/// The back-off if there is no permission or no API server.
const PAUSE: SignedDuration = SignedDuration::from_mins(30);

/// The notices of a pass, and when it ended.
pub(super) type PassNotices = (Timestamp, Vec<Notice>);

/// Writes the events of the notices that come from the queue.
#[derive(Debug)]
pub(super) struct EventRecorder<S> {
    sink: S,
    node: String,
    queue: mpsc::Receiver<PassNotices>,
    /// The last event of each reason and class.
    written: HashMap<(Reason, String), NodeEvent>,
    bucket: Bucket,
    paused_until: Option<Timestamp>,
    outage: Outage,
}

// === impl EventRecorder ===

impl<S: EventSink> EventRecorder<S> {
    /// Creates the recorder for the events of a node, and the queue to it.
    pub(super) fn new(node: &str, sink: S) -> (mpsc::Sender<PassNotices>, Self) {
        let (sender, queue) = mpsc::channel(QUEUE);
        let (written, bucket) = (HashMap::new(), Bucket::full());
        let node = node.to_owned();
        (sender, Self { sink, node, queue, written, bucket, paused_until: None, outage: Outage::default() })
    }

    /// Writes events until the sender is dropped.
    pub(super) async fn run(mut self) {
        while let Some((now, notices)) = self.queue.recv().await {
            for notice in notices {
                self.send(now, notice).await;
            }
        }
    }

    /// Counts a notice, and writes it if the limit allows. Otherwise the next write includes it in its count.
    async fn send(&mut self, now: Timestamp, notice: Notice) {
        let key = (notice.reason, notice.class.clone());
        let mut event = match self.written.remove(&key) {
            Some(event) => event.again(now, notice.message),
            None => NodeEvent::new(&self.node, now, notice),
        };
        if self.paused_until.is_none_or(|until| now >= until) && self.bucket.take(now) {
            let written = self.write(&mut event).await;
            self.note(now, written);
        }
        self.written.insert(key, event);
    }

    /// Creates the event again if it expired on the server.
    async fn write(&self, event: &mut NodeEvent) -> Result<(), SinkError> {
        if event.is_written {
            match within(self.sink.update(event)).await {
                Err(SinkError::Missing) => event.restart(&self.node),
                updated => return updated,
            }
        }
        within(self.sink.create(event)).await?;
        event.is_written = true;
        Ok(())
    }

    /// Logs a failure once, until a write succeeds again.
    fn note(&mut self, now: Timestamp, written: Result<(), SinkError>) {
        let Err(error) = written else {
            self.outage.begins(None::<()>);
            return;
        };
        if matches!(error, SinkError::Forbidden(_) | SinkError::NoServer(_)) {
            self.paused_until = now.checked_add(PAUSE).ok();
        }
        if let SinkError::NoServer(_) = error {
            tracing::debug!(%error, "no events written: no API server available");
            return;
        }
        if let Some(error) = self.outage.begins(Some(error)) {
            tracing::warn!(%error, "cannot write events; passes continue without them");
        }
    }
}

async fn within(write: impl Future<Output = Result<(), SinkError>>) -> Result<(), SinkError> {
    let unanswered = || Err(SinkError::Failed(format!("no answer within {} s", LIMIT.as_secs())));
    timeout(LIMIT, write).await.unwrap_or_else(|_| unanswered())
}

// === impl NodeEvent ===

impl NodeEvent {
    fn new(node: &str, now: Timestamp, Notice { reason, message, .. }: Notice) -> Self {
        let name = name(node, reason, now);
        Self { name, reason, message, count: 1, first: now, last: now, is_written: false }
    }

    fn again(self, now: Timestamp, message: String) -> Self {
        Self { message, count: self.count.saturating_add(1), last: now, ..self }
    }

    fn restart(&mut self, node: &str) {
        (self.name, self.count) = (name(node, self.reason, self.last), 1);
        (self.first, self.is_written) = (self.last, false);
    }
}

/// Returns the event's name as client-go builds it: the object and the time. All events of a pass have the same time.
fn name(node: &str, reason: Reason, now: Timestamp) -> String {
    format!("{node}.{:x}", now.as_nanosecond() + reason as i128)
}
