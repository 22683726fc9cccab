//! One GC pass: observe, plan, execute, record.
//!
//! [`Cycle::pass`] contains the whole sequence. A dry run uses the same code with another remover and an in-memory copy
//! of the store.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;

use super::clock::{self, Clock};
use super::node::LocalNode;
use super::pressure::PressureMonitor;
use super::revalidate::{self, Checked};
use crate::config::Settings;
use crate::cri::{RuntimeReader, RuntimeWriter};
use crate::execute::{
    DryRun, ExecuteOptions, Executor, LiveRemover, LogRoots, Outcome, Remover, Report, Stop, Summary,
};
use crate::model::{Memory, PodSourceName, Snapshot};
use crate::observe::{Observer, StatusFor};
use crate::plan::{AgeFrom, Kind, Plan, Policy, Pressure, PressurePolicy, Scope, decide, key, update_memory};
use crate::record::events::Ended;
use crate::record::{RunId, Store, StoreError, StoreNote, Tallies, after_outcomes, note};

/// Runs GC passes on one node. Passes can overlap.
pub struct Cycle<H> {
    observer: Observer,
    /// The settings in force. A pass uses the same settings from its start to its end.
    rules: Mutex<Arc<Rules<H>>>,
    /// Locked for one operation at a time, never while a pass waits.
    store: Mutex<Store>,
    /// The start of the agent's observations.
    started_at: Timestamp,
    clock: Clock,
}

/// The settings, and the executor that follows them.
#[derive(Clone)]
struct Rules<H> {
    settings: Settings,
    executor: Executor<H>,
}

/// A plan before its execution, with the snapshot that it is based on.
struct Planned {
    scope: Scope,
    snapshot: Snapshot,
    plan: Plan,
    /// Actions of a saved plan that are not carried out.
    refused: Vec<Report>,
}

/// The result of one pass.
#[derive(Debug)]
pub struct Pass {
    /// The plan.
    pub plan: Plan,
    /// The reports of its actions, in order.
    pub reports: Vec<Report>,
    /// The reports, counted.
    pub tallies: Tallies,
    /// Which actions were not begun and why, and how much space is still missing.
    pub summary: Summary,
    /// How the store handled errors of its file. Without [`StoreNote::InMemory`] the pass is recorded in the file.
    pub store: Vec<StoreNote>,
}

/// A pass in progress, and its results so far.
struct RunInProgress {
    id: RunId,
    dry: bool,
    reports: Vec<Report>,
    tallies: Tallies,
    trouble: Option<StoreError>,
    clock: Clock,
}

// === impl Pass ===

impl Pass {
    /// Returns why nothing of the pass is in the store's file; `None` = it is recorded there.
    pub fn not_recorded(&self) -> Option<&StoreNote> {
        self.store
            .iter()
            .rev()
            .find(|note| !matches!(note, StoreNote::SetAside { .. }))
            .filter(|note| note.is_in_memory())
    }

    /// Returns how many objects were kept. This can be fewer than the plan kept, because fallback candidates may be
    /// removed.
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

impl<H: Remover> Cycle<H> {
    /// Runs one pass. `watch` receives each report as soon as its action ends.
    ///
    /// # Errors
    /// None in practice: if the file of the store cannot be used, the pass keeps its records in memory and reports this
    /// in [`Pass::store`].
    pub async fn pass(&self, scope: Scope, stop: &Stop, watch: impl FnMut(&Plan, &Report)) -> Result<Pass, StoreError> {
        let rules = self.rules();
        let (snapshot, plan) = self.look_and_plan(&rules.settings, &rules.settings.policy, scope).await?;
        self.carry_out(&rules, Planned { scope, snapshot, plan, refused: Vec::new() }, stop, watch).await
    }

