//! The service: its loops, until a signal ends it.

use std::time::Duration;

use tokio::time::Instant;

use super::cycle::{Cycle, Pass};
use super::pressure::{Gauge, Restraint};
use super::schedule::{self, Job, Passed};
use super::signals::Reload;
use crate::config::Intervals;
use crate::execute::{LiveHands, Stop};
use crate::plan::{PlanError, Policy, Scope};
use crate::record::StoreError;

/// How long a call of the service waits for a runtime that is away, as for one that restarts.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Runs all loops until `stop`. At a wish to reload, `policy` is asked for the rules from then on; what it answers with
/// `None` was told already, and the rules stay. `after` sees what each pass came to, and does not keep the next waiting.
pub async fn run(
    mut cycle: Cycle<LiveHands>,
    intervals: &Intervals,
    stop: &Stop,
    mut reload: Reload,
    mut policy: impl FnMut() -> Option<Policy>,
    mut after: impl FnMut(Scope, &Result<Pass, StoreError>),
) {
    let (mut gauge, mut restraint) = (cycle.gauge(), Restraint::new(intervals));
    schedule::run(intervals, stop, async |job| {
        if reload.is_requested()
            && let Some(policy) = policy()
        {
            cycle.set_policy(policy);
        }
        let scope = match job {
            Job::Containers => Scope::Containers,
            Job::Images => Scope::Images,
            Job::Pressure => {
                relieve(&mut cycle, &mut gauge, &mut restraint, stop, &mut after).await;
                return Passed::Well;
            }
        };
        let pass = cycle.pass(scope, stop, |_, _| {}).await;
        after(scope, &pass);
        tell(scope, &pass)
    })
    .await;
}

/// Looks whether a disk is short and, if so and not in vain a moment ago, takes all that nothing needs: what pods left
/// behind first; then, if the disk of the images is short still, every unused image, of which that may have freed some.
/// So the kubelet does it too: images on a disk of their own make no room on another.
async fn relieve(
    cycle: &mut Cycle<LiveHands>,
    gauge: &mut Gauge,
    restraint: &mut Restraint,
    stop: &Stop,
    after: &mut impl FnMut(Scope, &Result<Pass, StoreError>),
) {
    let Some(mut pressure) = gauge.look(cycle.pressure()).await else { return restraint.relieved() };
    if !restraint.allows(Instant::now()) {
        return;
    }
    let mut removed = 0;
    for scope in [Scope::Containers, Scope::Images] {
        tracing::warn!(?scope, %pressure, "a disk is short, so everything goes that nothing needs");
        let pass = cycle.pass_under(pressure, scope, stop, |_, _| {}).await;
        after(scope, &pass);
        tell(scope, &pass);
        removed += pass.map_or(0, |pass| pass.tallies.total().removed);
        match gauge.look_at_images(cycle.pressure()).await {
            Some(still) if !stop.is_set() => pressure = still,
            _ => break,
        }
    }
    restraint.ended(removed, Instant::now());
}

/// Tells how a pass went.
fn tell(scope: Scope, pass: &Result<Pass, StoreError>) -> Passed {
    let pass = match pass {
        Ok(pass) => pass,
        Err(error) => {
            tracing::error!(?scope, %error, "pass ended without a record");
            return Passed::Badly;
        }
    };
    for error in &pass.plan.errors {
        tracing::warn!(?scope, %error, "pass could not do all of its work");
    }
    if let Some(note) = pass.not_recorded() {
        tracing::error!(?scope, %note, "pass is not recorded on disk");
    }
    let total = pass.tallies.total();
    tracing::info!(
        ?scope,
        removed = total.removed,
        refused = total.refused,
        failed = total.failed,
        freed_bytes = total.freed_bytes,
        kept = pass.plan.kept.len(),
        "pass done"
    );
    passed(pass)
}

/// A pass that saw nothing waits longer, so that nothing spins while the runtime is away. A disk that stays full or an
/// object that cannot be removed is looked at in the ordinary rhythm: they have their own ways to wait.
fn passed(pass: &Pass) -> Passed {
    let blind = pass.plan.errors.iter().any(|error| matches!(error, PlanError::NotSeen { .. }));
    if blind { Passed::Badly } else { Passed::Well }
}
