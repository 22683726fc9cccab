//! Decides one pass: the steps in the kubelet's order.

use super::containers::{self, sandboxes};
use super::document::Plan;
use super::policy::{Policy, Scope};
use super::step::{Context, Step};
use super::{images, leftover, logs};
use crate::model::Snapshot;

pub fn decide(snapshot: &Snapshot, policy: &Policy, scope: Scope) -> Plan {
    let context = Context::new(snapshot, policy);
    let mut step = Step::first(&context);
    steps(&mut step, scope);
    step.into_plan()
}

/// Decides the steps of `scope`.
pub(super) fn steps(step: &mut Step, scope: Scope) {
    if scope != Scope::Images {
        containers::decide(step);
        sandboxes::decide(step);
        logs::decide(step);
        leftover::decide(step);
    }
    if scope != Scope::Containers {
        leftover::decide_unreferenced(step);
        images::decide(step);
    }
    step.plan.rules = step.context.rules.notes();
}
