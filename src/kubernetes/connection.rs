//! The one way to speak with the API server. Credentials are read again when they are no longer taken, so a connection
//! works for as long as the process lives.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use http_body_util::BodyExt;
use kube::client::{Body, Client};
use serde::de::DeserializeOwned;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::error::{About, whole};
use super::{Access, CredentialCandidates, KubernetesError, api_types};
use crate::host_path::BoundedCalls;

/// The largest answer that is taken whole. Lists and watches are taken piece by piece.
const LARGEST_ANSWER_BYTES: usize = 8 << 20;
/// The longest error that is read; more is no API server's.
const LONGEST_ERROR_BYTES: usize = 64 << 10;
const CONNECT: Duration = Duration::from_secs(10);

/// A connection to the API server. It is opened at the first question, and anew when credentials changed.
pub struct Connection {
    make: Arc<Make>,
    held: Mutex<Held>,
    calls: BoundedCalls,
}

/// Makes a client from what the files say now, and tells by what it was chosen.
type Make = dyn Fn() -> Result<(Client, String), KubernetesError> + Send + Sync;

#[derive(Default)]
struct Held {
    client: Option<Client>,
    chosen_by: String,
}

// === impl Connection ===

impl Connection {
    /// A connection with the credentials that are found at the time of the first question. They need not be there yet.
    pub fn new(candidates: CredentialCandidates) -> Self {
        Self::by(move || open(&candidates.find()?))
    }

    /// A connection through a client that somebody else made, as for tests.
    pub fn through(client: Client, chosen_by: &str) -> Self {
        let chosen_by = chosen_by.to_owned();
        Self::by(move || Ok((client.clone(), chosen_by.clone())))
    }

    /// A connection through whatever client `make` gives; it is asked again when that client fails.
    pub fn by(make: impl Fn() -> Result<(Client, String), KubernetesError> + Send + Sync + 'static) -> Self {
        Self { make: Arc::new(make), held: Mutex::default(), calls: BoundedCalls::default() }
    }

    /// The client in use. For what this room has no words for; who calls it calls [`Self::renew`] after a failure.
    ///
    /// # Errors
    ///
    /// There are no credentials, or they cannot be used.
    pub async fn client(&self) -> Result<Client, KubernetesError> {
        let mut held = self.held.lock().await;
        if let Some(client) = &held.client {
            return Ok(client.clone());
        }
        let make = Arc::clone(&self.make);
        // Reads files of the host.
        let made = self.calls.run(Path::new("the credentials"), move || make()).await;
        let (client, chosen_by) = made.map_err(|error| ask("read the credentials", error.to_string()))??;
        *held = Held { client: Some(client.clone()), chosen_by };
        Ok(client)
    }

    /// Forgets the client, so that the next question reads the credentials again.
    pub async fn renew(&self) {
        self.held.lock().await.client = None;
    }

    /// Why the credentials last used were chosen, for people. Empty before the first question.
    pub async fn chosen_by(&self) -> String {
        self.held.lock().await.chosen_by.clone()
    }

    /// Asks and takes one answer. Asks again with fresh credentials if the server did not know us (401).
    ///
    /// `what` completes "cannot …" in errors. Each of connecting and answering may take `limit`.
    pub async fn ask<T: DeserializeOwned>(
        &self,
        what: &str,
        request: Request<Vec<u8>>,
        limit: Duration,
    ) -> Result<T, KubernetesError> {
        let response = match self.open(what, request.clone(), limit).await {
            Err(error) if error.code() == Some(401) => self.open(what, request, limit).await?,
            response => response?,
        };
        let body = body(what, response, LARGEST_ANSWER_BYTES, limit).await?;
        serde_json::from_slice(&body).map_err(|error| unreadable(what, error.to_string()))
    }

    /// Asks and takes the head of the answer, which says that there is one; its body is still to come. A failure that
    /// other credentials may heal has them read again.
    pub(super) async fn open(
        &self,
        what: &str,
        request: Request<Vec<u8>>,
        limit: Duration,
    ) -> Result<Response<Body>, KubernetesError> {
        let opened = self.try_open(what, request, limit).await;
        if opened.as_ref().is_err_and(KubernetesError::is_of_connection) {
            self.renew().await;
        }
        opened
    }

    async fn try_open(
        &self,
        what: &str,
        request: Request<Vec<u8>>,
        limit: Duration,
    ) -> Result<Response<Body>, KubernetesError> {
        let client = timeout(limit, self.client()).await.map_err(|_| unanswered(what, limit))??;
        let sent = timeout(limit, client.send(request.map(Body::from))).await.map_err(|_| unanswered(what, limit))?;
        let response = sent.map_err(|error| unreachable(what, &error))?;
        if response.status().is_success() {
            return Ok(response);
        }
        Err(refusal(what, response, limit).await)
    }
}

