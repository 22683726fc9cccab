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

use super::CriError;
use super::connect::Method;

/// The breaker of one runtime. Clones share the suspicion, and the limits of the stage if there is one.
#[derive(Clone, Debug, Default)]
pub struct Breaker {
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
    /// Returns the same breaker for one stage of a pass. `most_unanswered` limits the calls of each method that may
    /// remain without an answer. A failed probe ends the stage.
    pub fn limited(&self, most_unanswered: u32) -> Self {
        let (unanswered, impatient) = (HashMap::new(), HashSet::new());
        let stage = Stage { most_unanswered, unanswered, impatient, ended_by: None };
        Self { stage: Some(Arc::new(Mutex::new(stage))), ..self.clone() }
    }

    /// Records a call without an answer and returns the error for it.
    pub fn unanswered(&self, call: Method, limit: Duration) -> CriError {
        self.shared.is_suspect.store(true, Ordering::SeqCst);
        if let Some(mut stage) = self.stage() {
            *stage.unanswered.entry(call.name()).or_default() += 1;
        }
        CriError::Timeout { call: call.name(), seconds: limit.as_secs() }
    }

    /// Records an answer to Version.
    pub fn answered(&self) {
        self.shared.is_suspect.store(false, Ordering::SeqCst);
    }

    /// Returns how long a call waits for an unavailable runtime. `patience` is the limit for each call.
    pub fn patience(&self, call: Method, patience: Duration) -> Duration {
        let is_impatient = self.stage().is_some_and(|stage| stage.impatient.contains(call.name()));
        if is_impatient { Duration::ZERO } else { patience }
    }

    /// Records that a call waited for an unavailable runtime without success.
    pub fn waited_in_vain(&self, call: Method) {
        if let Some(mut stage) = self.stage() {
            stage.impatient.insert(call.name());
        }
    }

    /// Waits until a call of this method may be sent: at once, or after `probe` if the runtime is suspect.
    ///
    /// # Errors
    /// Why it is not sent.
    pub async fn admit(&self, call: Method, probe: impl Future<Output = Result<(), CriError>>) -> Result<(), String> {
        if !self.needs_probe(call)? {
            return Ok(());
        }
        let _turn = self.shared.probing.lock().await;
        // Another call may have sent the probe while this call waited for the lock.
        if !self.needs_probe(call)? {
            return Ok(());
        }
        let probed = probe.await.map_err(|error| error.to_string());
        match &probed {
            Ok(()) => self.answered(),
            Err(cause) => self.end_stage(cause),
        }
        probed
    }

    /// # Errors
    /// Why the stage sends no call of this method.
    fn needs_probe(&self, call: Method) -> Result<bool, String> {
        if let Some(stage) = self.stage() {
            stage.allows(call.name())?;
        }
        Ok(self.shared.is_suspect.load(Ordering::SeqCst))
    }

    fn end_stage(&self, cause: &str) {
        if let Some(mut stage) = self.stage() {
            stage.ended_by = Some(cause.to_owned());
        }
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
