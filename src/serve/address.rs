//! The address of the pages for monitoring.
//!
//! A port that is in use must not stop the collection: the address is tried again until it is free. A connection serves
//! one request, within a time limit, and there is a limit on connections, for each address and for all. A connection that
//! has sent no request makes room for a new one, and one too many is refused at once. So clients that are slow or many
//! cost little, and do not keep the kubelet from its answer.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use hyper::header::{HOST, HeaderMap};
use hyper::http::uri::Authority;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use super::Pages;
use super::files::{self, Reserve};
use super::pages::not_found;
use crate::model::Seen;

/// The wait before an address is tried again.
const RETRY: Duration = Duration::from_secs(10);
/// The wait after a connection that could not be accepted, such as for want of file descriptors.
const ACCEPT_WAIT: Duration = Duration::from_secs(1);
const CONNECTIONS: usize = 64;
/// Those of one client address.
const SHARE: usize = 8;
/// The longest wait for the head of a request.
const HEAD_WAIT: Duration = Duration::from_secs(2);
const CONNECTION: Duration = Duration::from_secs(10);
/// The largest head of a request, in bytes.
const HEAD: usize = 8 << 10;
/// The most headers of a request.
const HEADERS: usize = 64;

/// A connection that is served.
struct Open {
    from: IpAddr,
    has_request: Arc<AtomicBool>,
    task: AbortHandle,
}

/// The state of the address: where it listens, or why it cannot. `None` = it is off.
pub(super) type Listening = Arc<watch::Sender<Option<Seen<SocketAddr>>>>;