    /// Runs one pass that removes everything unused. The plan and the history contain the disk pressure as the reason.
    ///
    /// # Errors
    /// As [`Self::pass`].
    pub async fn pass_under(
        &self,
        pressure: Pressure,
        scope: Scope,
        stop: &Stop,
        watch: impl FnMut(&Plan, &Report),
    ) -> Result<Pass, StoreError> {
        let rules = self.rules();
        let policy = rules.settings.policy.under_pressure();
        let (snapshot, plan) = self.look_and_plan(&rules.settings, &policy, scope).await?;
        let plan = Plan { pressure: Some(pressure), ..plan };
        self.carry_out(&rules, Planned { scope, snapshot, plan, refused: Vec::new() }, stop, watch).await
    }

    /// Carries out a saved plan, except for objects that changed since.
    ///
    /// # Errors
    /// As [`Self::pass`].
    pub async fn pass_saved(
        &self,
        plan: Plan,
        stop: &Stop,
        watch: impl FnMut(&Plan, &Report),
    ) -> Result<Pass, StoreError> {
        let rules = self.rules();
        let taken_at = (self.clock)();
        let memory = self.recall(&rules.settings, taken_at)?;
        let mut snapshot = self.observer.observe(taken_at, memory).await;
        if plan.actions.iter().chain(&plan.images.reserve).any(|action| action.target.kind() == Kind::Image) {
            self.observer.resolve_image_names(&mut snapshot).await;
            self.observer.fill_statuses(&mut snapshot, StatusFor::ImageVolumes).await;
        }
        let Checked { plan, refused } = revalidate::check(plan, &snapshot, &rules.settings.policy);
        self.carry_out(&rules, Planned { scope: Scope::All, snapshot, plan, refused }, stop, watch).await
    }

    async fn look_and_plan(
        &self,
        settings: &Settings,
        policy: &Policy,
        scope: Scope,
    ) -> Result<(Snapshot, Plan), StoreError> {
        let taken_at = (self.clock)();
        let memory = self.recall(settings, taken_at)?;
        Ok(look_and_plan(&self.observer, policy, scope, taken_at, memory).await)
    }

    fn recall(&self, settings: &Settings, taken_at: Timestamp) -> Result<Memory, StoreError> {
        recall(&mut self.store(), settings, self.started_at, taken_at)
    }

    /// Carries out the plan, records each outcome as soon as its action ends, and updates the memory.
    async fn carry_out(
        &self,
        rules: &Rules<H>,
        planned: Planned,
        stop: &Stop,
        mut watch: impl FnMut(&Plan, &Report),
    ) -> Result<Pass, StoreError> {
        let Planned { scope, snapshot, plan, refused } = planned;
        let learnt = update_memory(&snapshot, &rules.settings.policy);
        self.store().learn(&snapshot.memory, &learnt)?;
        let mut run = RunInProgress::begin(&mut self.store(), &self.clock, snapshot.taken_at, scope, H::IS_DRY)?;
        if let Some(pressure) = &plan.pressure {
            self.store().tell_trigger(run.id, &pressure.to_string())?;
        }
        let mut record = |report: Report| {
            watch(&plan, &report);
            run.record(&mut self.store(), report);
        };
        refused.into_iter().for_each(&mut record);
        let summary = rules.executor.carry_out(&plan, stop, &mut record).await;
        self.learn_outcomes(&rules.settings, &learnt, snapshot.taken_at, &run.reports)?;
        run.end(&mut self.store(), plan, summary)
    }

    /// Updates the memory with the outcomes, and prunes old history. The memory is already updated with the snapshot
    /// before the first removal, so that a kill in the middle loses neither (I10).
    fn learn_outcomes(
        &self,
        settings: &Settings,
        learnt: &Memory,
        taken_at: Timestamp,
        reports: &[Report],
    ) -> Result<(), StoreError> {
        let Settings { policy, state, .. } = settings;
        let after = after_outcomes(learnt, reports, taken_at, policy.guards.retry_after);
        let mut store = self.store();
        store.learn(learnt, &after)?;
        store.prune(taken_at, state.history_max_age, state.history_max_rows).map(drop)
    }

