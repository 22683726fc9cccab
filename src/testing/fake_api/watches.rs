//! The watches of the fake API server: the test writes them, or they show what changes.

use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body_util::channel::{Channel, Sender};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout, timeout_at};
use tower::BoxError;

use super::answer::failure;
use super::{FakeApi, Made};

/// One watch that the test controls. Dropping it ends the watch in an orderly way.
pub struct WatchRequest {
    pub query: String,
    body: Sender<Bytes, BoxError>,
}

// === impl FakeApi ===

impl FakeApi {
    /// Returns the next watch that a client opens.
    pub async fn watched(&self) -> WatchRequest {
        let mut opened = self.opened.lock().await;
        let watched = timeout(Duration::from_hours(1), opened.recv()).await;
        watched.expect("no watch within an hour of the test's clock").unwrap()
    }

    pub(super) fn watch(&self, made: &Made) -> Response<Channel<Bytes, BoxError>> {
        let (body, channel) = Channel::new(64);
        let (inner, query) = (self.lock(), made.query().to_owned());
        if let Some(opened) = &inner.opened {
            opened.send(WatchRequest { query, body }).unwrap();
        } else {
            let version = made.query().split('&').find_map(|pair| pair.strip_prefix("resourceVersion=")?.parse().ok());
            let from = inner.state.events_after(version);
            drop(tokio::spawn(self.clone().follow(made.path().to_owned(), from, body)));
        }
        Response::new(channel)
    }

    /// Writes the events of a watch, for four minutes or until it is cut.
    async fn follow(self, path: String, mut at: usize, mut body: Sender<Bytes, BoxError>) -> Result<(), BoxError> {
        let end = Instant::now() + Duration::from_mins(4);
        let cuts = self.lock().state.cuts.get(&path).copied();
        while self.lock().state.cuts.get(&path).copied() == cuts {
            let changed = self.changed.notified();
            let next = self.lock().state.next_event(&path, &mut at);
            let wake = next.as_ref().map_or(end, |(due, _)| end.min(*due));
            match next {
                Some((due, line)) if due <= Instant::now() => {
                    at += 1;
                    self.observer.iter().for_each(|observer| observer.shown(&line["object"], false));
                    body.send_data(format!("{line}\n").into()).await?;
                    if line["type"] == "ERROR" {
                        return Ok(());
                    }
                }
                _ if timeout_at(wake, changed).await.is_err() && wake == end => return Ok(()),
                _ => {}
            }
        }
        body.abort("connection reset".into());
        Ok(())
    }
}

// === impl WatchRequest ===

impl WatchRequest {
    /// Sends an event.
    pub async fn event(&mut self, kind: &str, object: &Value) {
        self.raw(&format!("{}\n", json!({"type": kind, "object": object}))).await;
    }

    /// Sends a bookmark with this version.
    pub async fn bookmark(&mut self, version: u64) {
        let object = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": version.to_string()}});
        self.event("BOOKMARK", &object).await;
    }

    /// Ends the watch with an error of the server.
    pub async fn error(mut self, code: u16, reason: &str) {
        self.event("ERROR", &failure(code, reason, &json!({}))).await;
    }

    /// Sends any text.
    pub async fn raw(&mut self, text: &str) {
        self.body.send_data(text.to_owned().into()).await.expect("somebody listens");
    }

    /// Breaks the connection.
    pub fn breaks(self) {
        self.body.abort("connection reset".into());
    }

    /// Returns whether the client has dropped the watch.
    pub async fn is_left(&mut self) -> bool {
        self.body.send_data("".into()).await.is_err()
    }
}
