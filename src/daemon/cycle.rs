//! One pass: look, plan, do, record.
//!
//! The whole program in one function, [`Cycle::pass`]. A dry run takes the same road with other hands and a store that
//! is a copy in memory.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::clock;
use super::node::{self, Node};
use super::pressure::Gauge;
use super::saved::{self, Checked};
use crate::config::Settings;
use crate::cri::RuntimeWriter;
use crate::execute::{ExecuteOptions, Executor, Hands, LiveHands, LogRoots, NoteTaker, Outcome, Report, Stop, Summary};
use crate::model::{Memory, Snapshot};
use crate::observe::{Observer, StatusFor};
use crate::plan::{AgeFrom, Plan, Policy, Pressure, PressurePolicy, Scope, decide, key, remember};
use crate::record::events::Ended;
use crate::record::{RunId, Store, StoreError, Tallies, after_outcomes, note};

/// Everything that a pass needs, for one node.
pub struct Cycle<H> {
    observer: Observer,
    executor: Executor<H>,
    store: Store,
    settings: Settings,
    /// When the agent began to watch.
    started_at: Timestamp,
}

/// What one pass came to.
#[derive(Debug)]
pub struct Pass {
    /// What was planned.
    pub plan: Plan,
    /// What became of it, in order.
    pub reports: Vec<Report>,
    /// The same, counted.
    pub tallies: Tallies,
    /// What a stop left, and how much space is still missing.
    pub summary: Summary,
}

/// A run that was begun and is not ended: what it has come to so far.
struct Underway {
    id: RunId,
    dry: bool,
    reports: Vec<Report>,
    tallies: Tallies,
    trouble: Option<StoreError>,
}

// === impl Pass ===

impl Pass {
    /// How much of what was to stay did stay: images of the reserve may have gone after all.
    pub fn kept(&self) -> usize {
        let is_gone = |report: &&Report| matches!(report.outcome, Outcome::Removed {} | Outcome::AlreadyGone {});
        let gone: HashSet<_> = self.reports.iter().filter(is_gone).map(|report| report.action.key()).collect();
        self.plan.kept.iter().filter(|kept| !gone.contains(&key(kept.kind, &kept.id))).count()
    }
}

impl<'a> From<&'a Pass> for Ended<'a> {
    fn from(pass: &'a Pass) -> Self {
        Self { plan: &pass.plan, tallies: &pass.tallies, summary: &pass.summary }
    }
}

// === impl Cycle ===

impl<H: Hands> Cycle<H> {
    /// Makes one pass. `watch` sees each report as soon as its action ended.
    ///
    /// # Errors
    /// The store cannot be read or written. What was removed until then is in the log.
    pub async fn pass(
        &mut self,
        scope: Scope,
        stop: &Stop,
        watch: impl FnMut(&Plan, &Report),
    ) -> Result<Pass, StoreError> {
        let taken_at = clock::now();
        let memory = self.store.memory(self.started_at)?;
        let (snapshot, plan) = look_and_plan(&self.observer, &self.settings.policy, scope, taken_at, memory).await;
        self.carry_out(&snapshot, plan, Vec::new(), scope, stop, watch).await
    }

    /// Makes one pass in which all goes that nothing needs; the plan and the history tell why.
    ///
    /// # Errors
    /// As [`Self::pass`].
    pub async fn pass_under(
        &mut self,
        pressure: Pressure,
        scope: Scope,
        stop: &Stop,
        watch: impl FnMut(&Plan, &Report),
    ) -> Result<Pass, StoreError> {
        let memory = self.store.memory(self.started_at)?;
        let policy = self.settings.policy.under_pressure();
        let (snapshot, plan) = look_and_plan(&self.observer, &policy, scope, clock::now(), memory).await;
        let plan = Plan { pressure: Some(pressure), ..plan };
        self.carry_out(&snapshot, plan, Vec::new(), scope, stop, watch).await
    }