fn open(access: &Access) -> Result<(Client, String), KubernetesError> {
    let mut config = access.config()?;
    config.connect_timeout = Some(CONNECT);
    // Who asks knows how long to wait; to ask again is our affair.
    (config.read_timeout, config.default_retry) = (None, false);
    let unusable =
        |error: kube::Error| KubernetesError::BuildClient { from: access.chosen_by.clone(), cause: whole(&error) };
    let unchecked = if config.accept_invalid_certs { ", which has the server's certificate not checked" } else { "" };
    let chosen_by = format!("{}{unchecked}", access.chosen_by);
    Ok((Client::try_from(config).map_err(unusable)?, chosen_by))
}

/// What an answer that is no success means.
async fn refusal(what: &str, response: Response<Body>, limit: Duration) -> KubernetesError {
    let code = response.status().as_u16();
    let body = match body(what, response, LONGEST_ERROR_BYTES, limit).await {
        Ok(body) => body,
        Err(error) => return error,
    };
    match serde_json::from_slice::<api_types::Status>(&body) {
        Ok(status) if status.is_failure(code) => refused(what, status),
        _ => {
            let text = String::from_utf8_lossy(&body).trim().chars().take(80).collect();
            KubernetesError::Foreign { what: what.to_owned(), code, text }
        }
    }
}

/// An error that the API server itself told.
pub(super) fn refused(what: &str, status: api_types::Status) -> KubernetesError {
    let (what, message) = (what.to_owned(), status.message);
    if status.code == 403 {
        return KubernetesError::Forbidden { what, message };
    }
    let details = status.details.unwrap_or_default();
    let about = Box::new(About { kind: details.kind, name: details.name });
    KubernetesError::Refused { what, code: status.code, reason: status.reason, message, about }
}

async fn body(what: &str, response: Response<Body>, most: usize, limit: Duration) -> Result<Vec<u8>, KubernetesError> {
    let (mut body, mut whole) = (response.into_body(), Vec::new());
    while let Some(chunk) = chunk(what, &mut body, limit).await? {
        whole.extend_from_slice(chunk.as_ref());
        if whole.len() > most {
            return Err(unreadable(what, format!("more than {most} bytes")));
        }
    }
    Ok(whole)
}

/// The next piece of an answer, which may take `limit`; `None` = that was all.
pub(super) async fn chunk(
    what: &str,
    body: &mut Body,
    limit: Duration,
) -> Result<Option<impl AsRef<[u8]> + use<>>, KubernetesError> {
    timeout(limit, piece(what, body)).await.unwrap_or_else(|_| Err(unanswered(what, limit)))
}

/// The next piece of an answer, however long it takes; `None` = that was all.
pub(super) async fn piece(what: &str, body: &mut Body) -> Result<Option<impl AsRef<[u8]> + use<>>, KubernetesError> {
    loop {
        match body.frame().await {
            None => return Ok(None),
            Some(Err(error)) => return Err(unreachable(what, &error)),
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
        }
    }
}

pub(super) fn ask(what: &str, cause: String) -> KubernetesError {
    KubernetesError::Ask { what: what.to_owned(), cause }
}

pub(super) fn unreadable(what: &str, cause: String) -> KubernetesError {
    KubernetesError::Unreadable { what: what.to_owned(), cause }
}

fn unreachable(what: &str, error: &kube::Error) -> KubernetesError {
    let cause = match error {
        // Its own words are a name of kube's, and those of the cause.
        kube::Error::Service(cause) => whole(&**cause),
        error => whole(error),
    };
    KubernetesError::Unreachable { what: what.to_owned(), cause }
}

fn unanswered(what: &str, limit: Duration) -> KubernetesError {
    KubernetesError::Unanswered { what: what.to_owned(), seconds: limit.as_secs() }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn credentials_on_a_disk_that_hangs_cost_one_limit() {
        let (release, held) = mpsc::channel();
        let held = std::sync::Mutex::new(held);
        let make = move || -> Result<(Client, String), KubernetesError> {
            held.lock().unwrap().recv().unwrap();
            Err(ask("read the credentials", "the disk is back".to_owned()))
        };
        let connection = Connection { calls: BoundedCalls::new(Duration::from_millis(50)), ..Connection::by(make) };
        let mut errors = Vec::new();
        for _ in 0..2 {
            errors.push(connection.client().await.err().unwrap().to_string());
        }
        assert!(errors[0].contains("did not respond") && errors[1].contains("still blocked"), "{errors:?}");
        release.send(()).unwrap();
    }
}
