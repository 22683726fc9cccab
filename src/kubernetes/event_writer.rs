//! Writes core v1 Events in a task, so that they never delay what they report.
//!
//! A full queue drops events, a token bucket limits the writes, and each write has a timeout. An event that is repeated raises
//! the count of the existing one, which also counts events that were not written.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::core::Request as Path;
use kube::core::params::{Patch, PatchParams, PostParams};
use serde::de::IgnoredAny;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::kubernetes_error::attempt;
use super::requests::bucket::Bucket;
use super::requests::connection::built;
use super::requests::path::segment;
use super::{Cause, Connection, KubernetesError};

/// The program that writes the events, whatever component reports them.
const FIELD_MANAGER: &str = "kubegc";
/// Events that wait to be written.
const QUEUE: usize = 256;
/// The timeout of one write.
const ANSWER: Duration = Duration::from_secs(10);
/// The back-off of events that may repeat, if there is no permission or no API server.
const PAUSE: Duration = Duration::from_mins(30);
/// The longest part of the name of an object in that of its event. With the rest it must have at most 253 characters.
const LONGEST_NAME: usize = 200;

/// An event to write.
#[derive(Debug)]
pub struct NewEvent {
    pub namespace: String,
    pub about: ObjectReference,
    pub reason: &'static str,
    /// Whether it is a Warning rather than Normal.
    pub is_warning: bool,
    pub message: String,
    pub at: Timestamp,
    /// Events with the same reason and class are one with a count. They do not wait for the limit, because the next write
    /// includes them. `None` = an event of its own, which waits.
    pub class: Option<String>,
}

/// Writes the events that come from a queue.
pub struct EventWriter {
    connection: Arc<Connection>,
    source: EventSource,
    queue: mpsc::Receiver<NewEvent>,
    /// The last event of each reason and class.
    known: HashMap<(&'static str, String), Known>,
    bucket: Bucket,
    paused_until: Instant,
    log: Box<LogWrite>,
    /// The number of names that were made.
    names: i128,
}

/// Receives why an event was not written; `None` = it was written.
type LogWrite = dyn FnMut(Option<KubernetesError>) + Send + Sync;

/// An event in its current state.
struct Known {
    event: Event,
    is_written: bool,
}

// === impl EventWriter ===

impl EventWriter {
    /// Creates a writer of the events that this source reports, and the queue to it. `bucket` limits the writes.
    pub fn new(
        connection: Arc<Connection>,
        source: EventSource,
        bucket: Bucket,
        log: impl FnMut(Option<KubernetesError>) + Send + Sync + 'static,
    ) -> (mpsc::Sender<NewEvent>, Self) {
        let (sender, queue) = mpsc::channel(QUEUE);
        let (known, paused_until, log) = (HashMap::new(), Instant::now(), Box::new(log));
        (sender, Self { connection, source, queue, known, bucket, paused_until, log, names: 0 })
    }

    /// Writes events until `stop`, or until the senders are dropped.
    pub async fn run(mut self, stop: CancellationToken) {
        while let Some(Some(new)) = stop.run_until_cancelled(self.queue.recv()).await {
            if let Some(class) = new.class.clone() {
                self.repeat((new.reason, class), new).await;
            } else {
                sleep_until(self.bucket.take(Instant::now())).await;
                let mut known = self.first(new);
                self.write(&mut known).await;
            }
        }
    }

    /// Counts an event, and writes it if the limit allows. Otherwise the next write includes it in its count.
    async fn repeat(&mut self, key: (&'static str, String), new: NewEvent) {
        let mut known = match self.known.remove(&key) {
            Some(known) => known.again(new),
            None => self.first(new),
        };
        let now = Instant::now();
        if now >= self.paused_until && self.bucket.try_take(now) {
            self.write(&mut known).await;
        }
        self.known.insert(key, known);
    }

    /// Creates the event again if it expired on the server.
    async fn write(&mut self, known: &mut Known) {
        let mut written = self.send(known).await;
        if known.is_written && written.as_ref().is_err_and(|error| error.cause.code() == Some(404)) {
            self.restart(known);
            written = self.send(known).await;
        }
        known.is_written |= written.is_ok();
        if let Err(KubernetesError { cause: Cause::Forbidden(_) | Cause::NoAccess { .. }, .. }) = &written {
            self.paused_until = Instant::now() + PAUSE;
        }
        (self.log)(written.err());
    }

    async fn send(&self, Known { event, is_written }: &Known) -> Result<(), KubernetesError> {
        let ObjectMeta { name, namespace, .. } = &event.metadata;
        let [name, namespace] = [name, namespace].map(|part| part.as_deref().unwrap_or_default());
        let send = async {
            let path = Path::new(format!("/api/v1/namespaces/{}/events", segment(namespace)?));
            let field_manager = Some(FIELD_MANAGER.to_owned());
            let request = if *is_written {
                let Event { count, message, last_timestamp, .. } = event;
                let change = json!({"count": count, "message": message, "lastTimestamp": last_timestamp});
                let params = PatchParams { field_manager, ..PatchParams::default() };
                path.patch(&segment(name)?, &params, &Patch::Merge(change))
            } else {
                let params = PostParams { field_manager, ..PostParams::default() };
                path.create(&params, built(serde_json::to_vec(event))?)
            };
            self.connection.request::<IgnoredAny>(built(request)?, ANSWER).await.map(drop)
        };
        attempt(format!("write an event in namespace {namespace}"), send).await
    }

    fn first(&mut self, new: NewEvent) -> Known {
        let name = Some(self.name(&new.about, new.at));
        let metadata = ObjectMeta { name, namespace: Some(new.namespace), ..ObjectMeta::default() };
        let event = Event {
            metadata,
            involved_object: new.about,
            type_: Some(if new.is_warning { "Warning" } else { "Normal" }.to_owned()),
            reason: Some(new.reason.to_owned()),
            message: Some(new.message),
            count: Some(1),
            first_timestamp: Some(Time(new.at)),
            last_timestamp: Some(Time(new.at)),
            source: Some(self.source.clone()),
            ..Event::default()
        };
        Known { event, is_written: false }
    }

    fn restart(&mut self, Known { event, is_written }: &mut Known) {
        let at = event.last_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |last| last.0);
        event.metadata.name = Some(self.name(&event.involved_object, at));
        (event.count, event.first_timestamp, *is_written) = (Some(1), event.last_timestamp.clone(), false);
    }

    /// Returns the name of an event as client-go builds it: the object and the time. Events of the same time have names of
    /// their own.
    fn name(&mut self, about: &ObjectReference, at: Timestamp) -> String {
        let object = about.name.as_deref().unwrap_or_default();
        let object = object.get(..object.floor_char_boundary(LONGEST_NAME)).unwrap_or_default();
        let number = at.as_nanosecond() + self.names;
        self.names += 1;
        format!("{object}.{number:x}")
    }
}

// === impl Known ===

impl Known {
    fn again(mut self, new: NewEvent) -> Self {
        let Event { count, message, last_timestamp, .. } = &mut self.event;
        (*message, *last_timestamp) = (Some(new.message), Some(Time(new.at)));
        *count = count.map(|count| count.saturating_add(1));
        self
    }
}