    /// Returns the thresholds for disk pressure in force.
    pub fn pressure(&self) -> PressurePolicy {
        self.rules().settings.policy.pressure.clone()
    }

    /// Returns a monitor for the disks of this node.
    pub fn monitor(&self) -> PressureMonitor {
        let Rules { settings, executor } = &*self.rules();
        let node = vec![settings.policy.logs.pods_root.clone(), settings.kubelet_root.clone()];
        PressureMonitor::new(executor.reader.clone(), Arc::clone(&executor.disks), node)
    }

    /// Applies another policy from the next pass on. The log roots do not change, because the observer and the remover
    /// receive them at the start.
    pub fn set_policy(&self, policy: Policy) {
        let Rules { mut settings, mut executor } = Rules::clone(&self.rules());
        settings.policy = Policy { logs: settings.policy.logs, ..policy };
        executor.options = options(&settings, executor.options.space_settle);
        *self.rules.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(Rules { settings, executor });
    }
}

impl Cycle<LiveRemover> {
    /// Creates a cycle that removes objects.
    pub fn live(settings: Settings, node: &LocalNode, store: Store, started_at: Timestamp) -> Self {
        let options = settings.runtime.options.clone();
        let writer = RuntimeWriter::new(&node.endpoint.runtime, &node.endpoint.images, options);
        let remover = |reader: &RuntimeReader, roots: &LogRoots| LiveRemover {
            writer: writer.with_breaker(reader.breaker()),
            roots: roots.clone(),
        };
        Self::with(remover, settings, node, store, started_at)
    }
}

impl Cycle<DryRun> {
    /// Creates a cycle that only records what it would remove.
    pub fn dry(settings: Settings, node: &LocalNode, store: Store, started_at: Timestamp) -> Self {
        Self::with(|_, _| DryRun::default(), settings, node, store, started_at)
    }
}

impl<H> Cycle<H> {
    fn with(
        remover: impl FnOnce(&RuntimeReader, &LogRoots) -> H,
        settings: Settings,
        node: &LocalNode,
        store: Store,
        started_at: Timestamp,
    ) -> Self {
        let (observer, roots) = (node.observer(&settings), roots(&settings));
        // Both use one reader, so that the observations and the rechecks share the state of a runtime that hangs.
        let reader = observer.reader().clone();
        let remover = remover(&reader, &roots);
        let (pods, disks) = (Arc::clone(&node.pods), Arc::clone(&node.disks));
        let options = options(&settings, node.space_settle);
        let image_names = observer.image_names();
        let executor = Executor { reader, remover, pods, disks, image_names, roots, options };
        let rules = Mutex::new(Arc::new(Rules { settings, executor }));
        Self { observer, rules, store: Mutex::new(store), started_at, clock: clock::system() }
    }

