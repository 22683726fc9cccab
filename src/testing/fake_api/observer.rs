//! What sees each request of a client at its moment, with the objects that the server has then.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::state::{Objects, list_path, path};
use super::{Answer, FakeApi, Made, failure};

/// Decides about the answers to one client, and sees what it changes and what it is shown.
pub trait Observer: Send + Sync {
    /// Returns how a request is answered.
    fn answer(&self, made: &Made) -> Answer;
    /// Sees a change that was accepted, and the objects before it.
    fn changed(&self, made: &Made, before: &Objects);
    /// Sees an object that the client is shown, by a read of it or by a list or a watch.
    fn shown(&self, object: &Value, is_read: bool);
}

// === impl FakeApi ===

impl FakeApi {
    /// Returns the same server for a client with this observer.
    pub fn observed_by(&self, observer: Arc<dyn Observer>) -> Self {
        Self { observer: Some(observer), ..self.clone() }
    }

    /// Makes a request of another client about an object, which nothing observes.
    pub fn acts(&self, method: Method, object: &Value, body: Value) {
        let (path, accept) = (path(object), String::new());
        let uri = if method == Method::POST { path.rsplit_once('/').unwrap().0.to_owned() } else { path };
        self.lock().state.answer(&Made { at: Instant::now(), method, uri, accept, body });
        self.changed.notify_waiters();
    }

    /// Returns all objects, by path.
    pub fn objects(&self) -> Objects {
        self.lock().state.objects.clone()
    }

    /// Watches of the resource of `of` show each event so long after it.
    pub fn lags(&self, of: &Value, lag: Duration) {
        self.lock().state.lags.insert(list_path(of), lag);
        self.changed.notify_waiters();
    }

    /// Breaks the connections of all watches of the resource of `of`.
    pub fn cuts(&self, of: &Value) {
        *self.lock().state.cuts.entry(list_path(of)).or_default() += 1;
        self.changed.notify_waiters();
    }

    /// The versions of the watches of the resource of `of` expire, and the events that they have not shown are lost.
    pub fn forgets(&self, of: &Value) {
        let state = &mut self.lock().state;
        let list = list_path(of);
        state.events.iter_mut().filter(|event| event.of == list).for_each(|event| event.of.clear());
        state.show(list, "ERROR", &failure(410, "Expired", &json!({})));
        self.changed.notify_waiters();
    }

    /// Returns the answer of a real API server, which the observer sees: of a read, if the client receives it.
    pub(super) fn observed(&self, made: &Made, is_received: bool) -> (u16, Value) {
        let mut inner = self.lock();
        let observer = self.observer.as_ref();
        let before = observer.filter(|_| made.method != Method::GET).map(|_| inner.state.objects.clone());
        let (code, answer) = inner.state.answer(made);
        drop(inner);
        match (observer, before) {
            (Some(observer), Some(before)) if code < 300 => observer.changed(made, &before),
            (Some(observer), None) if is_received => {
                answer["items"].as_array().into_iter().flatten().for_each(|object| observer.shown(object, false));
                observer.shown(&answer, true);
            }
            _ => {}
        }
        (code, answer)
    }
}
