//! The requests that the fake API server received.

use http::{Method, Request, header};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::Value;
use tokio::time::Instant;
use tower::BoxError;

/// A request that was made.
#[derive(Clone)]
pub struct Made {
    pub(super) at: Instant,
    pub method: Method,
    /// Path and query.
    pub uri: String,
    pub accept: String,
    pub body: Value,
}

/// The kinds of requests. A list is one of pods.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Call {
    Node,
    List,
    Watch,
    Get,
}

// === impl Made ===

impl Made {
    pub(super) async fn of(request: Request<Body>) -> Result<Self, BoxError> {
        let (head, body) = request.into_parts();
        let accept = head.headers.get(header::ACCEPT).map_or("", |accept| accept.to_str().unwrap()).to_owned();
        let uri = head.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
        let body = serde_json::from_slice(&body.collect().await?.to_bytes()).unwrap_or_default();
        Ok(Self { at: Instant::now(), method: head.method, uri, accept, body })
    }

    pub fn path(&self) -> &str {
        self.uri.split_once('?').map_or(&self.uri, |(path, _)| path)
    }

    pub(super) fn query(&self) -> &str {
        self.uri.split_once('?').map_or("", |(_, query)| query)
    }

    pub(super) fn key(&self) -> String {
        format!("{} {}", self.method, self.path())
    }

    pub(super) fn call(&self) -> Call {
        match self.path() {
            path if path.starts_with("/api/v1/nodes/") => Call::Node,
            _ if self.query().split('&').any(|pair| pair == "watch=true") => Call::Watch,
            path if path.ends_with("/pods") => Call::List,
            _ => Call::Get,
        }
    }

    /// Each change of one object names the uid and the version. Those of a status need no version.
    pub(super) fn identifies(&self) {
        let Self { method, body, .. } = self;
        if self.path().ends_with("/status") || self.is_of_collection() {
            return;
        }
        let condition = match *method {
            Method::DELETE => &body["preconditions"],
            Method::PATCH | Method::PUT => &body["metadata"],
            _ => return,
        };
        for field in ["uid", "resourceVersion"] {
            let is_named = condition[field].as_str().is_some_and(|value| !value.is_empty());
            assert!(is_named, "{method} without {field}: {body}");
        }
    }

    /// Returns whether it is about all objects of a resource in a namespace.
    fn is_of_collection(&self) -> bool {
        self.path().split_once("/namespaces/").is_some_and(|(_, rest)| rest.split('/').count() == 2)
    }

    /// Returns the resource and the name, and the namespace if it is not ns1.
    pub(super) fn short(&self) -> String {
        let path = self.path().replace("/namespaces/ns1/", "/").replace("/namespaces/", "/");
        let rest = path.trim_start_matches("/apis/").trim_start_matches("/api/");
        rest.trim_start_matches("v1/").to_owned()
    }
}