    /// Carries out a plan that was made before, but for what changed since.
    ///
    /// # Errors
    /// As [`Self::pass`].
    pub async fn pass_saved(
        &mut self,
        plan: Plan,
        stop: &Stop,
        watch: impl FnMut(&Plan, &Report),
    ) -> Result<Pass, StoreError> {
        let memory = self.store.memory(self.started_at)?;
        let policy = &self.settings.policy;
        let (snapshot, fresh) = look_and_plan(&self.observer, policy, Scope::All, clock::now(), memory).await;
        let Checked { plan, refused } = saved::check(plan, &fresh);
        self.carry_out(&snapshot, plan, refused, Scope::All, stop, watch).await
    }

    /// Does what the plan says, each outcome recorded as soon as it is there, and remembers what the pass taught.
    async fn carry_out(
        &mut self,
        snapshot: &Snapshot,
        plan: Plan,
        refused: Vec<Report>,
        scope: Scope,
        stop: &Stop,
        mut watch: impl FnMut(&Plan, &Report),
    ) -> Result<Pass, StoreError> {
        let learnt = remember(snapshot, &self.settings.policy);
        self.store.learn(&snapshot.memory, &learnt)?;
        let mut run = Underway::begin(&mut self.store, snapshot.taken_at, scope, H::IS_DRY)?;
        if let Some(pressure) = &plan.pressure {
            self.store.tell_trigger(run.id, &pressure.to_string())?;
        }
        let mut record = |report: Report| {
            watch(&plan, &report);
            run.record(&mut self.store, report);
        };
        refused.into_iter().for_each(&mut record);
        let summary = self.executor.carry_out(&plan, stop, &mut record).await;
        self.learn_outcomes(&learnt, snapshot.taken_at, &run.reports)?;
        run.end(&mut self.store, plan, summary)
    }

    /// Remembers what the outcomes taught, and forgets old history. What the snapshot taught was remembered before the
    /// first removal, so that a kill in the middle loses neither (I10).
    fn learn_outcomes(&mut self, learnt: &Memory, taken_at: Timestamp, reports: &[Report]) -> Result<(), StoreError> {
        let Settings { policy, state, .. } = &self.settings;
        let after = after_outcomes(learnt, reports, taken_at, policy.guards.retry_after);
        self.store.learn(learnt, &after)?;
        self.store.prune(taken_at, state.history_max_age, state.history_max_rows).map(drop)
    }

    /// When a disk is short, by the rules in force.
    pub fn pressure(&self) -> &PressurePolicy {
        &self.settings.policy.pressure
    }

    /// What measures the disks of this node.
    pub fn gauge(&self) -> Gauge {
        let node = vec![self.settings.policy.logs.pods_root.clone(), self.settings.kubelet_root.clone()];
        Gauge::new(self.executor.reader.clone(), Arc::clone(&self.executor.disks), node)
    }

    /// Takes other rules from the next pass on. The log roots stay: whoever looks at them and whoever removes beneath
    /// them were told at the start.
    pub fn set_policy(&mut self, policy: Policy) {
        let logs = std::mem::take(&mut self.settings.policy.logs);
        self.settings.policy = Policy { logs, ..policy };
        self.executor.options = options(&self.settings, self.executor.options.space_settle);
    }
}

impl Cycle<LiveHands> {
    /// A cycle that removes.
    pub fn live(settings: Settings, node: &Node, store: Store, started_at: Timestamp) -> Self {
        let options = settings.runtime.options.clone();
        let writer = RuntimeWriter::new(&node.endpoint.runtime, &node.endpoint.images, options);
        let hands = LiveHands { writer, roots: roots(&settings) };
        Self::with(hands, settings, node, store, started_at)
    }
}

impl Cycle<NoteTaker> {
    /// A cycle that only takes notes.
    pub fn dry(settings: Settings, node: &Node, store: Store, started_at: Timestamp) -> Self {
        Self::with(NoteTaker::default(), settings, node, store, started_at)
    }
}

impl<H> Cycle<H> {
    fn with(hands: H, settings: Settings, node: &Node, store: Store, started_at: Timestamp) -> Self {
        let reader = node.reader(&settings);
        let observer = node.observer(&settings);
        let (pods, disks) = (Arc::clone(&node.pods), Arc::clone(&node.disks));
        let (roots, options) = (roots(&settings), options(&settings, node.space_settle));
        let executor = Executor { reader, hands, pods, disks, roots, options };
        Self { observer, executor, store, settings, started_at }
    }
}

