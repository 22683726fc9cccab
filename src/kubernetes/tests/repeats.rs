//! Requests that a command sends again.

use std::collections::VecDeque;
use std::sync::Mutex;

use http::{Request, Response, header};
use kube::client::{Body, Client};
use serde_json::json;
use tower::{BoxError, service_fn};

use super::*;
use crate::kubernetes::{ApiResource, Connection, list_metadata, read_metadata};

/// An answer; `None` = the connection is closed.
type Answer = Option<Response<Body>>;

/// Returns a connection to a server with these answers, which then lists no pods.
fn server(answers: impl IntoIterator<Item = Answer>) -> Connection {
    let answers = Arc::new(Mutex::new(answers.into_iter().collect::<VecDeque<_>>()));
    let empty = json!({"kind": "PodList", "metadata": {"resourceVersion": "1"}, "items": []}).to_string();
    let serve = service_fn(move |_: Request<Body>| {
        let next = answers.lock().unwrap().pop_front();
        let answer = next.unwrap_or_else(|| Some(Response::new(Body::from(empty.clone().into_bytes()))));
        async { answer.ok_or_else(|| BoxError::from("connection closed")) }
    });
    Connection::through(Client::new(serve, "default"), "a test")
}

#[expect(clippy::unnecessary_wraps, reason = "an answer among others that may be none")]
fn answer(code: u16, retry_after: Option<&str>, text: &str) -> Answer {
    let mut response = Response::builder().status(code);
    if let Some(seconds) = retry_after {
        response = response.header(header::RETRY_AFTER, seconds);
    }
    Some(response.body(Body::from(text.as_bytes().to_vec())).unwrap())
}

/// An API server requests a wait of three seconds in this way.
fn busy() -> Answer {
    let details = json!({"retryAfterSeconds": 3});
    let status =
        json!({"kind": "Status", "code": 429, "reason": "TooManyRequests", "message": "wait", "details": details});
    answer(429, None, &status.to_string())
}

async fn list(connection: &Connection) -> Result<usize, String> {
    let listed = list_metadata(connection, &ApiResource::pods(), seconds(30)).await;
    listed.map(|listed| listed.len()).map_err(|error| error.to_string())
}

#[tokio::test(start_paused = true)]
async fn a_command_honors_the_retry_delay_and_reads_again() {
    let rows = [
        ("a text and a header", answer(429, Some("2"), "Too many requests"), 2),
        ("a status", busy(), 3),
        ("a server that starts", answer(503, Some("1"), "starting"), 1),
        ("a connection that is closed", None, 0),
    ];
    for (row, first, waits) in rows {
        let connection = server([first]).repeating();
        let begun = Instant::now();
        assert_eq!(list(&connection).await, Ok(0), "{row}");
        assert_eq!(begun.elapsed().as_secs(), waits, "{row}");
    }
}

/// A server that serves few requests at once would refuse them again.
#[tokio::test(start_paused = true)]
async fn requests_that_are_refused_at_once_are_repeated_one_by_one() {
    let waits = (0..20).map(async |_| {
        let (connection, begun) = (server([answer(429, Some("1"), "Too many requests")]).repeating(), Instant::now());
        assert_eq!(list(&connection).await, Ok(0));
        begun.elapsed().as_millis()
    });
    let mut waits = futures::future::join_all(waits).await;
    waits.sort_unstable();
    let nearest = waits.windows(2).map(|pair| pair[1] - pair[0]).min();
    assert!(nearest > Some(10) && waits[0] >= 1000 && waits[19] < 2000, "{waits:?}");
}

#[tokio::test(start_paused = true)]
async fn a_command_gives_up_after_ten_retries() {
    let connection = server((0..11).map(|_| answer(429, Some("1"), "Too many requests"))).repeating();
    let error = list(&connection).await.unwrap_err();
    assert!(error.contains("code 429, text \"Too many requests\""), "{error}");
    assert_eq!(list(&connection).await, Ok(0), "eleven answers were used");
    let connection = server((0..11).map(|_| None)).repeating();
    assert!(list(&connection).await.unwrap_err().contains("connection closed"));
}

#[tokio::test(start_paused = true)]
async fn nothing_else_is_read_again() {
    for first in
        [answer(429, None, "no"), answer(404, Some("1"), "no"), answer(503, None, "no"), answer(403, Some("1"), "no")]
    {
        let connection = server([first]).repeating();
        assert!(list(&connection).await.is_err());
        assert_eq!(list(&connection).await, Ok(0), "the next answer is the second");
    }
    assert!(list(&server([busy()])).await.is_err(), "a service looks again by itself");
}

/// A connection can break after a change was made.
#[tokio::test(start_paused = true)]
async fn a_change_is_not_resent_after_a_broken_connection() {
    let connection = server([None]).repeating();
    let request = Request::delete("/api/v1/namespaces/n/pods/p").body(Vec::new()).unwrap();
    let deleted = connection.request::<serde_json::Value>(request, seconds(30)).await;
    assert!(deleted.unwrap_err().to_string().contains("connection closed"));
    assert!(read_metadata(&connection, &ApiResource::pods(), "n", "p", seconds(30)).await.is_err(), "a list is no pod");
}
