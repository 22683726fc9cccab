//! Writes events to the API server: core/v1 Events about the Node. They are in the namespace `default`, as the
//! kubelet's, because a Node has no namespace.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::core::Request;
use kube::core::params::{Patch, PatchParams, PostParams};
use serde::de::IgnoredAny;
use serde_json::json;

use super::{EventSink, NodeEvent, SinkError};
use crate::kubernetes::{Cause, Connection, KubernetesError};

/// The component that reports the events.
const COMPONENT: &str = "kubegc";
const NAMESPACE: &str = "default";
const PATH: &str = "/api/v1/namespaces/default/events";
/// The timeout of one request.
const LIMIT: Duration = Duration::from_secs(10);

/// Writes events of a node to the API server.
pub struct ApiSink {
    connection: Arc<Connection>,
    node: String,
}

// === impl ApiSink ===

impl ApiSink {
    /// Writes events of the node with this name, with the permissions of the connection.
    pub fn new(connection: Arc<Connection>, node: &str) -> Self {
        Self { connection, node: node.to_owned() }
    }

    async fn send(
        &self,
        what: &str,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<(), SinkError> {
        let request = request.map_err(|error| SinkError::Failed(error.to_string()))?;
        let sent = self.connection.request::<IgnoredAny>(request, LIMIT).await;
        sent.map(drop).map_err(|cause| cause.of(what).into())
    }

    /// Returns the event for creation. The Node's uid is its name, as in the kubelet's events; `kubectl describe`
    /// searches for that.
    fn event(&self, event: &NodeEvent) -> Event {
        let metadata = ObjectMeta {
            name: Some(event.name.clone()),
            namespace: Some(NAMESPACE.to_owned()),
            ..ObjectMeta::default()
        };
        let node = ObjectReference {
            kind: Some("Node".to_owned()),
            name: Some(self.node.clone()),
            uid: Some(self.node.clone()),
            ..ObjectReference::default()
        };
        Event {
            metadata,
            involved_object: node,
            type_: Some(if event.reason.is_warning() { "Warning" } else { "Normal" }.to_owned()),
            reason: Some(event.reason.as_str().to_owned()),
            message: Some(event.message.clone()),
            count: i32::try_from(event.count).ok(),
            first_timestamp: Some(Time(event.first)),
            last_timestamp: Some(Time(event.last)),
            source: Some(EventSource { component: Some(COMPONENT.to_owned()), host: Some(self.node.clone()) }),
            ..Event::default()
        }
    }
}

impl EventSink for ApiSink {
    async fn create(&self, event: &NodeEvent) -> Result<(), SinkError> {
        let body = serde_json::to_vec(&self.event(event)).map_err(|error| SinkError::Failed(error.to_string()))?;
        let by_us = PostParams { field_manager: Some(COMPONENT.to_owned()), ..PostParams::default() };
        self.send("write an event", Request::new(PATH).create(&by_us, body)).await
    }

    async fn update(&self, event: &NodeEvent) -> Result<(), SinkError> {
        let change = json!({ "count": event.count, "message": event.message, "lastTimestamp": Time(event.last) });
        let by_us = PatchParams { field_manager: Some(COMPONENT.to_owned()), ..PatchParams::default() };
        let request = Request::new(PATH).patch(&event.name, &by_us, &Patch::Merge(change));
        self.send("write an event again", request).await
    }
}

impl From<KubernetesError> for SinkError {
    fn from(error: KubernetesError) -> Self {
        match error.cause {
            Cause::Forbidden(_) => Self::Forbidden(error.to_string()),
            _ if error.cause.code() == Some(404) => Self::Missing,
            Cause::NoAccess { .. } => Self::NoServer(error.to_string()),
            _ => Self::Failed(error.to_string()),
        }
    }
}