    fn rules(&self) -> Arc<Rules<H>> {
        Arc::clone(&self.rules.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the clock of all passes. Default: the system clock.
    #[must_use]
    pub fn with_clock(self, clock: Clock) -> Self {
        Self { clock, ..self }
    }
}

/// Returns the memory for a pass at `taken_at`. If the pod source is `none`, no new pod list replaces the remembered
/// one, so the images that its pods named are removed from the memory.
///
/// # Errors
/// The store cannot be read or written.
pub fn recall(
    store: &mut Store,
    settings: &Settings,
    started_at: Timestamp,
    taken_at: Timestamp,
) -> Result<Memory, StoreError> {
    let mut memory = store.recall(started_at, taken_at)?;
    if settings.pods.sources.contains(PodSourceName::None) {
        memory.named_images = None;
    }
    Ok(memory)
}

/// Observes the node and plans. A pass over images reads the image volumes of each container that is new to the
/// observer, even if no image is to be removed: the memory counts an image that is mounted now as used now.
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
    if scope != Scope::Containers && policy.guards.keep_pod_images {
        observer.resolve_image_names(&mut snapshot).await;
    }
    let plan = decide(&snapshot, policy, scope);
    (snapshot, plan)
}

fn roots(settings: &Settings) -> LogRoots {
    LogRoots::new(&settings.host_root, settings.policy.logs.clone())
}

/// Builds the execution options. If `guards.gone_after` is not 0, the recheck of a deleted pod includes the kubelet's
/// directory of the pod and a live lookup.
fn options(settings: &Settings, space_settle: Duration) -> ExecuteOptions {
    let asks = !settings.policy.guards.gone_after.is_zero();
    let pods = settings.kubelet_root.join("pods");
    ExecuteOptions {
        kubelet_pods: asks.then_some(pods),
        asks_for_pods: asks,
        keeps_pod_images: settings.policy.guards.keep_pod_images,
        space_settle,
        ..ExecuteOptions::default()
    }
}

// === impl RunInProgress ===

impl RunInProgress {
    fn begin(
        store: &mut Store,
        clock: &Clock,
        taken_at: Timestamp,
        scope: Scope,
        dry: bool,
    ) -> Result<Self, StoreError> {
        let id = store.begin_run(taken_at, scope, dry)?;
        Ok(Self { id, dry, reports: Vec::new(), tallies: Tallies::default(), trouble: None, clock: Arc::clone(clock) })
    }

    /// Records one outcome. An error of the store does not stop the pass: the removal has already happened, and the log
    /// contains it.
    fn record(&mut self, store: &mut Store, report: Report) {
        note(&report, &mut self.tallies);
        if !self.dry {
            self.trouble = self.trouble.take().or(store.record(self.id, (self.clock)(), &report).err());
        }
        self.reports.push(report);
    }

    fn end(mut self, store: &mut Store, plan: Plan, summary: Summary) -> Result<Pass, StoreError> {
        self.tallies.take_measured(&summary);
        let planning = plan.errors.iter().map(ToString::to_string);
        let errors: Vec<_> = planning.chain(summary.halts.iter().map(ToString::to_string)).collect();
        let error = (!errors.is_empty()).then(|| errors.join("; "));
        store.finish_run(self.id, (self.clock)(), &self.tallies.total(), error.as_deref())?;
        if let Some(trouble) = self.trouble {
            return Err(trouble);
        }
        let store = store.take_trouble();
        Ok(Pass { plan, reports: self.reports, tallies: self.tallies, summary, store })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cri::Endpoint;
    use crate::observe::{HostDisks, NoPods};
    use crate::plan::{Guards, LogPolicy, Profile};

    #[tokio::test]
    async fn other_rules_hold_for_the_rechecks_too_and_the_log_roots_stay() {
        let nowhere = || "unix:///nowhere".to_owned();
        let endpoint = Endpoint { runtime: nowhere(), images: nowhere() };
        let node = LocalNode {
            endpoint,
            disks: Arc::new(HostDisks::new("/")),
            pods: Arc::new(NoPods),
            space_settle: Duration::ZERO,
        };
        let mut settings = Settings::default();
        settings.policy.guards = Guards::of(Profile::Kubelet);
        let cycle = Cycle::dry(settings, &node, Store::in_memory().unwrap(), Timestamp::UNIX_EPOCH);
        let before = cycle.rules().executor.options.clone();
        assert_eq!((before.asks_for_pods, &before.kubelet_pods), (false, &None));
        let logs = LogPolicy { pods_root: "/elsewhere".into(), ..LogPolicy::default() };
        cycle.set_policy(Policy { logs, ..Policy::default() });
        let after = cycle.rules();
        assert!(after.executor.options.asks_for_pods && after.executor.options.kubelet_pods.is_some());
        assert_eq!(after.settings.policy.logs, LogPolicy::default());
    }
}
