//! What the socket shows of the passes.

use jiff::Timestamp;

use super::clock::now;
use crate::plan::{Pass, Scope};
use crate::serve::{Live, PassState, RunningPass};

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
pub(super) fn ended(live: &Live, pass: &Pass, next_at: Option<Timestamp>) {
    let scope = pass.scope;
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
    let errors = pass.errors().chain(pass.not_recorded.clone()).collect();
    let freed_bytes = pass.summary.total_measured_bytes();
    let (removed, would_remove, failed) = (total.removed, total.would_remove, total.failed);
    PassState { ended_at: pass.ended_at, next_at, removed, would_remove, failed, freed_bytes, errors }
}

fn name(scope: Scope) -> String {
    <&str>::from(scope).to_owned()
}
