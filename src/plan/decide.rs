//! Decides one pass: the steps in the kubelet's order.

use super::containers::{self, sandboxes};
use super::document::Plan;
use super::plan_builder::{Context, PlanBuilder};
use super::policy::{Policy, Scope};
use super::{images, logs};
use crate::model::Snapshot;

/// Decides one pass.
pub fn decide(snapshot: &Snapshot, policy: &Policy, scope: Scope) -> Plan {
    let context = Context::new(snapshot, policy);
    let mut builder = PlanBuilder::default();
    steps(&context, &mut builder, scope);
    builder.into_plan(snapshot, policy)
}

/// Decides the steps of `scope`.
pub(super) fn steps<'a>(context: &Context<'a>, builder: &mut PlanBuilder<'a>, scope: Scope) {
    if scope != Scope::Images {
        containers::decide(context, builder);
        sandboxes::decide(context, builder);
        logs::decide(context, builder);
    }
    if scope != Scope::Containers {
        images::decide(context, builder);
    }
    builder.rules = context.rules.notes();
}
