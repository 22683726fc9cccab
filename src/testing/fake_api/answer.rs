//! The answers of the fake API server, and how they fail.

use std::time::Duration;

use bytes::Bytes;
use http::{Response, header};
use http_body_util::channel::{Channel, Sender};
use serde_json::{Value, json};
use tower::BoxError;

/// A planned answer to one request.
#[derive(Clone)]
pub enum Answer {
    /// The answer of a real API server, as a place holder before other planned answers.
    Right,
    /// This code and text.
    Text(u16, String),
    /// This code and text, and so many seconds in the header `Retry-After`.
    RetryAfter(u16, u64, String),
    /// The first bytes of the right answer. Then the connection ends as if the answer were complete.
    CutAfter(usize),
    /// The first bytes of the right answer. Then the connection breaks.
    BreaksAfter(usize),
    /// The first bytes of the right answer. Then nothing follows.
    StopsAfter(usize),
    /// A line each second, without an end.
    Trickles,
    /// The right answer of now, after so long.
    Late(Duration),
    /// This text, after so long.
    Slow(Duration, String),
    /// No answer.
    Never,
    /// No connection.
    Refused,
}

/// The result for the client.
pub(super) type Answered = Result<Response<Channel<Bytes, BoxError>>, BoxError>;

// === impl Answer ===

impl Answer {
    /// Sends the answer. `right` makes that of a real API server.
    pub(super) async fn send(self, right: impl FnOnce() -> (u16, String)) -> Answered {
        let (mut body, channel) = Channel::new(4);
        let (code, text) = match &self {
            Self::Never => std::future::pending().await,
            Self::Refused => return Err("connection refused".into()),
            Self::Late(wait) => {
                let answer = right();
                tokio::time::sleep(*wait).await;
                answer
            }
            Self::Slow(wait, text) => {
                tokio::time::sleep(*wait).await;
                (200, text.clone())
            }
            Self::Trickles => (200, " \n".to_owned()),
            Self::Text(code, text) | Self::RetryAfter(code, _, text) => (*code, text.clone()),
            Self::Right => right(),
            Self::CutAfter(bytes) | Self::BreaksAfter(bytes) | Self::StopsAfter(bytes) => {
                let (code, text) = right();
                (code, text.get(..*bytes).expect("cut where there is something").to_owned())
            }
        };
        body.send_data(text.into()).await?;
        let mut response = Response::builder().status(code);
        match self {
            Self::BreaksAfter(_) => body.abort("connection reset".into()),
            // The body never ends.
            Self::StopsAfter(_) => std::mem::forget(body),
            Self::Trickles => drop(tokio::spawn(trickle(body))),
            Self::RetryAfter(_, seconds, _) => response = response.header(header::RETRY_AFTER, seconds),
            _ => {}
        }
        Ok(response.body(channel)?)
    }
}

async fn trickle(mut body: Sender<Bytes, BoxError>) {
    while body.send_data(" \n".into()).await.is_ok() {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// Returns an error of the API server as an answer.
pub fn status(code: u16, reason: &str) -> Answer {
    let mut failure = failure(code, reason, &json!({}));
    failure["message"] = format!("{reason} it is").into();
    Answer::Text(code, failure.to_string())
}

/// Returns the answer of an API server about an object that does not exist.
pub fn not_found(resource: &str, name: &str) -> Value {
    failure(404, "NotFound", &json!({"kind": resource, "name": name}))
}

/// Returns an error of the API server.
pub fn failure(code: u16, reason: &str, details: &Value) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": reason, "reason": reason,
        "details": details, "code": code})
}