/// Serves the pages on the address. Returns never.
pub(super) async fn serve(address: SocketAddr, pages: Pages, listening: Listening) {
    loop {
        match bind(address).await {
            Ok((listener, bound)) => {
                listening.send_replace(Some(Seen::Seen(bound)));
                tracing::info!(address = %bound, "serving metrics and health");
                accept(&listener, &pages).await;
            }
            Err(error) => {
                let cause = format!("cannot listen on metrics address {address}: {error}");
                let state = Some(Seen::NotSeen(cause.clone()));
                if listening.send_replace(state.clone()) != state {
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

/// Serves connections. Returns never.
async fn accept(listener: &TcpListener, pages: &Pages) {
    let (mut open, mut reserve) = (Vec::new(), Reserve::new());
    loop {
        match accepted(listener).await {
            Ok((stream, from)) if makes_room(&mut open, from.ip()) => {
                let (pages, has_request) = (pages.clone(), Arc::<AtomicBool>::default());
                let serving = connection(stream, pages, Arc::clone(&has_request));
                let task = tokio::spawn(async move { drop(timeout(CONNECTION, serving).await) }).abort_handle();
                open.push(Open { from: from.ip(), has_request, task });
            }
            // Dropping the stream closes the connection.
            Ok(_) => {}
            Err(error) if reserve.give_up(&error) => {
                if let Ok((stream, _)) = accepted(listener).await {
                    let _ = timeout(CONNECTION, connection(stream, pages.clone(), Arc::default())).await;
                }
                reserve.restore();
            }
            Err(_) => {
                reserve.restore();
                sleep(ACCEPT_WAIT).await;
            }
        }
    }
}

/// Returns whether one more connection may be served. If there are too many, the oldest without a request is closed.
fn makes_room(open: &mut Vec<Open>, from: IpAddr) -> bool {
    open.retain(|known| !known.task.is_finished());
    let has_share = open.iter().filter(|known| known.from == from).count() < SHARE;
    if has_share && open.len() < CONNECTIONS {
        return true;
    }
    let is_idle = |known: &Open| !known.has_request.load(Ordering::Relaxed) && (has_share || known.from == from);
    let oldest = open.iter().position(is_idle);
    oldest.inspect(|at| open.remove(*at).task.abort()).is_some()
}

/// Accepts a connection, whose packets are sent at once: the client may wait 40 ms before it acknowledges the first of an answer.
async fn accepted(listener: &TcpListener) -> io::Result<(TcpStream, SocketAddr)> {
    let (stream, from) = listener.accept().await?;
    // It works without, only later.
    let _ = stream.set_nodelay(true);
    Ok((stream, from))
}

async fn connection(stream: TcpStream, pages: Pages, has_request: Arc<AtomicBool>) {
    let is_loopback = stream.local_addr().is_ok_and(|address| address.ip().is_loopback());
    let (pages, has_request) = (&pages, &has_request);
    let service = service_fn(|request: Request<Incoming>| async move {
        has_request.store(true, Ordering::Relaxed);
        files::check(&pages.health);
        let is_local = is_loopback && names_this_machine(request.headers());
        Ok::<_, Infallible>(pages.page(&request, is_local).await.unwrap_or_else(not_found))
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(HEAD_WAIT).keep_alive(false);
    server.max_buf_size(HEAD).max_headers(HEADERS);
    if let Err(error) = server.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!(%error, "a connection to the metrics address ended early");
    }
}

/// Returns whether the client means this machine. A web page can give its own name an address of the loopback interface, and
/// its scripts would read the page for people then; the browser still sends that name.
fn names_this_machine(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(HOST) else { return true };
    let Ok(authority) = Authority::try_from(host.as_bytes()) else { return false };
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use nix::sys::resource::{Resource, getrlimit, setrlimit};

    use super::*;
    use crate::serve::Health;

    async fn served() -> SocketAddr {
        let (listener, address) = bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let pages = Pages {
            metrics: Arc::new(|_| String::new()),
            health: Health::default(),
            notes: Arc::new(Vec::new),
            report: None,
        };
        tokio::spawn(async move { accept(&listener, &pages).await });
        address
    }

    #[tokio::test]
    async fn a_connection_does_not_wait_for_the_acknowledgment_of_a_packet() {
        let (listener, address) = bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let _client = TcpStream::connect(address).await.unwrap();
        assert!(accepted(&listener).await.unwrap().0.nodelay().unwrap());
    }

    async fn livez(address: SocketAddr) -> String {
        get(address, "/livez").await
    }

    async fn get(address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn idle_connections_do_not_delay_an_answer() {
        let address = served().await;
        let mut idle = Vec::new();
        for _ in 0..100 {
            idle.push(TcpStream::connect(address).await.unwrap());
        }
        let answer = timeout(Duration::from_secs(1), livez(address)).await.expect("no answer in time");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        let closed = timeout(Duration::from_secs(1), idle[0].read(&mut [0])).await.expect("it is open");
        assert!(matches!(closed, Ok(0) | Err(_)));
    }

    /// Each test is a process of its own, so the limit is that of this test.
    #[tokio::test]
    async fn readiness_answers_without_a_free_file_and_says_so() {
        let address = served().await;
        assert!(get(address, "/readyz").await.starts_with("HTTP/1.1 200"));
        let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        setrlimit(Resource::RLIMIT_NOFILE, 64, hard).unwrap();
        let mut files: Vec<_> = std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect();
        // One for this client.
        files.pop();
        let answer = timeout(Duration::from_secs(5), get(address, "/readyz")).await.expect("no answer in time");
        assert!(answer.starts_with("HTTP/1.1 5"), "{answer}");
        assert!(answer.contains("files: the process can open no more files; its limit is 64"), "{answer}");
        drop(files);
        assert!(get(address, "/readyz").await.starts_with("HTTP/1.1 200"));
    }

    #[tokio::test]
    async fn a_head_has_two_seconds() {
        let mut stream = TcpStream::connect(served().await).await.unwrap();
        stream.write_all(b"GET /livez HTTP/1.1\r\n").await.unwrap();
        let mut answer = Vec::new();
        let closed = timeout(Duration::from_secs(4), stream.read_to_end(&mut answer)).await;
        assert!(closed.is_ok(), "it is open");
    }

    #[tokio::test]
    async fn busy_connections_of_others_keep_their_place() {
        let busy = |from: &str| Open {
            from: from.parse().unwrap(),
            has_request: Arc::new(true.into()),
            task: tokio::spawn(std::future::pending::<()>()).abort_handle(),
        };
        let other = "192.0.2.9".parse().unwrap();
        let mut open: Vec<_> = (0..SHARE).map(|_| busy("192.0.2.1")).collect();
        assert!(!makes_room(&mut open, "192.0.2.1".parse().unwrap()), "its share is used up");
        assert!(makes_room(&mut open, other));
        open.extend((SHARE..CONNECTIONS).map(|_| busy("192.0.2.2")));
        assert!(!makes_room(&mut open, other));
        open[3].has_request.store(false, Ordering::Relaxed);
        assert!(makes_room(&mut open, other));
        assert_eq!(open.len(), CONNECTIONS - 1);
    }

    #[test]
    fn only_names_of_this_machine_show_the_page() {
        let names = |host: &str| names_this_machine(&[(HOST, host.parse().unwrap())].into_iter().collect());
        for host in ["localhost:9100", "LOCALHOST", "127.0.0.1:9100", "[::1]:9100", "127.0.0.1"] {
            assert!(names(host), "{host}");
        }
        for host in ["evil.example.com:9100", "127.0.0.1.example.com", "localhost.example.com", "", "a@b/c"] {
            assert!(!names(host), "{host}");
        }
    }
}
