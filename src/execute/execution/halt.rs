//! The conditions that end a pass, or its removals of one kind, before all actions have begun (I14).
//!
//! After a call without an answer, the runtime must answer a probe before the next action. Otherwise the pass ends. If
//! the runtime answers probes but removals hang, two actions of one kind without an answer end the removals of that
//! kind. Other kinds continue (I13). For images, one removal without an answer is enough: its space was not measured,
//! so kubegc would remove more images than needed (I9).
//!
//! Objects whose removal failed have a back-off (`plan::after_outcomes`), so the next pass begins with other objects.

use tokio::time::Instant;

use super::{Run, State};
use crate::cri::CriError;
use crate::execute::action_result::ExecuteError;
use crate::plan::{Halt, Kind};

/// The number of actions of one kind without an answer that ends the removals of that kind.
const MOST_UNANSWERED: u32 = 2;

// === impl Run ===

impl Run<'_> {
    /// Returns whether an action of this kind may begin. Halts the pass if the runtime does not answer.
    pub(in crate::execute) async fn may_begin(&self, kind: Kind) -> bool {
        if self.stop.is_cancelled() || self.state().halt_of(kind).is_some() || self.is_suspended().await {
            return false;
        }
        if let Err(cause) = self.exec.reader.check_suspicion().await {
            self.state().halt(None, cause);
            return false;
        }
        true
    }

    /// Returns whether removals are suspended, and notes why. A dry run goes on.
    pub(super) async fn is_suspended(&self) -> bool {
        let cause = self.exec.gate.closed_by().await;
        let is_suspended = cause.is_some() && !self.exec.is_dry();
        self.state().summary.suspended = cause;
        is_suspended
    }

    /// Counts an action that was not begun.
    pub(in crate::execute) fn not_begun(&self, kind: Kind) {
        let mut state = self.state();
        state.summary.not_begun += 1;
        if let Some(halt) = state.halt_of(kind) {
            halt.not_begun += 1;
        }
    }

    /// Counts an action without an answer. Halts its kind at the limit. Actions in flight at the same time count once: they
    /// waited for the same answer.
    pub(in crate::execute) fn note_hang(&self, kind: Kind, begun: Instant, error: &ExecuteError) {
        let ExecuteError::CallRuntime(hang) = error else { return };
        if !hang.is_hang() {
            return;
        }
        let mut state = self.state();
        let (count, last) = state.unanswered.entry(kind).or_default();
        if last.is_some_and(|last| begun < last) {
            return;
        }
        *count += 1;
        *last = Some(Instant::now());
        let is_unmeasured = matches!(hang, CriError::Timeout { call: "RemoveImage", .. });
        if *count >= MOST_UNANSWERED || is_unmeasured {
            state.halt(Some(kind), error.to_string());
        }
    }
}

// === impl State ===

impl State {
    /// Halts a kind, or the whole pass, unless an action in flight at the same time did.
    fn halt(&mut self, kind: Option<Kind>, cause: String) {
        if !self.summary.halts.iter().any(|halt| halt.kind == kind) {
            self.summary.halts.push(Halt { kind, cause, not_begun: 0 });
        }
    }

    fn halt_of(&mut self, kind: Kind) -> Option<&mut Halt> {
        self.summary.halts.iter_mut().find(|halt| halt.kind.is_none_or(|halted| halted == kind))
    }
}
