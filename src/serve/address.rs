//! The address of the pages for monitoring.
//!
//! A port that is in use must not stop the collection: the address is tried again until it is free. A connection serves
//! one request, within a time limit, and there is a limit on connections. So clients that are slow or many cost little,
//! and delay others by the time limit at most.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use super::Pages;
use super::pages::not_found;
use crate::model::Seen;

/// The wait before an address is tried again.
const RETRY: Duration = Duration::from_secs(10);
/// The wait after a connection that could not be accepted, such as for want of file descriptors.
const ACCEPT_WAIT: Duration = Duration::from_secs(1);
/// Connections at once. Further ones wait.
const CONNECTIONS: usize = 16;
/// The longest connection.
const CONNECTION: Duration = Duration::from_secs(10);
/// The largest head of a request, in bytes.
const HEAD: usize = 8 << 10;
/// The most headers of a request.
const HEADERS: usize = 64;

/// The state of the address: where it listens, or why it cannot. `None` = it is off.
#[derive(Clone, Debug, Default)]
pub(super) struct Listening(Arc<Mutex<Option<Seen<SocketAddr>>>>);

// === impl Listening ===

impl Listening {
    pub(super) fn read(&self) -> Option<Seen<SocketAddr>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, state: Seen<SocketAddr>) -> Option<Seen<SocketAddr>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).replace(state)
    }
}

/// Serves the pages on the address. Returns never.
pub(super) async fn serve(address: SocketAddr, pages: Pages, listening: Listening) {
    loop {
        match bind(address).await {
            Ok((listener, bound)) => {
                listening.set(Seen::Seen(bound));
                tracing::info!(address = %bound, "serving metrics and health");
                accept(&listener, &pages).await;
            }
            Err(error) => {
                let cause = format!("cannot listen on metrics address {address}: {error}");
                let before = listening.set(Seen::NotSeen(cause.clone()));
                if before != Some(Seen::NotSeen(cause.clone())) {
                    tracing::warn!("{cause}; trying again every {} s", RETRY.as_secs());
                }
                sleep(RETRY).await;
            }
        }
    }
}

async fn bind(address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(address).await?;
    let bound = listener.local_addr()?;
    Ok((listener, bound))
}

async fn accept(listener: &TcpListener, pages: &Pages) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS));
    // The semaphore is never closed.
    while let Ok(slot) = Arc::clone(&slots).acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => {
                let pages = pages.clone();
                drop(tokio::spawn(async move {
                    let _slot = slot;
                    let _ = timeout(CONNECTION, connection(stream, pages)).await;
                }));
            }
            Err(_) => sleep(ACCEPT_WAIT).await,
        }
    }
}

async fn connection(stream: TcpStream, pages: Pages) {
    let is_local = stream.local_addr().is_ok_and(|address| address.ip().is_loopback());
    let pages = &pages;
    let service = service_fn(|request: Request<Incoming>| async move {
        Ok::<_, Infallible>(pages.page(&request, is_local).await.unwrap_or_else(not_found))
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(CONNECTION).keep_alive(false);
    server.max_buf_size(HEAD).max_headers(HEADERS);
    if let Err(error) = server.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!(%error, "a connection to the metrics address ended early");
    }
}
