//! The connection to the API server. It reads the credentials again when the server no longer accepts them, so it works
//! for the whole life of the process.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::path::Path;
use std::sync::{Arc, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use http::{Method, Request, Response, Uri};
use http_body_util::BodyExt;
use kube::client::{Body, Client};
use kube::core::Status;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::{Mutex, Semaphore};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::client::Sharing;
use super::clients::{Clients, WatchPermit};
use super::repeats;
use crate::host_path::BoundedCalls;
use crate::kubernetes::kubernetes_error::cause_of;
use crate::kubernetes::{Cause, Clock, CredentialCandidates};
use crate::model::{cut_text, printable_text};

/// The largest answer. An API server stores objects of a few MiB at most; a page of a list that is larger is requested
/// again with fewer objects.
pub(super) const LARGEST_ANSWER_BYTES: usize = 16 << 20;
/// Answers up to this size are read whatever the others are.
const ORDINARY_ANSWER_BYTES: usize = 1 << 20;
/// Larger answers at once, apart from lists. Without this limit the objects of one tenant could fill the memory (G5).
const LARGE_ANSWERS: usize = 8;
/// The failing checks of a server that are named at most.
const MOST_CHECKS: usize = 20;
/// After this wait a command names what it waits for.
const NAMED_AFTER: Duration = Duration::from_secs(2);
/// The longest text of a kind and of a cause in it.
const LONGEST_KIND: usize = 200;
const LONGEST_CAUSE: usize = 300;
/// The longest error that is read. An API server sends no longer ones.
const LONGEST_ERROR_BYTES: usize = 64 << 10;

/// How a line of `/readyz` begins that names a check that fails.
pub(in crate::kubernetes) const FAILING_CHECK: &str = "[-]";

/// A connection to the API server. It opens with the first request, and again after the credentials changed.
pub struct Connection {
    source: Source,
    held: Mutex<Held>,
    calls: BoundedCalls,
    large_answers: Semaphore,
    clock: Option<Clock>,
    /// The limit of each call that a person sets.
    limit: Option<Duration>,
    /// How often one request is sent again.
    repeats: u32,
    /// After this a command sends no read, and no request again.
    until: Option<Instant>,
    /// Tells a person what a command waits for.
    note: Option<fn(&str)>,
    /// The kinds that answered 500, and those that were named because they take long.
    slow: std::sync::Mutex<Slow>,
    observer: OnceLock<Observer>,
    /// The failing checks of the server that a warning has named.
    failing_checks: std::sync::Mutex<Vec<String>>,
}

/// Receives the method of each request, the status of its answer, and the time until the answer began. `None` = no answer.
type Observer = Box<dyn Fn(&Method, Option<u16>, Duration) + Send + Sync>;

/// What a command found out about kinds.
#[derive(Default)]
struct Slow {
    broken: BTreeSet<String>,
    named: BTreeSet<String>,
}

/// Where the clients come from.
enum Source {
    /// The credentials of this moment: files and tokens are read again when they change.
    Found(Box<CredentialCandidates>, Sharing),
    /// A client, and why it was chosen.
    Made(Arc<dyn Fn() -> Result<(Client, String), Cause> + Send + Sync>),
}

/// When a whole answer must have arrived.
#[derive(Clone, Copy)]
struct Deadline {
    at: Instant,
    limit: Duration,
}

#[derive(Default)]
struct Held {
    clients: Option<Arc<Clients>>,
    chosen_by: String,
}

/// An error of the API server with its type, which shows that no proxy sent it.
#[derive(Deserialize)]
struct TypedStatus {
    kind: String,
    #[serde(flatten)]
    status: Status,
}

// === impl Connection ===

impl Connection {
    /// Creates a connection that looks for credentials at the first request. They may still be missing now.
    pub fn new(candidates: CredentialCandidates) -> Self {
        Self::reading(candidates, Sharing::Separate)
    }

    /// As [`Self::new`], for many calls at once: they share a TCP connection if the server permits that (HTTP/2).
    pub fn multiplexed(candidates: CredentialCandidates) -> Self {
        Self::reading(candidates, Sharing::Multiplexed)
    }

    /// Creates a connection over an existing client, for example in tests.
    pub fn through(client: Client, chosen_by: &str) -> Self {
        let chosen_by = chosen_by.to_owned();
        Self::by(move || Ok((client.clone(), chosen_by.clone())))
    }

    /// Creates a connection over the client that `make` returns. After a failure of that client, `make` runs again.
    pub fn by(make: impl Fn() -> Result<(Client, String), Cause> + Send + Sync + 'static) -> Self {
        Self::with(Source::Made(Arc::new(make)))
    }

    fn reading(candidates: CredentialCandidates, sharing: Sharing) -> Self {
        let clock = candidates.clock;
        Self { clock, ..Self::with(Source::Found(Box::new(candidates), sharing)) }
    }

    fn with(source: Source) -> Self {
        let large_answers = Semaphore::new(LARGE_ANSWERS);
        let (held, calls) = (Mutex::default(), BoundedCalls::default());
        let (observer, failing_checks, slow) = Default::default();
        let (clock, limit, until, note) = (None, None, None, None);
        let repeats = 0;
        Self { source, held, calls, large_answers, clock, limit, repeats, until, note, slow, observer, failing_checks }
    }

    /// Returns the same connection, which sends a request again as client-go does: after the wait that the server wants
    /// for, and a read whose connection broke over a new one. For commands, which do not look again by themselves.
    #[must_use]
    pub fn repeating(self) -> Self {
        Self { repeats: repeats::MOST, ..self }
    }

    /// Returns the same connection, on which a command ends at this moment: it sends no read after it, and no request again.
    #[must_use]
    pub fn until(self, until: Option<Instant>) -> Self {
        Self { until, ..self }
    }

    /// Returns the same connection, which tells a person what it waits for.
    #[must_use]
    pub fn noting(self, note: fn(&str)) -> Self {
        Self { note: Some(note), ..self }
    }

    /// Returns the same connection, with this limit for each call, not that of the caller.
    #[must_use]
    pub fn with_limit(self, limit: Option<Duration>) -> Self {
        Self { limit, ..self }
    }

    /// Calls `observer` after each request, unless there is an observer already.
    pub fn observe(&self, observer: impl Fn(&Method, Option<u16>, Duration) + Send + Sync + 'static) {
        // The first one remains.
        let _ = self.observer.set(Box::new(observer));
    }

    /// Logs the failing checks of the server whenever they change.
    pub(in crate::kubernetes) fn warn_of_checks(&self, failing: Vec<String>) {
        let mut warned = self.failing_checks.lock().unwrap_or_else(PoisonError::into_inner);
        if *warned != failing {
            let checks = printable_text(&failing.join(", "));
            if failing.is_empty() {
                tracing::info!("the API server is ready");
            } else {
                tracing::warn!(checks, "the API server answers, but reports that it is not ready");
            }
            *warned = failing;
        }
    }

    /// Returns the clients in use. New ones need credentials.
    pub(in crate::kubernetes) async fn clients(&self) -> Result<Arc<Clients>, Cause> {
        let mut held = self.held.lock().await;
        let now = self.clock.map(|now| now());
        if let Some(clients) = held.clients.as_ref().filter(|clients| !clients.is_expired(now)) {
            return Ok(Arc::clone(clients));
        }
        let made = Arc::new(Box::pin(self.make()).await?);
        *held = Held { clients: Some(Arc::clone(&made)), chosen_by: made.chosen_by.clone() };
        Ok(made)
    }

    /// Makes the clients. This reads files of the host.
    async fn make(&self) -> Result<Clients, Cause> {
        let place = Path::new("the credentials");
        let unread = |error| Cause::InvalidRequest(format!("the credentials cannot be read: {error}"));
        match &self.source {
            Source::Made(make) => {
                let make = Arc::clone(make);
                let (client, chosen_by) = self.calls.run(place, move || make()).await.map_err(unread)??;
                Ok(Clients::of(client, chosen_by))
            }
            Source::Found(candidates, sharing) => {
                let candidates = candidates.clone();
                let read = move || {
                    let access = candidates.find()?;
                    Ok::<_, Cause>((access.target()?, access))
                };
                let (target, access) = self.calls.run(place, read).await.map_err(unread)??;
                Clients::new(&access, target, *sharing).await
            }
        }
    }

    /// Drops the clients, so that the next request reads the credentials again.
    pub(super) async fn renew(&self) {
        self.held.lock().await.clients = None;
    }

    /// As [`Self::renew`], unless that has happened since. Many watches may fail at once.
    async fn renew_after(&self, failed: &Arc<Clients>) {
        let mut held = self.held.lock().await;
        held.clients.take_if(|clients| Arc::ptr_eq(clients, failed));
    }

    /// Returns why the last credentials were chosen, as text for users. Empty before the first request.
    pub async fn chosen_by(&self) -> String {
        self.held.lock().await.chosen_by.clone()
    }

    /// Names the cluster: the address of the API server, the credentials and the context of the kubeconfig. Empty without credentials.
    pub async fn cluster(&self) -> String {
        self.clients().await.map(|clients| clients.cluster()).unwrap_or_default()
    }

    /// Sends a request and returns the answer. Retries once with fresh credentials if the server does not accept them
    /// (401).
    ///
    /// Connecting and the whole answer may take up to `limit` together.
    pub async fn request<T: DeserializeOwned>(&self, request: Request<Vec<u8>>, limit: Duration) -> Result<T, Cause> {
        let mut turn = None;
        let may_go_on = |bytes: usize| {
            if bytes > ORDINARY_ANSWER_BYTES && turn.is_none() {
                let busy = |_| Cause::Unreadable("too many large answers at once".to_owned());
                turn = Some(self.large_answers.try_acquire().map_err(busy)?);
            }
            at_most(LARGEST_ANSWER_BYTES, bytes)
        };
        parsed(&self.body(request, limit, may_go_on).await?)
    }

    /// As [`Self::request`], with the answer as it came.
    ///
    /// # Errors
    ///
    /// As [`Self::request`]; the answer is larger than [`LARGEST_ANSWER_BYTES`].
    pub(in crate::kubernetes) async fn bytes(
        &self,
        request: Request<Vec<u8>>,
        limit: Duration,
    ) -> Result<Vec<u8>, Cause> {
        self.body(request, limit, |bytes| at_most(LARGEST_ANSWER_BYTES, bytes)).await
    }

    /// Sends a request, and once more with fresh credentials after an answer 401.
    async fn body(
        &self,
        request: Request<Vec<u8>>,
        limit: Duration,
        mut may_go_on: impl FnMut(usize) -> Result<(), Cause>,
    ) -> Result<Vec<u8>, Cause> {
        let (mut repeated, mut was_unauthorized, mut waited) = (0, false, Duration::ZERO);
        loop {
            let error = match self.body_once(request.clone(), limit, &mut may_go_on).await {
                Err(error) => error,
                body => return body,
            };
            if error.code() == Some(401) && !std::mem::replace(&mut was_unauthorized, true) {
                continue;
            }
            let may_repeat = !self.is_broken(&request, &error) && repeated < self.repeats;
            let wait = repeats::wait(&error, request.method(), repeated).filter(|_| may_repeat);
            let Some(wait) = wait.filter(|wait| self.may_wait(&request, waited + *wait)) else {
                return Err(error);
            };
            if waited + wait >= NAMED_AFTER {
                self.name(request.uri(), &format!(", which answers: {error}"));
            }
            sleep(wait).await;
            waited += wait;
            repeated += 1;
        }
    }

    /// Returns whether a command may wait so long in all until it sends a request again.
    fn may_wait(&self, request: &Request<Vec<u8>>, wait: Duration) -> bool {
        let is_in_time = self.until.is_none_or(|until| Instant::now() + wait < until);
        is_in_time && (request.method() != Method::GET || wait < repeats::LONGEST)
    }

    /// Remembers a kind that answers 500, as that of a conversion webhook that is down. Returns whether this one did: no command waits
    /// for it.
    fn is_broken(&self, request: &Request<Vec<u8>>, error: &Cause) -> bool {
        let (kind, broken) = (repeats::kind(request.uri().path()), &mut self.slow().broken);
        if error.code() == Some(500) {
            broken.insert(kind.clone());
        }
        request.method() == Method::GET && broken.contains(&kind)
    }

    /// Names what a command waits for, each kind once.
    fn name(&self, uri: &Uri, why: &str) {
        let kind = repeats::kind(uri.path());
        if let Some(note) = self.note.filter(|_| self.slow().named.insert(kind.clone())) {
            note(&format!("waiting for {}{}", cut_text(&kind, LONGEST_KIND), cut_text(why, LONGEST_CAUSE)));
        }
    }

    fn slow(&self) -> MutexGuard<'_, Slow> {
        self.slow.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn body_once(
        &self,
        request: Request<Vec<u8>>,
        limit: Duration,
        may_go_on: impl FnMut(usize) -> Result<(), Cause>,
    ) -> Result<Vec<u8>, Cause> {
        if self.repeats > 0 {
            // The exec plugin of a command may wait for a person to log in. That is no time of the request.
            self.clients().await?;
        }
        let mut limit = self.limit.unwrap_or(limit);
        if let Some(until) = self.until.filter(|_| request.method() == Method::GET) {
            limit = limit.min(until.saturating_duration_since(Instant::now()));
        }
        let uri = request.uri().clone();
        let mut answer = std::pin::pin!(self.answer(request, limit, may_go_on));
        if let Ok(answer) = timeout(NAMED_AFTER, &mut answer).await {
            return answer;
        }
        self.name(&uri, "");
        answer.await
    }

    async fn answer(
        &self,
        request: Request<Vec<u8>>,
        limit: Duration,
        may_go_on: impl FnMut(usize) -> Result<(), Cause>,
    ) -> Result<Vec<u8>, Cause> {
        let deadline = Deadline::after(limit);
        let (response, ()) = self.open(|clients| (clients.calls(), ()), request, limit).await?;
        body(response, deadline, may_go_on).await
    }

    /// Begins a watch, and returns the head of its answer and its permit. The body follows later.
    pub(in crate::kubernetes) async fn watch(
        &self,
        request: Request<Vec<u8>>,
        limit: Duration,
    ) -> Result<(Response<Body>, WatchPermit), Cause> {
        self.open(Clients::watch, request, limit).await
    }

    /// Sends a request by one of the clients and returns the head of the answer. The body follows later. Drops the clients
    /// after a failure that other credentials may fix.
    async fn open<T>(
        &self,
        by: impl FnOnce(&Clients) -> (&Client, T),
        request: Request<Vec<u8>>,
        limit: Duration,
    ) -> Result<(Response<Body>, T), Cause> {
        let deadline = Deadline::after(limit);
        let clients = deadline.of(self.clients()).await?;
        let (client, rest) = by(&clients);
        let opened = self.send(client, request, deadline).await;
        if opened.as_ref().is_err_and(Cause::is_of_connection) {
            self.renew_after(&clients).await;
        }
        let opened = opened.map_err(|cause| match cause {
            Cause::Unreachable { cause, was_open } if !clients.server.is_empty() => {
                Cause::Unreachable { cause: format!("{}: {cause}", clients.server), was_open }
            }
            cause => cause,
        });
        Ok((opened?, rest))
    }

    async fn send(
        &self,
        client: &Client,
        request: Request<Vec<u8>>,
        deadline: Deadline,
    ) -> Result<Response<Body>, Cause> {
        let (method, begun) = (request.method().clone(), Instant::now());
        let sent = async { client.send(request.map(Body::from)).await.map_err(|error| unreachable(&error)) };
        let response = deadline.of(sent).await;
        if let Some(observer) = self.observer.get() {
            let code = response.as_ref().ok().map(|response| response.status().as_u16());
            observer(&method, code, begun.elapsed());
        }
        let response = response?;
        if response.status().is_success() { Ok(response) } else { Err(refusal(response, deadline).await) }
    }
}

/// Returns the error for an answer that is not a success.
async fn refusal(response: Response<Body>, deadline: Deadline) -> Cause {
    let code = response.status().as_u16();
    let retry_after = repeats::retry_after(&response);
    let body = match body(response, deadline, |bytes| at_most(LONGEST_ERROR_BYTES, bytes)).await {
        Ok(body) => body,
        Err(error) => return error,
    };
    match serde_json::from_slice::<TypedStatus>(&body) {
        Ok(TypedStatus { kind, status }) if kind == "Status" && status.code == code => refused(status, retry_after),
        _ => {
            let text = beginning(&String::from_utf8_lossy(&body));
            Cause::Foreign { code, text, retry_after }
        }
    }
}

/// Returns the beginning of an answer. Of a list of checks, those that fail are first.
fn beginning(text: &str) -> String {
    let short = |text: &str| cut_text(text, 80).into_owned();
    let failing: Vec<_> =
        text.lines().filter(|line| line.starts_with(FAILING_CHECK)).map(short).take(MOST_CHECKS).collect();
    if failing.is_empty() { short(text.trim()) } else { failing.join("\n") }
}

/// Returns the error for a `Status` of the API server itself. The header or the status may want a wait.
pub(in crate::kubernetes) fn refused(status: Status, header: Option<Duration>) -> Cause {
    let seconds = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
    let retry_after = header.or_else(|| (seconds > 0).then(|| Duration::from_secs(seconds.into())));
    match status.code {
        403 => Cause::Forbidden(status.message),
        _ => Cause::Refused { status: Box::new(status), retry_after },
    }
}

/// Reads an answer to its end. `may_go_on` receives the number of bytes that were received.
async fn body(
    response: Response<Body>,
    deadline: Deadline,
    mut may_go_on: impl FnMut(usize) -> Result<(), Cause>,
) -> Result<Vec<u8>, Cause> {
    let (mut body, mut whole) = (response.into_body(), Vec::new());
    while let Some(piece) = deadline.of(piece(&mut body)).await? {
        may_go_on(whole.len() + piece.as_ref().len())?;
        whole.extend_from_slice(piece.as_ref());
    }
    Ok(whole)
}

fn at_most(most: usize, bytes: usize) -> Result<(), Cause> {
    if bytes > most { Err(Cause::TooLarge(most)) } else { Ok(()) }
}

// === impl Deadline ===

impl Deadline {
    fn after(limit: Duration) -> Self {
        Self { at: Instant::now() + limit, limit }
    }

    /// Waits until the deadline at most.
    async fn of<T>(self, work: impl Future<Output = Result<T, Cause>>) -> Result<T, Cause> {
        // A server that always has a next byte must not pass the deadline either.
        if Instant::now() > self.at {
            return Err(Cause::Unanswered(self.limit));
        }
        timeout_at(self.at, work).await.unwrap_or_else(|_| Err(Cause::Unanswered(self.limit)))
    }
}

/// Returns the next piece of an answer without a time limit; `None` = the answer has ended.
pub(super) async fn piece(body: &mut Body) -> Result<Option<impl AsRef<[u8]> + use<>>, Cause> {
    loop {
        match body.frame().await {
            None => return Ok(None),
            Some(Err(error)) => return Err(unreachable(&error)),
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
        }
    }
}

/// Returns what was built for a request.
pub(in crate::kubernetes) fn built<T>(built: Result<T, impl Display>) -> Result<T, Cause> {
    built.map_err(|error| Cause::InvalidRequest(error.to_string()))
}

/// Parses an answer.
pub(in crate::kubernetes) fn parsed<T: DeserializeOwned>(answer: &[u8]) -> Result<T, Cause> {
    serde_json::from_slice(answer).map_err(|error| Cause::Unreadable(error.to_string()))
}

fn unreachable(error: &kube::Error) -> Cause {
    Cause::Unreachable { cause: cause_of(error), was_open: !repeats::is_of_connect(error) }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn credentials_on_a_disk_that_hangs_cost_one_limit() {
        let (release, held) = mpsc::channel();
        let held = std::sync::Mutex::new(held);
        let make = move || -> Result<(Client, String), Cause> {
            held.lock().unwrap().recv().unwrap();
            Err(Cause::InvalidRequest("the disk is back".to_owned()))
        };
        let connection = Connection { calls: BoundedCalls::new(Duration::from_millis(50)), ..Connection::by(make) };
        let mut errors = Vec::new();
        for _ in 0..2 {
            errors.push(connection.clients().await.err().unwrap().to_string());
        }
        assert!(errors[0].contains("did not respond") && errors[1].contains("still blocked"), "{errors:?}");
        release.send(()).unwrap();
    }
}
