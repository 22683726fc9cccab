//! A client of the API server that injects failures into a tenth of all calls.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use serde_json::json;
use tonic::codegen::http::{Request, Response};
use tower::BoxError;

use crate::on_node::random::Random;

/// Decides which call fails, and how.
#[derive(Clone)]
pub struct Faults {
    random: Arc<Random>,
    calls: Arc<AtomicU64>,
    failed: Arc<AtomicU64>,
}

/// How a call fails.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// The API server answers with this code and has not done the call.
    Answer(u16, &'static str),
    /// The call is done, and its answer is cut.
    Cut,
    /// The call is done, and its answer never comes.
    Lost,
    /// The connection breaks before the call.
    Broken,
}

const FAULTS: [Fault; 7] = [
    Fault::Answer(409, "Conflict"),
    Fault::Answer(429, "TooManyRequests"),
    Fault::Answer(500, "InternalError"),
    Fault::Answer(503, "ServiceUnavailable"),
    Fault::Cut,
    Fault::Lost,
    Fault::Broken,
];

// === impl Faults ===

impl Faults {
    pub fn new(seed: u64) -> Self {
        Self { random: Arc::new(Random::new(seed)), calls: Arc::default(), failed: Arc::default() }
    }

    /// Returns the number of calls, and of those that failed.
    pub fn counts(&self) -> (u64, u64) {
        (self.calls.load(Ordering::Relaxed), self.failed.load(Ordering::Relaxed))
    }

    /// Returns a client with these failures.
    pub async fn client(&self, kubeconfig: &Path) -> Client {
        let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        config.default_retry = false;
        let (inner, faults) = (Client::try_from(config).unwrap(), self.clone());
        let call = move |request| faulty(inner.clone(), request, faults.next());
        Client::new(tower::service_fn(call), "default")
    }

    fn next(&self) -> Option<Fault> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        if self.random.below(10) != 0 {
            return None;
        }
        self.failed.fetch_add(1, Ordering::Relaxed);
        Some(FAULTS[usize::try_from(self.random.below(FAULTS.len() as u64)).unwrap()])
    }
}

async fn faulty(inner: Client, request: Request<Body>, fault: Option<Fault>) -> Result<Response<Body>, BoxError> {
    let is_watch = request.uri().query().is_some_and(|query| query.contains("watch="));
    match fault {
        None => Ok(inner.send(request).await?),
        Some(Fault::Answer(code, reason)) => Ok(status(code, reason)),
        Some(Fault::Broken) => Err("the connection broke".into()),
        Some(Fault::Lost) => {
            let _ = inner.send(request).await;
            tokio::time::sleep(Duration::from_mins(5)).await;
            Err("no answer".into())
        }
        Some(Fault::Cut) if is_watch => Err("the connection broke".into()),
        Some(Fault::Cut) => cut(inner.send(request).await?).await,
    }
}

async fn cut(answer: Response<Body>) -> Result<Response<Body>, BoxError> {
    let (head, body) = answer.into_parts();
    let body = body.collect().await?.to_bytes();
    Ok(Response::from_parts(head, Body::from(body[..body.len() / 2].to_vec())))
}

fn status(code: u16, reason: &str) -> Response<Body> {
    let details = json!({ "retryAfterSeconds": u8::from(code == 429) });
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "injected",
        "reason": reason, "code": code, "details": details,
    });
    Response::builder().status(code).body(Body::from(body.to_string().into_bytes())).unwrap()
}
