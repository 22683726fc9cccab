//! The service: runs the loops until a signal or a reload ends them.
//!
//! A reload ends the loops and begins them again, as a stop and a start without a restart of the process: passes
//! finish the actions in progress, and each pass has one policy from its start to its end. The lock, the store, the
//! connection with its watch, and the removals without an answer stay. Only what the agent holds or listens on from
//! its start needs a restart.
//!
//! A shutdown takes at most 86 s: the actions in progress have 60 s, the passes 75 s, the store 10 s to close, and
//! events one more. `TimeoutStopSec` and `terminationGracePeriodSeconds` are 90 s. A removal without an answer by
//! then is recorded as failed and left to the runtime.

use std::cell::RefCell;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{Mutex, Notify, mpsc, watch};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::clock::now;
use super::cycle::Cycle;
use super::cycle::planning::PassKind;
use super::pressure::{PressureBackoff, PressureMonitor};
use super::process::signals::Reload;
use super::schedule::{self, Job, Limits, PassResult};
use super::{policies, publisher};
use crate::fleet::PauseCause;
use crate::plan::{Pass, Plan, Pressure, PressurePolicy, Report, Scope};
use crate::record::{Store, log_pass};
use crate::serve::{Inbox, Live, Order, PassEvent, PassRequest, Progress};

/// The name of a requested pass in [`Progress`].
const REQUESTED: &str = "requested pass";

/// The time between two accounts of the disks. The store of a large node takes a second to read, and walks 3 s each.
const ACCOUNT_INTERVAL: Duration = Duration::from_mins(15);

/// The shared state of the loops. A borrow never lasts across an await.
struct Service<'a, A> {
    cycle: Cycle,
    stop: &'a CancellationToken,
    hold_up: Duration,
    after: RefCell<A>,
    live: Live,
    /// The number of scheduled passes that run.
    running: watch::Sender<usize>,
    /// Notified when a pass over images has succeeded.
    images_passed: Notify,
    /// Only the loop for disk pressure uses this.
    relief: Mutex<(PressureMonitor, PressureBackoff)>,
}

/// What the service does besides its schedule.
#[derive(Debug)]
pub struct Requests {
    /// Requests to reload the settings.
    pub reload: Reload,
    /// Requests for passes, and what the socket shows.
    pub inbox: Inbox,
    pub progress: Progress,
}

/// Runs all loops until `stop`, or until `reload` returns other settings: it is called at each request for a reload, and
/// reports its errors itself. The passes that run finish the actions in progress, as at a shutdown, so that every pass has one
/// policy. Returns the store, and the result of `reload`; `None` = stopped. `after` receives the result of each pass and
/// must not delay the next one.
pub async fn run<T>(
    cycle: Cycle,
    limits: &Limits,
    stop: &CancellationToken,
    requests: &mut Requests,
    reload: impl FnMut() -> Option<T>,
    after: impl FnMut(&Pass),
) -> (Store, Option<T>) {
    let Requests { reload: requested, inbox: Inbox { live, orders }, progress } = requests;
    let (intervals, ends) = (cycle.settings().intervals.clone(), stop.child_token());
    let relief = Mutex::new((cycle.monitor(), PressureBackoff::new(&intervals)));
    let (after, live, running) = (RefCell::new(after), live.clone(), watch::Sender::new(0));
    let (hold_up, images_passed) = (limits.hold_up, Notify::new());
    let service = Service { cycle, stop: &ends, hold_up, after, live, running, images_passed, relief };
    let reloaded = {
        let scheduled = schedule::run(&intervals, limits, &ends, progress, async |job| service.job(job).await);
        let orders = service.take_orders(orders, limits, progress);
        let mut loops = Box::pin(async {
            let beside = async { tokio::join!(service.take_accounts(), service.follow_logs(), service.take_part()) };
            tokio::join!(scheduled, orders, beside)
        });
        tokio::select! {
            // A reload comes before the pass that is due at the same time.
            biased;
            reloaded = requested.accepted(reload) => {
                ends.cancel();
                loops.await;
                Some(reloaded)
            }
            _ = &mut loops => None,
        }
    };
    (service.cycle.into_store(), reloaded)
}

