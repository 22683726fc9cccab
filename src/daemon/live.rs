//! What the socket shows of the passes.

use jiff::Timestamp;

use super::clock::now;
use crate::plan::{Pass, Scope};
use crate::serve::{Live, PassDone, PassEvent, PassState, RunningPass};

/// Shows that a pass begins.
pub(super) fn begun(live: &Live, scope: Scope) {
    let running = RunningPass { since: now(), planned: 0, done: 0 };
    live.update(|state| {
        state.running.insert(name(scope), running);
    });
}

/// Shows that an action ended.
pub(super) fn progressed(live: &Live, scope: Scope, planned: usize) {
    live.update(|state| {
        if let Some(running) = state.running.get_mut(&name(scope)) {
            running.planned = planned;
            running.done += 1;
        }
    });
}

/// Shows the result of a pass.
pub(super) fn ended(live: &Live, scope: Scope, pass: &Pass, next_at: Option<Timestamp>) {
    let result = result(pass, next_at);
    live.update(|state| {
        state.running.remove(&name(scope));
        state.pods = pass.plan.pods.clone();
        if scope != Scope::Containers {
            (state.disks, state.shortfall_bytes) = (pass.plan.disks.clone(), pass.summary.shortfall_bytes);
        }
        state.passes.insert(name(scope), result);
    });
}

fn result(pass: &Pass, next_at: Option<Timestamp>) -> PassState {
    let total = pass.summary.total();
    let errors = pass.plan.errors.iter().map(ToString::to_string);
    let errors = errors.chain(pass.summary.halts.iter().map(ToString::to_string));
    let errors = errors.chain(pass.not_recorded.clone()).collect();
    let freed_bytes = pass.summary.total_measured_bytes();
    let (removed, would_remove, failed) = (total.removed, total.would_remove, total.failed);
    PassState { ended_at: now(), next_at, removed, would_remove, failed, freed_bytes, errors }
}

/// Returns the last event of a requested pass.
pub(super) fn done(pass: Pass, observes: bool) -> PassEvent {
    let Pass { plan, reports, summary, not_recorded, .. } = pass;
    PassEvent::Done(Box::new(PassDone { observes, plan, reports, summary, not_recorded }))
}

fn name(scope: Scope) -> String {
    <&str>::from(scope).to_owned()
}
