//! The page for people. It names objects of the node, so it is served on the socket and on loopback addresses only.

use std::sync::Arc;

use http_body_util::Full;
use hyper::Response;
use hyper::StatusCode;
use hyper::body::Bytes;
use hyper::header::{CONTENT_SECURITY_POLICY, HeaderValue};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use super::pages::{TEXT, response};

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