// === impl Service ===

impl<A> Service<'_, A>
where
    A: FnMut(&Pass),
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
        let pass = self.scheduled(PassKind::Scheduled(scope)).await;
        self.ended(&pass)
    }

    /// Checks the disks for pressure. Under pressure, removes what ends it, unless a recent pass could not reduce
    /// the pressure. What is worth least goes first, and the disks are measured in between: unused images, if their disk is
    /// under pressure; the containers and sandboxes of deleted and terminated pods, without the logs of the latter; the images
    /// that these used; at last those logs.
    async fn relieve(&self) {
        if matches!(self.shown_suspension().await, Some(PauseCause::Paused(_) | PauseCause::Observes(_))) {
            return;
        }
        let mut relief = self.relief.lock().await;
        let (monitor, backoff) = &mut *relief;
        let Some(pressure) = monitor.check(self.pressure()).await else { return backoff.relieved() };
        if !backoff.allows(Instant::now()) {
            return;
        }
        tracing::warn!(%pressure, "disk pressure: removing unused objects");
        // Images on a disk of their own free no space on another.
        let mut removed = self.relieve_images(monitor).await;
        if let Some(pressure) = monitor.check(self.pressure()).await {
            removed += Box::pin(self.relieve_containers(monitor, pressure)).await;
        }
        if let Some(pressure) = monitor.check(self.pressure()).await {
            removed += self.pass_under(PassKind::LastResort(pressure)).await;
        }
        backoff.ended(removed, Instant::now());
    }

    /// Returns why scheduled passes remove nothing now, shows it on the socket, and logs when it changes.
    async fn shown_suspension(&self) -> Option<PauseCause> {
        let suspension = self.cycle.suspension().await;
        let cause = suspension.as_ref().map(ToString::to_string);
        let before = self.live.swap_suspended(cause.as_deref());
        match &cause {
            now if *now == before => {}
            Some(cause) => tracing::warn!(cause, "removals are suspended"),
            None => tracing::info!("removals are resumed"),
        }
        suspension
    }

    /// Removes what deleted and terminated pods left, and then unused images. The pass over images does not wait for containers
    /// whose removal hangs. Returns the number of removed objects.
    async fn relieve_containers(&self, monitor: &mut PressureMonitor, pressure: Pressure) -> usize {
        let mut containers = Box::pin(self.pass_under(PassKind::Pressure(pressure, Scope::Containers)));
        let early = timeout(self.hold_up, &mut containers).await.ok();
        let images = Box::pin(self.relieve_images(monitor));
        if let Some(removed) = early {
            return removed + images.await;
        }
        let (containers, images) = tokio::join!(containers, images);
        containers + images
    }

    /// Removes unused images if their disk is under pressure. Returns how many.
    async fn relieve_images(&self, monitor: &mut PressureMonitor) -> usize {
        match monitor.check_images(self.pressure()).await {
            Some(pressure) => self.pass_under(PassKind::Pressure(pressure, Scope::Images)).await,
            _ => 0,
        }
    }

    fn pressure(&self) -> &PressurePolicy {
        &self.cycle.settings().policy.pressure
    }

    /// Runs a pass under disk pressure. Returns how many objects it removed.
    async fn pass_under(&self, kind: PassKind) -> usize {
        if self.stop.is_cancelled() {
            return 0;
        }
        let pass = self.scheduled(kind).await;
        self.ended(&pass);
        pass.summary.total().removed
    }

    fn ended(&self, pass: &Pass) -> PassResult {
        (self.after.borrow_mut())(pass);
        log_pass(pass);
        let is_success = pass.is_success();
        if pass.scope != Scope::Containers && is_success {
            self.images_passed.notify_one();
        }
        // A failed pass causes a back-off of its loop.
        let result = if is_success { PassResult::Succeeded } else { PassResult::Failed };
        let intervals = &self.cycle.settings().intervals;
        let interval = match pass.scope {
            Scope::Images => intervals.images,
            Scope::Containers | Scope::All => intervals.containers,
        };
        let next_at =
            (result == PassResult::Succeeded).then(|| now().saturating_add(interval).unwrap_or(Timestamp::MAX));
        self.live.update(|status| status.set_passed(pass, next_at));
        result
    }

    async fn scheduled(&self, kind: PassKind) -> Pass {
        self.running.send_modify(|running| *running += 1);
        let pass = self.shown(kind, |_, _| {}).await;
        self.running.send_modify(|running| *running -= 1);
        pass
    }

    /// Runs a pass, and shows its progress on the socket.
    async fn shown(&self, kind: PassKind, mut watch: impl FnMut(&Plan, &Report) + Send) -> Pass {
        let (scope, shown) = (kind.scope(), self.live.clone());
        shown.update(|status| status.set_begun(scope, now()));
        let watch = move |plan: &Plan, report: &Report| {
            shown.update(|status| status.set_progress(scope, plan.actions.len()));
            watch(plan, report);
        };
        self.cycle.pass(kind, self.stop, watch).await
    }

    /// Takes the account of the disks after passes over images, until `stop`. No pass waits for it.
    async fn take_accounts(&self) {
        let take = async {
            while self.cycle.has_account() {
                self.images_passed.notified().await;
                if Box::pin(self.cycle.take_account()).await {
                    tracing::debug!("account of the disks taken");
                    sleep(ACCOUNT_INTERVAL).await;
                }
            }
        };
        self.stop.run_until_cancelled(take).await;
    }

    /// Archives logs between passes, until `stop`.
    async fn follow_logs(&self) {
        self.stop.run_until_cancelled(self.cycle.follow_logs()).await;
    }

    /// Follows the policies of the cluster, and shows the node there, until `stop`.
    async fn take_part(&self) {
        let settings = self.cycle.settings();
        let status = async || publisher::status(&self.cycle, &self.live).await;
        let part = async {
            tokio::join!(policies::follow(settings, self.cycle.received()), publisher::publish(settings, status))
        };
        self.stop.run_until_cancelled(Box::pin(part)).await;
    }

    /// Makes the passes that commands request, one after the other, until `stop`. The pass in progress has the same time
    /// to end as those of the schedule.
    async fn take_orders(&self, orders: &mut mpsc::Receiver<Order>, limits: &Limits, progress: &Progress) {
        loop {
            let order = tokio::select! {
                biased;
                () = self.stop.cancelled() => return,
                order = orders.recv() => order,
            };
            let Some(order) = order else { return };
            tokio::select! {
                () = progress.watch(REQUESTED, limits.stall, Box::pin(self.carry_out(order))) => {}
                () = async { self.stop.cancelled().await; tokio::time::sleep(limits.shutdown).await } => return,
            }
        }
    }

    /// Makes a requested pass. It waits for a scheduled pass that runs, so that both do not remove the same objects, but
    /// not for one that hangs.
    async fn carry_out(&self, order: Order) {
        let Order { request: PassRequest { scope, pressure, plan }, events } = order;
        let mut running = self.running.subscribe();
        let _ = timeout(self.hold_up, running.wait_for(|running| *running == 0)).await;
        tracing::info!(?scope, pressure, saved_plan = plan.is_some(), "pass requested by a command");
        let kind = match plan {
            Some(plan) => PassKind::Saved(plan),
            None => PassKind::of(pressure.then_some(Pressure::Requested {}), scope),
        };
        let sink = events.clone();
        let watch = move |plan: &Plan, report: &Report| {
            let report = Box::new(report.clone());
            let _ = sink.send(PassEvent::Report { planned: plan.actions.len(), report });
        };
        let pass = self.shown(kind, watch).await;
        self.ended(&pass);
        // A command that was interrupted no longer listens.
        let _ = events.send(PassEvent::Done { observes: self.cycle.is_dry(), pass: Box::new(pass) });
    }
}

#[cfg(test)]
mod tests;
