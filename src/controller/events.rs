//! Kubernetes events about owner references that are wrong, and about the brake. They never delay the collection: a full
//! queue drops them, and an event is not repeated while it is remembered.

use std::fmt::Display;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::work::engine::Notice;
use crate::kubernetes::{Bucket, Clock, Connection, create_event};
use crate::model::{Identity, OwnerReference, Uid, cut_text};
use crate::owners::Recent;

/// As kube-controller-manager writes them, so that alerts keep working.
const COMPONENT: &str = "garbage-collector-controller";
/// Events that wait to be written.
const QUEUE: usize = 256;
/// Objects and references that had an event.
const REMEMBERED: usize = 4096;
/// The longest wait for one answer.
const ANSWER: Duration = Duration::from_secs(10);
/// The longest part of a message that a tenant wrote, in characters. The names of nearly all objects are shorter. A reference
/// may have a name of some 700 KB, and each event is in the store of the API server for an hour (G5).
const LONGEST: usize = 256;
/// The longest part of the name of an object in that of its event.
const LONGEST_NAME: usize = 200;
/// The least interval between two events.
const INTERVAL: Duration = Duration::from_millis(100);

/// Writes the events of a queue.
pub(super) struct ClusterEvents {
    connection: Arc<Connection>,
    events: mpsc::Receiver<ClusterEvent>,
}

/// Takes notices and makes events of them.
pub(super) struct EventQueue {
    clock: Clock,
    events: mpsc::Sender<ClusterEvent>,
    known: Mutex<Recent<(Uid, String), REMEMBERED>>,
}

/// One event.
#[derive(Debug)]
struct ClusterEvent {
    namespace: String,
    body: Value,
}

// === impl ClusterEvents ===

impl ClusterEvents {
    pub(super) fn new(connection: Arc<Connection>, clock: Clock) -> (Self, EventQueue) {
        let (sender, events) = mpsc::channel(QUEUE);
        (Self { connection, events }, EventQueue { clock, events: sender, known: Mutex::default() })
    }

    /// Writes events until `stop`.
    pub(super) async fn run(mut self, stop: CancellationToken) {
        // The namespace of an event may be in deletion, so a success says little about the next one.
        let (mut has_failed, mut bucket) = (false, Bucket::full(INTERVAL, 1));
        loop {
            let next = tokio::select! { next = self.events.recv() => next, () = stop.cancelled() => None };
            let Some(ClusterEvent { namespace, body }) = next else { return };
            sleep_until(bucket.take(Instant::now())).await;
            match create_event(&self.connection, &namespace, &body, ANSWER).await {
                Err(error) if !std::mem::replace(&mut has_failed, true) => {
                    tracing::warn!(cause = %error, "some events are not written");
                }
                _ => {}
            }
        }
    }
}

// === impl EventQueue ===

impl EventQueue {
    /// Adds the event of a notice, if it has one and it is new.
    pub(super) fn send(&self, notice: &Notice) {
        let Some((about, reason, message)) = text(notice) else { return };
        let key = (about.uid.clone(), message.clone());
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.touch(&key) && self.events.try_send(self.event(about, reason, &message)).is_ok() {
            known.insert(key);
        }
    }

    fn event(&self, about: &Identity, reason: &str, message: &str) -> ClusterEvent {
        let namespace = if about.is_cluster_scoped() { "default" } else { &*about.namespace }.to_owned();
        let now = (self.clock)();
        let name = format!("{}.{:x}", event_name(&about.name), now.as_nanosecond());
        let body = json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": {
                "apiVersion": about.kind.api_version, "kind": about.kind.kind, "namespace": about.namespace,
                "name": about.name, "uid": about.uid,
            },
            "type": "Warning", "reason": reason, "message": message, "count": 1,
            "source": {"component": COMPONENT},
            // Events have no fractions of seconds.
            "firstTimestamp": seconds(now), "lastTimestamp": seconds(now),
        });
        ClusterEvent { namespace, body }
    }
}

