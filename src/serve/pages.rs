//! The pages for monitoring: metrics and health, which show no name of an image, pod or namespace, and the page for
//! people. They change nothing. The page for people names objects of the node, so it is served on the socket and on loopback addresses only.

use std::fmt;
use std::sync::Arc;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{
    ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Method, Request, Response, StatusCode};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use super::Health;
use crate::metrics::Exposition;

/// The pages of a process.
#[derive(Clone)]
pub struct Pages {
    /// Returns the metrics as text.
    pub metrics: Arc<dyn Fn(Exposition) -> String + Send + Sync>,
    pub health: Health,
    /// Returns facts for the page about readiness, a line each.
    pub notes: Arc<dyn Fn() -> Vec<String> + Send + Sync>,
    /// The page for people, if there is one.
    pub report: Option<ReportPage>,
}

/// The media type of text for people.
pub(super) const TEXT: &str = "text/plain; charset=utf-8";

// === impl Pages ===

impl Pages {
    /// Answers a request. `None` = there is no such page. `is_local` = only this machine can connect.
    pub(super) async fn page(&self, request: &Request<Incoming>, is_local: bool) -> Option<Response<Full<Bytes>>> {
        let report = self.report.as_ref().filter(|_| is_local);
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
        let page = match (request.uri().path(), report) {
            ("/metrics" | "/livez" | "/readyz", _) | ("/", Some(_)) if !is_read => not_allowed(),
            ("/", Some(report)) => report.answer().await,
            ("/metrics", _) => self.metrics(request),
            ("/livez", _) => health(&self.stalled(), &[], "stalled"),
            ("/readyz", _) => health(&self.health.missing(), &self.notes(), "not ready"),
            _ => return None,
        };
        Some(protected(page))
    }

    fn notes(&self) -> Vec<String> {
        [self.health.notes(), (self.notes)()].concat()
    }

    fn stalled(&self) -> Vec<String> {
        self.health.stalled().iter().map(ToString::to_string).collect()
    }

    fn metrics(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let accept = request.headers().get(ACCEPT).and_then(|accept| accept.to_str().ok());
        let format = Exposition::accepted(accept);
        response(StatusCode::OK, format.media_type(), (self.metrics)(format))
    }
}

impl fmt::Debug for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pages").field("health", &self.health).finish_non_exhaustive()
    }
}

/// Returns the answer to a request for another page.
pub(super) fn not_found() -> Response<Full<Bytes>> {
    let text = "no such page; there are /, /metrics, /livez and /readyz\n";
    protected(response(StatusCode::NOT_FOUND, TEXT, text.to_owned()))
}

fn health(faults: &[String], notes: &[String], fault: &str) -> Response<Full<Bytes>> {
    let (status, first) =
        if faults.is_empty() { (StatusCode::OK, "ok") } else { (StatusCode::SERVICE_UNAVAILABLE, fault) };
    let lines = std::iter::once(first).chain(faults.iter().chain(notes).map(String::as_str));
    response(status, TEXT, lines.flat_map(|line| [line, "\n"]).collect())
}

fn not_allowed() -> Response<Full<Bytes>> {
    let mut refused = response(StatusCode::METHOD_NOT_ALLOWED, TEXT, "only GET and HEAD\n".to_owned());
    refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    refused
}

pub(super) fn response(status: StatusCode, media_type: &'static str, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(text.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

/// Adds the headers that keep a browser from interpreting or storing a page.
fn protected(mut response: Response<Full<Bytes>>) -> Response<Full<Bytes>> {
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.entry(CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static("default-src 'none'"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Makes the page. Clones share their turn.
#[derive(Clone)]
pub struct ReportPage {
    make: Arc<dyn Fn() -> String + Send + Sync>,
    /// The value of `Content-Security-Policy`.
    policy: HeaderValue,
    /// One page at a time: a disk that hangs blocks one thread and not many.
    turn: Arc<Semaphore>,
}

// === impl ReportPage ===

impl ReportPage {
    /// Creates a page that `make` returns as HTML; it may read files. `style_hash` is the SHA-256 of its only style in
    /// base64. `None` = it is no hash.
    pub fn new(style_hash: &str, make: impl Fn() -> String + Send + Sync + 'static) -> Option<Self> {
        let policy = format!("default-src 'none'; style-src 'sha256-{style_hash}'").parse().ok()?;
        Some(Self { make: Arc::new(make), policy, turn: Arc::new(Semaphore::new(1)) })
    }

    pub(super) async fn answer(&self) -> Response<Full<Bytes>> {
        let Ok(turn) = Arc::clone(&self.turn).try_acquire_owned() else {
            return response(StatusCode::SERVICE_UNAVAILABLE, TEXT, "another request reads the store\n".to_owned());
        };
        let make = Arc::clone(&self.make);
        let made = spawn_blocking(move || {
            let _turn = turn;
            make()
        });
        let Ok(html) = made.await else {
            return response(StatusCode::INTERNAL_SERVER_ERROR, TEXT, "the page could not be made\n".to_owned());
        };
        let mut page = response(StatusCode::OK, "text/html; charset=utf-8", html);
        page.headers_mut().insert(CONTENT_SECURITY_POLICY, self.policy.clone());
        page
    }
}
