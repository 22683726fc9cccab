//! Requests that a command sends again.

use http::Request;
use serde_json::{Value, json};

use super::*;
use crate::kubernetes::{ApiResource, Connection, list_metadata_in};
use crate::testing::fake_api::{Answer, Call, failure};

/// Returns a server with these answers, which then lists no pods.
fn server(answers: impl IntoIterator<Item = Answer>) -> FakeApi {
    let api = FakeApi::new();
    api.plan(Call::List, answers);
    api
}

fn repeating(answers: impl IntoIterator<Item = Answer>) -> Connection {
    server(answers).connection().repeating()
}

fn answer(code: u16, text: &str) -> Answer {
    Answer::Text(code, text.to_owned())
}

/// The answer wants a wait of so many seconds.
fn later(code: u16, seconds: u64, text: &str) -> Answer {
    Answer::RetryAfter(code, seconds, text.to_owned())
}

/// An API server requests a wait of three seconds in this way.
fn busy() -> Answer {
    answer(429, &failure(429, "TooManyRequests", &json!({"retryAfterSeconds": 3})).to_string())
}

async fn list(connection: &Connection) -> Result<usize, String> {
    let listed = list_metadata_in(connection, &ApiResource::pods(), "", None, seconds(30)).await;
    listed.map(|listed| listed.len()).map_err(|error| error.to_string())
}

#[tokio::test(start_paused = true)]
async fn a_command_honors_the_retry_delay_and_reads_again() {
    let rows = [
        ("a text and a header", later(429, 2, "Too many requests"), 2),
        ("a status", busy(), 3),
        ("a server that starts", later(503, 1, "starting"), 1),
        ("a connection that is closed", Answer::Refused, 0),
    ];
    for (row, first, waits) in rows {
        let connection = repeating([first]);
        let begun = Instant::now();
        assert_eq!(list(&connection).await, Ok(0), "{row}");
        assert_eq!(begun.elapsed().as_secs(), waits, "{row}");
    }
}

/// A server that serves few requests at once would refuse them again.
#[tokio::test(start_paused = true)]
async fn requests_that_are_refused_at_once_are_repeated_one_by_one() {
    let waits = (0..20).map(async |_| {
        let (connection, begun) = (repeating([later(429, 1, "Too many requests")]), Instant::now());
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
    let connection = repeating((0..11).map(|_| later(429, 0, "Too many requests")));
    let error = list(&connection).await.unwrap_err();
    assert!(error.contains("code 429, text \"Too many requests\""), "{error}");
    assert_eq!(list(&connection).await, Ok(0), "eleven answers were used");
    let connection = repeating((0..11).map(|_| Answer::Refused));
    assert!(list(&connection).await.unwrap_err().contains("connection refused"));
}

#[tokio::test(start_paused = true)]
async fn nothing_else_is_read_again() {
    for first in [answer(429, "no"), later(404, 1, "no"), answer(503, "no"), later(403, 1, "no")] {
        let connection = repeating([first]);
        assert!(list(&connection).await.is_err());
        assert_eq!(list(&connection).await, Ok(0), "the next answer is the second");
    }
    assert!(list(&server([busy()]).connection()).await.is_err(), "a service looks again by itself");
}

/// A connection can break after a change was made.
#[tokio::test(start_paused = true)]
async fn a_change_is_not_resent_after_a_broken_connection() {
    let api = FakeApi::new();
    api.plan(Call::Get, [Answer::Refused]);
    let request = Request::delete("/api/v1/namespaces/n/pods/p").body(Vec::new()).unwrap();
    let deleted = api.connection().repeating().request::<Value>(request, seconds(30)).await;
    assert!(deleted.unwrap_err().to_string().contains("connection refused"));
    assert_eq!(api.count(Call::Get), 1);
}

/// The API server wants 30 s for each kind whose conversion webhook is down.
#[tokio::test(start_paused = true)]
async fn a_command_does_not_wait_long_for_one_kind() {
    let failed = answer(500, &failure(500, "InternalError", &json!({})).to_string());
    for first in [vec![later(429, 30, "busy")], vec![failed, later(429, 1, "busy")]] {
        let (wanted, connection) = (first.len(), repeating(first));
        let begun = Instant::now();
        for _ in 0..wanted {
            assert!(list(&connection).await.is_err());
        }
        assert_eq!(begun.elapsed(), Duration::ZERO);
        assert_eq!(list(&connection).await, Ok(0), "each answer was read once");
    }
}

#[tokio::test(start_paused = true)]
async fn a_command_names_what_it_waits_for() {
    static NOTES: std::sync::Mutex<Vec<String>> = std::sync::Mutex::new(Vec::new());
    let note = |text: &str| NOTES.lock().unwrap().push(text.to_owned());
    assert_eq!(list(&repeating([later(429, 1, "busy")]).noting(note)).await, Ok(0));
    let connection = repeating([later(429, 5, "busy"), later(429, 5, "busy")]).noting(note);
    assert_eq!(list(&connection).await, Ok(0));
    let _ = list(&repeating([Answer::Never]).noting(note)).await;
    let notes = NOTES.lock().unwrap();
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(notes[0].starts_with("waiting for api/v1/pods, which answers: ") && notes[0].contains("busy"), "{notes:?}");
    assert_eq!(notes[1], "waiting for api/v1/pods");
}

#[tokio::test(start_paused = true)]
async fn a_command_with_an_end_waits_for_nothing_after_it() {
    for first in [later(429, 10, "busy"), Answer::Never] {
        let begun = Instant::now();
        let connection = repeating([first]).until(Some(begun + seconds(3)));
        assert!(list(&connection).await.is_err());
        assert!(begun.elapsed() <= seconds(3), "{:?}", begun.elapsed());
    }
}
