//! Sends the calls of the reader: the limits of time, the attempts after a failure, and the probes.

use std::sync::PoisonError;
use std::time::Duration;

use tonic::Status;

use super::{RuntimeReader, VERSION};
use crate::cri::connect::{Answer, Method, Sent, Socket};
use crate::cri::lists::{self, Received, RuntimeList};
use crate::cri::retry::Retry;
use crate::cri::{CriError, generated as pb};

// === impl RuntimeReader ===

impl RuntimeReader {
    /// Receives a whole list, as a stream if the runtime supports it. Most servers limit a message to 16 MiB, but do
    /// not limit a stream.
    pub(in crate::cri) async fn all<L: RuntimeList>(&self) -> Result<Received<L::Item>, CriError> {
        let not_streamed = || self.not_streamed.lock().unwrap_or_else(PoisonError::into_inner);
        if !not_streamed().contains(L::STREAM.0) {
            let stream = || lists::stream::<L>(self.socket(L::STREAM), self.options.max_message_bytes);
            match self.read(self.options.read_timeout, L::STREAM, stream).await {
                Err(error) if error.is_unimplemented() => drop(not_streamed().insert(L::STREAM.0)),
                list => return list?.checked(L::STREAM, L::id),
            }
        }
        self.some::<L, ()>(()).await
    }

    /// Receives a list in one message.
    pub(super) async fn some<L: RuntimeList, Q: Sent>(&self, request: Q) -> Result<Received<L::Item>, CriError> {
        let (limit, max_bytes) = (self.options.read_timeout, self.options.max_message_bytes);
        let send = || self.socket(L::UNARY).measured::<Q, L>(L::UNARY, request.clone(), max_bytes);
        let (list, bytes) = self.read(limit, L::UNARY, send).await?;
        Received { items: list.into_items().collect(), bytes, streamed: false }.checked(L::UNARY, L::id)
    }

    /// Sends the first call to a service. Its time limit is shorter than that of other calls, so that a runtime that
    /// hangs is reported soon.
    pub(super) async fn first_answer<Q: Sent, A: Answer>(&self, call: Method, request: Q) -> Result<A, CriError> {
        let answer = self.call_within(self.options.first_answer_timeout(), call, request).await;
        answer.map_err(|error| self.as_first(call, error))
    }

    /// Returns the error of a first call.
    fn as_first(&self, method: Method, error: CriError) -> CriError {
        match error {
            CriError::Timeout { call, seconds } => {
                CriError::Unanswered { endpoint: self.socket(method).path().to_path_buf(), call, seconds }
            }
            error => error,
        }
    }

    /// Sends Version to a suspect runtime. An error from the runtime itself counts as an answer.
    pub(super) async fn probe(&self) -> Result<(), CriError> {
        let mut retry = Retry::new(Duration::ZERO);
        loop {
            match self.call_once::<_, pb::VersionResponse>(VERSION, pb::VersionRequest::default()).await {
                Ok(_) | Err(CriError::Call { .. }) => return Ok(()),
                Err(error) if retry.after(&error).is_some() => {}
                Err(error) => return Err(self.as_first(VERSION, error)),
            }
        }
    }

    pub(super) async fn call<Q: Sent, A: Answer>(&self, call: Method, request: Q) -> Result<A, CriError> {
        self.call_within(self.options.read_timeout, call, request).await
    }

    async fn call_within<Q: Sent, A: Answer>(&self, limit: Duration, call: Method, request: Q) -> Result<A, CriError> {
        let max_bytes = self.options.max_message_bytes;
        self.read(limit, call, || self.socket(call).unary(call, request.clone(), max_bytes)).await
    }

    /// Sends a call that a pass can do without: one attempt, with the time limit of the first answer.
    pub(super) async fn call_once<Q: Sent, A: Answer>(&self, call: Method, request: Q) -> Result<A, CriError> {
        let (limit, on) = (self.options.first_answer_timeout(), self.socket(call));
        on.in_time(limit, call, on.unary(call, request, self.options.max_message_bytes)).await
    }

    /// Repeats a call until the runtime answers or [`Retry`] allows no further attempt. `limit` applies to each
    /// attempt.
    async fn read<T, F>(&self, limit: Duration, call: Method, attempt: impl Fn() -> F) -> Result<T, CriError>
    where
        F: Future<Output = Result<T, Status>>,
    {
        let mut retry = Retry::new(self.breaker.patience(call, self.options.patience));
        let is_version = call.0 == VERSION.0;
        loop {
            if !is_version {
                let admitted = self.breaker.admit(call, self.probe()).await;
                admitted.map_err(|cause| CriError::NotSent { call: call.name(), cause })?;
            }
            let error = match tokio::time::timeout(limit, attempt()).await {
                Ok(Ok(answer)) => {
                    if is_version {
                        self.breaker.answered();
                    }
                    return Ok(answer);
                }
                Ok(Err(status)) => self.socket(call).error(call, status),
                Err(_) => self.breaker.unanswered(call, limit),
            };
            let Some(wait) = retry.after(&error) else {
                if error.is_away() {
                    self.breaker.waited_in_vain(call);
                }
                return Err(error);
            };
            tokio::time::sleep(wait).await;
        }
    }

    /// Returns the socket of the service that has a method.
    pub(in crate::cri) fn socket(&self, method: Method) -> &Socket {
        if method.is_of_images() { &self.images } else { &self.runtime }
    }
}