/// Looks at the node and plans. A pass over images asks for the image volumes of each container that is new to the
/// observer, whether images are to be removed or not: what is mounted now counts as used now in the memory.
pub async fn look_and_plan(
    observer: &Observer,
    policy: &Policy,
    scope: Scope,
    taken_at: Timestamp,
    memory: Memory,
) -> (Snapshot, Plan) {
    let mut snapshot = observer.observe(taken_at, memory).await;
    if policy.containers.age_from == AgeFrom::Finished {
        observer.fill_statuses(&mut snapshot, StatusFor::Ends).await;
    }
    if scope != Scope::Containers {
        observer.fill_statuses(&mut snapshot, StatusFor::ImageVolumes).await;
    }
    let plan = decide(&snapshot, policy, scope);
    (snapshot, plan)
}

fn roots(settings: &Settings) -> LogRoots {
    LogRoots { host_root: settings.host_root.clone(), policy: settings.policy.logs.clone() }
}

/// A pod that is back is looked for, and asked for, where a guard wants proof that it is gone.
fn options(settings: &Settings, space_settle: Duration) -> ExecuteOptions {
    let asks = !settings.policy.guards.gone_after.is_zero();
    let pods = node::beneath(&settings.host_root, &settings.kubelet_root.join("pods"));
    ExecuteOptions {
        kubelet_pods: asks.then_some(pods),
        asks_for_pods: asks,
        keeps_pod_images: settings.policy.guards.keep_pod_images,
        space_settle,
        ..ExecuteOptions::default()
    }
}

// === impl Underway ===

impl Underway {
    fn begin(store: &mut Store, taken_at: Timestamp, scope: Scope, dry: bool) -> Result<Self, StoreError> {
        let id = store.begin_run(taken_at, scope, dry)?;
        Ok(Self { id, dry, reports: Vec::new(), tallies: Tallies::default(), trouble: None })
    }

    /// Writes down one outcome. Trouble with the store does not stop the pass: what is removed is removed, and the log
    /// has it.
    fn record(&mut self, store: &mut Store, report: Report) {
        note(&report, &mut self.tallies);
        if !self.dry {
            self.trouble = self.trouble.take().or(store.record(self.id, clock::now(), &report).err());
        }
        self.reports.push(report);
    }

    fn end(self, store: &mut Store, plan: Plan, summary: Summary) -> Result<Pass, StoreError> {
        let errors: Vec<_> = plan.errors.iter().map(ToString::to_string).collect();
        let error = (!errors.is_empty()).then(|| errors.join("; "));
        store.finish_run(self.id, clock::now(), &self.tallies.total(), error.as_deref())?;
        match self.trouble {
            Some(trouble) => Err(trouble),
            None => Ok(Pass { plan, reports: self.reports, tallies: self.tallies, summary }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cri::{Endpoint, Rule};
    use crate::observe::{HostDisks, NoPods};
    use crate::plan::{Guards, LogPolicy, Profile};

    #[tokio::test]
    async fn other_rules_hold_for_the_rechecks_too_and_the_log_roots_stay() {
        let nowhere = || "unix:///nowhere".to_owned();
        let endpoint = Endpoint { runtime: nowhere(), images: nowhere(), chosen_by: Rule::Flag };
        let node = Node {
            endpoint,
            disks: Arc::new(HostDisks::new("/")),
            pods: Arc::new(NoPods),
            space_settle: Duration::ZERO,
        };
        let mut settings = Settings::default();
        settings.policy.guards = Guards::of(Profile::Kubelet);
        let mut cycle = Cycle::dry(settings, &node, Store::in_memory().unwrap(), Timestamp::UNIX_EPOCH);
        assert_eq!((cycle.executor.options.asks_for_pods, &cycle.executor.options.kubelet_pods), (false, &None));
        let logs = LogPolicy { pods_root: "/elsewhere".into(), ..LogPolicy::default() };
        cycle.set_policy(Policy { logs, ..Policy::default() });
        assert!(cycle.executor.options.asks_for_pods && cycle.executor.options.kubelet_pods.is_some());
        assert_eq!(cycle.settings.policy.logs, LogPolicy::default());
    }
}
