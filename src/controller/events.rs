//! Kubernetes events about owner references that are wrong, and about the brake. An event is not repeated while it is
//! remembered.

use std::fmt::Display;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::{EventSource, ObjectReference};
use tokio::sync::mpsc;

use super::work::engine::Notice;
use crate::kubernetes::{Bucket, Clock, Connection, EventWriter, KubernetesError, NewEvent};
use crate::model::{Identity, Outage, OwnerReference, Uid, cut_text};
use crate::owners::Recent;

/// As kube-controller-manager writes them, so that alerts keep working.
const COMPONENT: &str = "garbage-collector-controller";
/// Objects and references that had an event.
const REMEMBERED: usize = 4096;
/// The longest part of a message that a tenant wrote, in characters. The names of nearly all objects are shorter. A reference
/// may have a name of some 700 KB, and each event is in the store of the API server for an hour (G5).
const LONGEST: usize = 256;
const INTERVAL: Duration = Duration::from_millis(100);

/// Takes notices and makes events of them.
pub(super) struct EventQueue {
    clock: Clock,
    events: mpsc::Sender<NewEvent>,
    known: Mutex<Recent<(Uid, String), REMEMBERED>>,
}

// === impl EventQueue ===

impl EventQueue {
    pub(super) fn new(connection: Arc<Connection>, clock: Clock) -> (Self, EventWriter) {
        let source = EventSource { component: Some(COMPONENT.to_owned()), host: None };
        let mut outage = Outage::default();
        // The namespace of an event may be in deletion, so a success says little about the next one.
        let log = move |fault: Option<KubernetesError>| {
            if let Some(error) = fault.and_then(|fault| outage.begins(Some(fault))) {
                tracing::warn!(cause = %error, "some events are not written");
            }
        };
        let (events, writer) = EventWriter::new(connection, source, Bucket::full(INTERVAL, 1), log);
        (Self { clock, events, known: Mutex::default() }, writer)
    }

    /// Adds the event of a notice, if it has one and it is new.
    pub(super) fn send(&self, notice: &Notice) {
        let Some((about, reason, message)) = text(notice) else { return };
        let key = (about.uid.clone(), message.clone());
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.touch(&key) && self.events.try_send(self.event(about, reason, message)).is_ok() {
            known.insert(key);
        }
    }

    fn event(&self, about: &Identity, reason: &'static str, message: String) -> NewEvent {
        let Identity { kind, namespace, name, uid } = about;
        let in_namespace = if about.is_cluster_scoped() { "default" } else { namespace };
        let about = ObjectReference {
            api_version: Some(kind.api_version.to_string()),
            kind: Some(kind.kind.to_string()),
            namespace: Some(namespace.to_string()),
            name: Some(name.to_string()),
            uid: Some(uid.to_string()),
            ..ObjectReference::default()
        };
        let (namespace, at) = (in_namespace.to_owned(), (self.clock)());
        NewEvent { namespace, about, reason, is_warning: true, message, at, class: None }
    }
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

/// The message of kube-controller-manager.
fn wrong_namespace(object: &Identity, owner: &OwnerReference) -> String {
    let OwnerReference { kind, name, uid, .. } = owner;
    let (api_version, kind, namespace) = (shown(&kind.api_version), shown(&kind.kind), &object.namespace);
    let (name, uid) = (shown(name), shown(uid));
    if object.is_cluster_scoped() {
        return format!(
            "ownerRef [{api_version}/{kind}, name: {name}, uid: {uid}] is namespaced, and the object is not"
        );
    }
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
        let (sender, mut events) = mpsc::channel(3);
        let queue = EventQueue { clock: || jiff::Timestamp::UNIX_EPOCH, events: sender, known: Mutex::default() };
        queue.send(&Notice::WrongNamespace(identity("a"), owner.clone()));
        queue.send(&Notice::NotServed(identity("a"), owner));
        queue.send(&Notice::Stuck(identity(&"a".repeat(250)), identity(&long)));
        for reason in ["OwnerRefInvalidNamespace", "OwnerRefUnresolvable", "DeletionStuck"] {
            let event = events.try_recv().unwrap();
            assert_eq!(event.reason, reason);
            assert!(event.message.len() < 2000 && event.message.contains("xxx…"), "{}", event.message);
        }
    }
}