fn seconds(at: jiff::Timestamp) -> String {
    jiff::Timestamp::from_second(at.as_second()).unwrap_or(at).to_string()
}

/// Returns what an event is about, its reason and its message.
fn text(notice: &Notice) -> Option<(&Identity, &'static str, String)> {
    match notice {
        Notice::WrongNamespace(object, owner) => {
            Some((object, "OwnerRefInvalidNamespace", wrong_namespace(object, owner)))
        }
        Notice::NotServed(object, owner) => {
            let OwnerReference { kind, name, uid, .. } = owner;
            let (kind, name, uid) = (shown(kind), shown(name), shown(uid));
            let message =
                format!("the API server does not serve the kind of ownerRef [{kind}, name: {name}, uid: {uid}]");
            Some((object, "OwnerRefUnresolvable", message))
        }
        Notice::Paused(resource, object) => {
            let message = format!(
                "deletions of {resource} are paused: the owners of many were never seen alive; `kubegc controller plan` shows them"
            );
            Some((object, "CollectionPaused", message))
        }
        Notice::Stuck(owner, dependent) => {
            let Identity { kind, name, .. } = dependent;
            let (kind, name) = (shown(&kind.kind), shown(name));
            let message = format!("the foreground deletion waits for its dependents, as {kind} {name}");
            Some((owner, "DeletionStuck", message))
        }
        Notice::Done(_) | Notice::Failed(_) => None,
    }
}

fn shown(text: impl Display) -> String {
    cut_text(&text.to_string(), LONGEST).into_owned()
}

/// Returns the beginning of the name of an event about an object: with the rest it must have at most 253 characters.
fn event_name(object: &str) -> &str {
    object.get(..object.floor_char_boundary(LONGEST_NAME)).unwrap_or_default()
}

/// The message of kube-controller-manager.
fn wrong_namespace(object: &Identity, owner: &OwnerReference) -> String {
    let OwnerReference { kind, name, uid, .. } = owner;
    let (api_version, kind, namespace) = (shown(&kind.api_version), shown(&kind.kind), &object.namespace);
    let (name, uid) = (shown(name), shown(uid));
    format!(
        "ownerRef [{api_version}/{kind}, namespace: {namespace}, name: {name}, uid: {uid}] does not exist in namespace \
         \"{namespace}\""
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ApiKind;

    fn identity(name: &str) -> Identity {
        Identity {
            kind: ApiKind::new("v1", "ConfigMap"),
            namespace: "ns1".into(),
            name: name.into(),
            uid: Uid::new("u"),
        }
    }

    /// An owner reference may have a name, a kind and a uid of some 700 KB.
    #[test]
    fn an_event_does_not_repeat_the_long_text_of_a_tenant() {
        let long = "x".repeat(700_000);
        let owner = OwnerReference {
            kind: ApiKind::new(&long, &long),
            name: long.as_str().into(),
            uid: Uid::new(&long),
            controller: None,
            blocking: None,
        };
        let connection = Arc::new(Connection::by(|| unreachable!("no call is made")));
        let (mut events, queue) = ClusterEvents::new(connection, || jiff::Timestamp::UNIX_EPOCH);
        queue.send(&Notice::WrongNamespace(identity("a"), owner.clone()));
        queue.send(&Notice::NotServed(identity("a"), owner));
        queue.send(&Notice::Stuck(identity(&"a".repeat(250)), identity(&long)));
        for reason in ["OwnerRefInvalidNamespace", "OwnerRefUnresolvable", "DeletionStuck"] {
            let body = events.events.try_recv().unwrap().body;
            assert_eq!(body["reason"], reason);
            assert!(body.to_string().len() < 3000, "{}", body.to_string().len());
            assert!(body["metadata"]["name"].as_str().unwrap().len() <= 253);
            assert!(body["message"].as_str().unwrap().contains("xxx…"), "{body}");
        }
    }
}
