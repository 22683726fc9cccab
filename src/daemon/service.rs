//! The service: runs the loops until a signal ends it.

use std::cell::RefCell;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::cycle::Cycle;
use super::planning::PassKind;
use super::pressure::{PressureBackoff, PressureMonitor};
use super::schedule::{self, Job, Limits, PassResult};
use super::signals::Reload;
use crate::config::Intervals;
use crate::execute::Remover;
use crate::plan::{PlanError, Policy, Pressure, Scope};
use crate::record::{Pass, StoreError};

/// The shared state of the loops. A borrow never lasts across an await.
struct Service<'a, H, P, A> {
    cycle: Cycle<H>,
    stop: &'a CancellationToken,
    hold_up: Duration,
    policy: RefCell<P>,
    after: RefCell<A>,
    /// Only the loop for disk pressure uses this.
    relief: Mutex<(PressureMonitor, PressureBackoff)>,
}

/// Runs all loops until `stop`. At a reload request, `policy` returns the policy for all later passes. With `None`, the
/// current policy remains in force, and `policy` has already reported the error. `after` receives the result of each
/// pass and must not delay the next one.
pub async fn run<H: Remover>(
    cycle: Cycle<H>,
    intervals: &Intervals,
    limits: &Limits,
    stop: &CancellationToken,
    reload: Reload,
    policy: impl FnMut() -> Option<Policy>,
    after: impl FnMut(Scope, &Result<Pass, StoreError>),
) {
    let relief = Mutex::new((cycle.monitor(), PressureBackoff::new(intervals)));
    let (policy, after) = (RefCell::new(policy), RefCell::new(after));
    let service = Service { cycle, stop, hold_up: limits.hold_up, policy, after, relief };
    tokio::select! {
        // A reload comes before the pass that is due at the same time.
        biased;
        () = service.reload_rules(reload) => {}
        () = schedule::run(intervals, limits, stop, async |job| service.job(job).await) => {}
    }
    service.cycle.close().await;
}

// === impl Service ===

impl<H, P, A> Service<'_, H, P, A>
where
    H: Remover,
    P: FnMut() -> Option<Policy>,
    A: FnMut(Scope, &Result<Pass, StoreError>),
{
    async fn job(&self, job: Job) -> PassResult {
        let scope = match job {
            Job::Containers => Scope::Containers,
            Job::Images => Scope::Images,
            Job::Pressure => {
                Box::pin(self.relieve()).await;
                return PassResult::Succeeded;
            }
        };
        self.ended(scope, &self.cycle.pass(PassKind::Regular(scope), self.stop, |_, _| {}).await)
    }

    /// Applies the settings at each reload request. Never returns. A pass that runs keeps its rules.
    async fn reload_rules(&self, mut reload: Reload) {
        loop {
            reload.requested().await;
            let policy = (self.policy.borrow_mut())();
            if let Some(policy) = policy {
                self.cycle.set_policy(policy);
            }
        }
    }

    /// Checks the disks for pressure. Under pressure, removes everything unused, unless a recent pass could not reduce
    /// the pressure. The first pass covers the containers, sandboxes and logs of deleted and terminated pods. The
    /// second pass covers unused images, if the image disk is still under pressure. The kubelet uses the same order:
    /// removing images on a separate disk frees no space on another. The pass over images does not wait for containers
    /// whose removal hangs.
    async fn relieve(&self) {
        let mut relief = self.relief.lock().await;
        let (monitor, backoff) = &mut *relief;
        let Some(pressure) = monitor.look(&self.cycle.pressure()).await else { return backoff.relieved() };
        if !backoff.allows(Instant::now()) {
            return;
        }
        let mut containers = Box::pin(self.pass_under(pressure, Scope::Containers));
        let early = timeout(self.hold_up, &mut containers).await.ok();
        let images = Box::pin(self.relieve_images(monitor));
        let removed = if let Some(removed) = early {
            removed + images.await
        } else {
            let (containers, images) = tokio::join!(containers, images);
            containers + images
        };
        backoff.ended(removed, Instant::now());
    }

    /// Removes unused images if their disk is under pressure. Returns how many.
    async fn relieve_images(&self, monitor: &mut PressureMonitor) -> usize {
        match monitor.look_at_images(&self.cycle.pressure()).await {
            Some(pressure) if !self.stop.is_cancelled() => self.pass_under(pressure, Scope::Images).await,
            _ => 0,
        }
    }

    /// Runs a pass under disk pressure. Returns how many objects it removed.
    async fn pass_under(&self, pressure: Pressure, scope: Scope) -> usize {
        tracing::warn!(%scope, %pressure, "disk pressure: removing everything unused");
        let pass = self.cycle.pass(PassKind::Pressure(pressure, scope), self.stop, |_, _| {}).await;
        self.ended(scope, &pass);
        pass.map_or(0, |pass| pass.summary.total().removed)
    }

    fn ended(&self, scope: Scope, pass: &Result<Pass, StoreError>) -> PassResult {
        (self.after.borrow_mut())(scope, pass);
        log_pass(scope, pass)
    }
}

/// Logs the result of a pass, and returns it for the schedule.
fn log_pass(scope: Scope, pass: &Result<Pass, StoreError>) -> PassResult {
    let pass = match pass {
        Ok(pass) => pass,
        Err(error) => {
            tracing::error!(%scope, %error, "pass ended without a record");
            return PassResult::Failed;
        }
    };
    for error in &pass.plan.errors {
        tracing::warn!(%scope, %error, "pass could not do all of its work");
    }
    for halt in &pass.summary.halts {
        tracing::warn!(%scope, %halt, "pass did not begin all actions");
    }
    if let Some(note) = pass.not_recorded() {
        tracing::error!(%scope, %note, "pass is not recorded on disk");
    }
    let total = pass.summary.total();
    tracing::info!(
        %scope,
        removed = total.removed,
        would_remove = (total.would_remove > 0).then_some(total.would_remove),
        refused = total.refused,
        failed = total.failed,
        freed_bytes = pass.summary.total_measured_bytes(),
        kept = pass.plan.kept.len(),
        "pass done"
    );
    passed(pass)
}

/// Returns whether a pass succeeded. A pass whose observation failed, or that ended because the runtime hangs, causes a
/// back-off of its loop. A disk that remains full or an object that cannot be removed does not: each has its own
/// back-off.
fn passed(pass: &Pass) -> PassResult {
    let is_blind = pass.plan.errors.iter().any(|error| matches!(error, PlanError::NotSeen { .. }));
    let is_cut_short = pass.summary.halts.iter().any(|halt| halt.kind.is_none());
    if is_blind || is_cut_short { PassResult::Failed } else { PassResult::Succeeded }
}

#[cfg(test)]
mod tests;
