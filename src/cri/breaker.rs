//! A circuit breaker: a runtime that hangs causes one timeout, not one timeout per call.
//!
//! After a call without an answer, the runtime is suspect. Before the next read call it must answer a probe: Version
//! within `answer_timeout`. If the probe has no answer, the call is not sent. Removals never wait for a probe, because
//! the recheck before them would no longer be fresh. The passes of an agent share the suspicion, and only one of them
//! sends the probe at a time.
//!
//! A runtime can answer the probe and hang in other calls. A [limited](Breaker::limited) reader therefore sends no more
//! calls of a method after a number of its calls had no answer. It also waits for an unavailable runtime only once per
//! method. So the total timeout of a stage of a pass does not grow with the number of objects.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tonic::Status;

use super::connect::{Method, Socket};
use super::generated as pb;
use super::retry::Retry;
use super::{CriError, CriOptions};

pub(super) const VERSION: Method = Method("/runtime.v1.RuntimeService/Version");

/// The breaker of one runtime. Clones share the suspicion, and the limits of the stage if there is one.
#[derive(Clone, Debug)]
pub struct Breaker {
    runtime: Socket,
    /// The time limit of a probe.
    answer_timeout: Duration,
    max_bytes: usize,
    shared: Arc<Shared>,
    stage: Option<Arc<Mutex<Stage>>>,
}

#[derive(Debug, Default)]
struct Shared {
    is_suspect: AtomicBool,
    probing: tokio::sync::Mutex<()>,
}

/// The state of one stage of a pass.
#[derive(Debug)]
struct Stage {
    /// The number of calls of a method that may remain without an answer.
    most_unanswered: u32,
    unanswered: HashMap<&'static str, u32>,
    /// Methods that waited for an unavailable runtime without success.
    impatient: HashSet<&'static str>,
    /// Why a probe failed. The stage then sends no more calls.
    ended_by: Option<String>,
}

// === impl Breaker ===

impl Breaker {
    pub(super) fn new(runtime: &Socket, options: &CriOptions) -> Self {
        let answer_timeout = options.first_answer_timeout();
        let max_bytes = options.max_message_bytes;
        Self { runtime: runtime.clone(), answer_timeout, max_bytes, shared: Arc::default(), stage: None }
    }

    /// Returns the same breaker for one stage of a pass. `most_unanswered` limits the calls of each method that may
    /// remain without an answer. A failed probe ends the stage.
    #[must_use]
    pub fn limited(&self, most_unanswered: u32) -> Self {
        let (unanswered, impatient) = (HashMap::new(), HashSet::new());
        let stage = Stage { most_unanswered, unanswered, impatient, ended_by: None };
        Self { stage: Some(Arc::new(Mutex::new(stage))), ..self.clone() }
    }

    /// Waits for an answer within `limit`. The inner error comes from the runtime or the connection. The outer error
    /// means that there was no answer, or that nothing was sent.
    pub(super) async fn call<T>(
        &self,
        call: Method,
        limit: Duration,
        attempt: impl Future<Output = Result<T, Status>>,
    ) -> Result<Result<T, Status>, CriError> {
        let is_probe = call.0 == VERSION.0;
        if !is_probe {
            let call = call.name();
            self.admit(call).await.map_err(|cause| CriError::NotSent { call, cause })?;
        }
        match tokio::time::timeout(limit, attempt).await {
            Ok(answer) => {
                if is_probe && answer.is_ok() {
                    self.shared.is_suspect.store(false, Ordering::SeqCst);
                }
                Ok(answer)
            }
            Err(_) => Err(self.unanswered(call, limit)),
        }
    }

    /// Records a call without an answer and returns the error for it.
    pub(super) fn unanswered(&self, call: Method, limit: Duration) -> CriError {
        self.shared.is_suspect.store(true, Ordering::SeqCst);
        if let Some(mut stage) = self.stage() {
            *stage.unanswered.entry(call.name()).or_default() += 1;
        }
        CriError::Timeout { call: call.name(), seconds: limit.as_secs() }
    }

    /// Checks that the runtime answers, with a probe if it is suspect.
    ///
    /// # Errors
    /// The cause of the hang: the runtime does not answer the probe, or did not answer one in this stage.
    pub async fn check(&self) -> Result<(), String> {
        self.admit(VERSION.name()).await
    }

    /// Returns how long a call waits for an unavailable runtime. `patience` is the limit for each call.
    pub(super) fn patience(&self, call: Method, patience: Duration) -> Duration {
        let is_impatient = self.stage().is_some_and(|stage| stage.impatient.contains(call.name()));
        if is_impatient { Duration::ZERO } else { patience }
    }

    /// Records that a call waited for an unavailable runtime without success.
    pub(super) fn waited_in_vain(&self, call: Method) {
        if let Some(mut stage) = self.stage() {
            stage.impatient.insert(call.name());
        }
    }

    /// # Errors
    /// Why a call of this method is not sent.
    async fn admit(&self, call: &'static str) -> Result<(), String> {
        if !self.needs_probe(call)? {
            return Ok(());
        }
        let _turn = self.shared.probing.lock().await;
        // Another call may have sent the probe while this call waited for the lock.
        if !self.needs_probe(call)? {
            return Ok(());
        }
        let probed = self.probe().await.map_err(|error| error.to_string());
        match &probed {
            Ok(()) => self.shared.is_suspect.store(false, Ordering::SeqCst),
            Err(cause) => self.end_stage(cause),
        }
        probed
    }

    /// # Errors
    /// Why the stage sends no call of this method.
    fn needs_probe(&self, call: &'static str) -> Result<bool, String> {
        if let Some(stage) = self.stage() {
            stage.allows(call)?;
        }
        Ok(self.shared.is_suspect.load(Ordering::SeqCst))
    }

    fn end_stage(&self, cause: &str) {
        if let Some(mut stage) = self.stage() {
            stage.ended_by = Some(cause.to_owned());
        }
    }

    /// Sends Version. An error from the runtime itself counts as an answer.
    async fn probe(&self) -> Result<(), CriError> {
        let mut retry = Retry::new(Duration::ZERO);
        loop {
            let sent =
                self.runtime.unary::<_, pb::VersionResponse>(VERSION, pb::VersionRequest::default(), self.max_bytes);
            let error = match tokio::time::timeout(self.answer_timeout, sent).await {
                Ok(Ok(_)) => return Ok(()),
                Ok(Err(status)) => self.runtime.error(VERSION, status),
                Err(_) => self.mute(),
            };
            match error {
                CriError::Call { .. } => return Ok(()),
                error if retry.after(&error).is_some() => {}
                error => return Err(error),
            }
        }
    }

    fn mute(&self) -> CriError {
        let (endpoint, seconds) = (self.runtime.path().to_path_buf(), self.answer_timeout.as_secs());
        CriError::Unanswered { endpoint, call: VERSION.name(), seconds }
    }

    fn stage(&self) -> Option<MutexGuard<'_, Stage>> {
        self.stage.as_ref().map(|stage| stage.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

// === impl Stage ===

impl Stage {
    /// # Errors
    /// Why a call is not sent.
    fn allows(&self, call: &'static str) -> Result<(), String> {
        if let Some(cause) = &self.ended_by {
            return Err(cause.clone());
        }
        let unanswered = self.unanswered.get(call).copied().unwrap_or_default();
        if unanswered >= self.most_unanswered {
            return Err(format!("{unanswered} earlier calls of this pass had no answer"));
        }
        Ok(())
    }
}
