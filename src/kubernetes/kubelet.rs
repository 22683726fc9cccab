//! The kubelet's HTTPS endpoint: its pods, its health and its metrics.
//!
//! Credentials are read for each request, because certificates and tokens are renewed. The kubelet's certificate is
//! always verified: a trusted authority signed it, or it equals an expected certificate. Only the read-only port is not
//! verified. It uses plain HTTP and gets no credentials.

mod error;
mod response;
mod transport;

#[cfg(test)]
mod tests;

pub use error::KubeletError;
pub use response::{KubeletPod, KubeletPods, KubeletProcess};
pub use transport::KubeletAccess;

use std::path::Path;
use std::time::Duration;

use http::header::{AUTHORIZATION, CONNECTION, DATE, HOST};
use http::{Request, Response};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use tokio::time::timeout;

use super::error::with_causes;
use error::Right;
use transport::{Stream, Transport};

/// The longest wait for a complete answer. The kubelet runs on this host.
const ANSWER: Duration = Duration::from_secs(10);
/// Far larger than the pods of any node, and than the metrics of any kubelet.
const LARGEST_ANSWER_BYTES: usize = 64 << 20;

/// The kubelet of this node.
pub struct Kubelet {
    access: KubeletAccess,
    answer: Duration,
}

/// One answer.
struct Answer {
    /// When the kubelet answered, by its own clock.
    at: Timestamp,
    text: Bytes,
}

// === impl Kubelet ===

impl Kubelet {
    /// Creates a client with this access. Opens nothing.
    pub fn new(access: KubeletAccess) -> Self {
        Self { access, answer: ANSWER }
    }

    /// Sets another limit for each answer.
    #[must_use]
    pub fn with_limit(self, answer: Duration) -> Self {
        Self { answer, ..self }
    }

    /// Returns the kubelet's current pods. While the kubelet starts the list may be incomplete, and nothing in the
    /// answer says so.
    pub async fn pods(&self) -> Result<KubeletPods, KubeletError> {
        let Answer { at, text } = self.get("/pods", Right::PODS).await?;
        response::pods(at, &text).map_err(|cause| KubeletError::InvalidAnswer { path: "/pods", cause })
    }

    /// Checks the kubelet's health.
    ///
    /// # Errors
    ///
    /// The kubelet cannot be reached, or it does not report that it is healthy.
    pub async fn check_health(&self) -> Result<(), KubeletError> {
        self.get("/healthz", Right::HEALTH).await.map(drop)
    }

    /// Returns when the kubelet's process started, and whether it has cleaned up after pods.
    pub async fn process(&self) -> Result<KubeletProcess, KubeletError> {
        let Answer { text, .. } = self.get("/metrics", Right::METRICS).await?;
        response::process(&text).map_err(|cause| KubeletError::InvalidAnswer { path: "/metrics", cause })
    }

    async fn get(&self, path: &'static str, right: Right) -> Result<Answer, KubeletError> {
        let answer = timeout(self.answer, self.try_get(path, right)).await;
        answer.map_err(|_| KubeletError::Wait { path, seconds: self.answer.as_secs() })?
    }

    async fn try_get(&self, path: &'static str, right: Right) -> Result<Answer, KubeletError> {
        let access = self.access.clone();
        // This reads files of the host. The limit for the answer ends the wait.
        let transport = self.access.host.run(Path::new("the credentials"), move |_| access.transport()).await;
        let transport = transport.map_err(|error| reach(path, &error))??;
        let stream = transport.open().await.map_err(|error| reach(path, &error))?;
        let answer = send(stream, path, &transport).await.map_err(|error| reach(path, &error))?;
        let (status, at) = (answer.status(), answered_at(&answer));
        let body = Limited::new(answer.into_body(), LARGEST_ANSWER_BYTES).collect().await;
        let text = body.map_err(|error| reach(path, &*error))?.to_bytes();
        if !status.is_success() {
            return Err(error::refusal(path, right, status.as_u16(), &text));
        }
        let undated = || KubeletError::InvalidAnswer { path, cause: "it has no date".to_owned() };
        Ok(Answer { at: at.ok_or_else(undated)?, text })
    }
}

fn reach(path: &'static str, error: &dyn std::error::Error) -> KubeletError {
    KubeletError::Reach { path, cause: with_causes(error) }
}

/// Sends a request over its own connection, which closes after the answer.
async fn send(stream: Stream, path: &str, transport: &Transport) -> Result<Response<Incoming>, hyper::Error> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let mut request = Request::get(path).header(HOST, transport.authority()).header(CONNECTION, "close");
    if let Some(token) = transport.token() {
        request = request.header(AUTHORIZATION, token);
    }
    let request = request.body(Empty::<Bytes>::new()).unwrap_or_default();
    sender.send_request(request).await
}

/// Returns the time of an answer. HTTP and mail use the same date format.
fn answered_at<T>(answer: &Response<T>) -> Option<Timestamp> {
    let date = answer.headers().get(DATE)?.to_str().ok()?;
    jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(date).ok()
}
