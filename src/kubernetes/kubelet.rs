//! The kubelet's HTTPS endpoint: its pods, its health and its metrics.
//!
//! Credentials are read for each request, because certificates and tokens are renewed. The kubelet's certificate is
//! always verified: a trusted authority signed it, or it equals an expected certificate. Only the read-only port is not
//! verified. It uses plain HTTP and gets no credentials.
//!
//! The kubelet is always authenticated, by its exact certificate or by an authority. An expected certificate needs no
//! matching name and no valid date, because only the kubelet has its key.

mod access;
mod response;

#[cfg(test)]
mod tests;

pub use access::KubeletAccess;
pub use response::{KubeletPod, KubeletPods, KubeletProcess};

use std::path::Path;
use std::time::Duration;

use http::header::DATE;
use http::{Request, Response};
use http_body_util::{BodyExt, Limited};
use hyper::body::Bytes;
use jiff::Timestamp;
use kube::client::Body;
use tokio::time::timeout;

use super::kubernetes_error::{cause_of, with_causes};
use super::requests::client::{ClientFactory, Sharing};
use crate::model::cut_text;

/// The longest wait for a complete answer. The kubelet runs on this host.
const ANSWER: Duration = Duration::from_secs(10);
/// Far larger than the pods of any node, and than the metrics of any kubelet.
const LARGEST_ANSWER_BYTES: usize = 64 << 20;

/// The kubelet of this node.
pub struct Kubelet {
    access: KubeletAccess,
    answer: Duration,
}

/// A failure to reach the kubelet or to read its answer, as text for users.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct KubeletError(String);

/// What is requested.
#[derive(Clone, Copy)]
struct Page {
    path: &'static str,
    /// The permission that the kubelet requires: a resource beneath the Node, and the newer, finer resource too.
    permission: &'static str,
}

const PODS: Page = Page { path: "/pods", permission: "nodes/proxy (from Kubernetes 1.33 nodes/pods is enough)" };
const HEALTH: Page =
    Page { path: "/healthz", permission: "nodes/proxy (from Kubernetes 1.33 nodes/healthz is enough)" };
const METRICS: Page = Page { path: "/metrics", permission: "nodes/metrics" };

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
        let Answer { at, text } = self.get(PODS).await?;
        response::pods(at, &text).map_err(|cause| PODS.invalid(&cause))
    }

    /// Checks the kubelet's health.
    ///
    /// # Errors
    ///
    /// The kubelet cannot be reached, or it does not report that it is healthy.
    pub async fn check_health(&self) -> Result<(), KubeletError> {
        self.get(HEALTH).await.map(drop)
    }

    /// Returns when the kubelet's process started, and whether it has cleaned up after pods.
    pub async fn process(&self) -> Result<KubeletProcess, KubeletError> {
        let Answer { text, .. } = self.get(METRICS).await?;
        response::process(&text).map_err(|cause| METRICS.invalid(&cause))
    }

    async fn get(&self, page: Page) -> Result<Answer, KubeletError> {
        let answer = timeout(self.answer, self.try_get(page)).await;
        answer.map_err(|_| page.unread(&format!("no answer within {} s", self.answer.as_secs())))?
    }

    async fn try_get(&self, page: Page) -> Result<Answer, KubeletError> {
        let access = self.access.clone();
        // This reads files of the host. The limit for the answer ends the wait.
        let target = self.access.host.run(Path::new("the credentials"), move |_| access.target()).await;
        let target = target.map_err(|error| page.unread(&with_causes(&error)))??;
        let failed = |error: kube::Error| page.unread(&cause_of(&error));
        // One for each request: certificates and tokens are renewed.
        let client =
            ClientFactory::new(&target).and_then(|factory| factory.client(Sharing::Separate)).map_err(failed)?;
        let request = Request::get(page.path).body(Body::empty()).map_err(|error| page.unread(&error.to_string()))?;
        let answer = client.send(request).await.map_err(failed)?;
        let (status, at) = (answer.status(), answered_at(&answer));
        let body = Limited::new(answer.into_body(), LARGEST_ANSWER_BYTES).collect().await;
        let text = body.map_err(|error| page.unread(&with_causes(&*error)))?.to_bytes();
        if !status.is_success() {
            return Err(page.refused(status.as_u16(), &text));
        }
        Ok(Answer { at: at.ok_or_else(|| page.invalid("it has no date"))?, text })
    }
}

// === impl Page ===

impl Page {
    fn unread(self, cause: &str) -> KubeletError {
        KubeletError(format!("cannot read {} from the kubelet: {cause}", self.path))
    }

    fn invalid(self, cause: &str) -> KubeletError {
        KubeletError(format!("the kubelet's answer for {} is not understood: {cause}", self.path))
    }

    /// Returns the error for an answer that is not a success.
    fn refused(self, code: u16, text: &[u8]) -> KubeletError {
        let Self { path, permission } = self;
        KubeletError(match code {
            401 => format!(
                "the kubelet refused {path}: not authenticated; set pods.kubelet_token_file or \
                 pods.kubelet_client_certificate"
            ),
            403 => format!("may not read {path} from the kubelet: grant `get` on {permission}"),
            _ => {
                let text = cut_text(String::from_utf8_lossy(text).trim(), 200).into_owned();
                format!("the kubelet answers {code} for {path}: {text:?}")
            }
        })
    }
}

/// Returns the time of an answer. HTTP and mail use the same date format.
fn answered_at<T>(answer: &Response<T>) -> Option<Timestamp> {
    let date = answer.headers().get(DATE)?.to_str().ok()?;
    jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(date).ok()
}
