//! One GC pass: observe, plan, execute, record.
//!
//! [`Cycle::pass`] begins the whole sequence. A dry run uses the same code with another remover and an in-memory copy
//! of the store.

pub(super) mod accounts;
pub(super) mod archiving;
pub(super) mod existing;
pub(super) mod failed_sources;
pub(super) mod listed;
pub(super) mod pauses;
pub(super) mod planning;
pub(super) mod recording;
pub(super) mod rule_log;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::clock::{self, Clock, Monotonic};
use super::node::LocalNode;
use super::pressure::PressureMonitor;
use crate::config::{Mode, Settings};
use crate::cri::RuntimeWriter;
use crate::execute::{AlwaysOpen, ExecuteOptions, Executor, LogRoots, Remover, ReportSink};
use crate::fleet::ListAnswer;
use crate::host_path::HostFs;
use crate::metrics::AgentMetrics;
use crate::model::{FileSystem, Memory, PodSourceName, Snapshot};
use crate::observe::{ClockJumps, ClockReading, Needs, Observer, Part};
use crate::plan::{Pass, Plan, Pressure, Report, Scope, update_memory};
use crate::record::{RunStart, Store, StoreState, count_and_log_pulled_again};
use accounts::LastAccount;
use archiving::Archiving;
use listed::SeenImages;
use pauses::Pauses;
use planning::{PassKind, Planned};
use recording::{Logged, Recording, Records, logged_as};
use rule_log::RuleLog;

/// Runs GC passes on one node. Passes can overlap.
pub struct Cycle {
    observer: Observer,
    settings: Settings,
    executor: Executor,
    store: Store,
    /// The start of the agent's observations.
    started_at: Timestamp,
    clock: Clock,
    monotonic: Monotonic,
    jumps: Arc<ClockJumps>,
    /// What the last dry pass of each scope would have removed. The next one does not log it again.
    logged: Mutex<BTreeMap<String, Logged>>,
    metrics: AgentMetrics,
    last_account: Option<LastAccount>,
    rules: RuleLog,
    archiving: Archiving,
    pauses: Arc<Pauses>,
    /// What became of the images that policies list, in the last pass that saw the images.
    list_answers: Mutex<Vec<ListAnswer>>,
}

// === impl Cycle ===

impl Cycle {
    /// Runs one pass. `watch` receives each report as soon as its action ends.
    /// If the file of the store cannot be used, the pass keeps its records in memory and reports this in
    /// [`Pass::not_recorded`].
    pub async fn pass(
        &self,
        kind: PassKind,
        stop: &CancellationToken,
        watch: impl FnMut(&Plan, &Report) + Send,
    ) -> Pass {
        let (scope, begun) = (kind.scope(), Instant::now());
        self.metrics.begun(scope);
        // In a box, or the futures of all that run passes would be large.
        let pass = Box::pin(self.plan_and_carry_out(kind, stop, watch)).await;
        self.metrics.ended(scope);
        let pass = Pass { duration: Some(begun.elapsed()), ..pass };
        self.metrics.passed(&pass);
        let is_in_file = pass.not_recorded.is_none();
        let size = if is_in_file { self.store.size_bytes().await } else { None };
        self.metrics.store(size);
        pass
    }

    async fn plan_and_carry_out(
        &self,
        kind: PassKind,
        stop: &CancellationToken,
        watch: impl FnMut(&Plan, &Report) + Send,
    ) -> Pass {
        let heeds_quiet_hours = kind.heeds_quiet_hours();
        // What a saved plan keeps is that of the time when it was made.
        let learns = !matches!(kind, PassKind::Saved(_)) && kind.scope() != Scope::Containers;
        let archived = self.archive_logs(kind.scope()).await;
        let mut planned = self.planned(kind, Needs::new()).await;
        planned.plan.errors.extend(archived.err());
        self.describe_pods(&planned).await;
        self.metrics.observed(&planned.snapshot);
        self.rules.log(&planned.plan.rules);
        let usage = self.usage(&planned);
        let executor = self.executor_of(heeds_quiet_hours && !planned.must_free_space(&self.settings.policy)).await;
        let listed = learns.then(|| SeenImages::of(&planned)).flatten();
        let pass = Box::pin(self.carry_out(planned, usage, &executor, stop, watch)).await;
        self.note_full(&pass).await;
        if let Some(listed) = listed {
            self.note_answers(&listed, &pass);
        }
        pass
    }

    /// Observes the node and plans a pass. `shown` has more parts of the snapshot, for display.
    async fn planned(&self, kind: PassKind, shown: Needs) -> Planned {
        let taken_at = (self.clock)();
        let (memory, (policy, policies)) = (self.memory(taken_at), self.policy().await);
        // In a box, or the futures of all that plan would be large.
        let mut planned = Box::pin(Planned::of(kind, shown, &self.observer, &policy, taken_at, memory)).await;
        planned.policies = policies;
        existing::refuse(&mut planned.refused, &HostFs::new(&self.settings.host_root)).await;
        planned
    }

    /// Returns what the passes before remembered.
    fn memory(&self, taken_at: Timestamp) -> Memory {
        let now = ClockReading { wall: taken_at, monotonic: (self.monotonic)() };
        let memory = self.store.recall(taken_at, || (self.jumps.compare(now), self.jumps.moved(self.started_at)));
        // Without a pod source no new list of pods replaces the remembered one, so the images that its pods named are
        // forgotten.
        let has_pods = !self.settings.pods.sources.contains(&PodSourceName::None);
        Memory { named_images: memory.named_images.filter(|_| has_pods), ..memory }
    }

    /// Takes a snapshot of the node now.
    pub async fn snapshot(&self, needs: &Needs) -> Snapshot {
        let taken_at = (self.clock)();
        self.observer.snapshot(needs, taken_at, self.memory(taken_at)).await
    }

    /// Observes the node and plans the next pass over these objects, under disk pressure if a disk has it. Nothing is stored.
    /// `shown` has parts of the snapshot for display, without effect on the plan.
    pub async fn plan_now(&self, scope: Scope, mut shown: Needs) -> (Snapshot, Plan) {
        let kind = PassKind::of(self.pressure().await, scope);
        let ends = shown.take(&Part::Ends).into_iter().collect();
        let Planned { mut snapshot, plan, .. } = self.planned(kind, shown).await;
        // One of these that hangs ends the reads, and then the plan would not know the mounts of other containers.
        self.observer.fill(&mut snapshot, &ends).await;
        (snapshot, plan)
    }

    /// Observes the node and stores what it learns, without removing anything. Returns the snapshot and the plan.
    pub async fn learn(&self, scope: Scope) -> (Snapshot, Plan) {
        let Planned { mut snapshot, plan, .. } = self.planned(PassKind::Regular(scope), Needs::new()).await;
        let policy = &self.settings.policy;
        let learn = |state: &mut StoreState| {
            state.trace_images(&snapshot);
            state.learn(|memory| {
                snapshot.memory = memory;
                update_memory(&snapshot, policy)
            })
        };
        count_and_log_pulled_again(&self.store.change(learn).await, &self.metrics);
        (snapshot, plan)
    }

    /// Carries out the plan, and records each outcome as soon as its action ends. What the snapshot shows is recorded
    /// before the first removal, so that a kill in the middle does not lose it (I10).
    async fn carry_out(
        &self,
        planned: Planned,
        usage: Option<Vec<FileSystem>>,
        executor: &Executor,
        stop: &CancellationToken,
        mut watch: impl FnMut(&Plan, &Report) + Send,
    ) -> Pass {
        let Planned { scope, snapshot, plan, refused, .. } = planned;
        let (started_at, policy) = (snapshot.taken_at, &self.settings.policy);
        let triggered_by = plan.pressure.as_ref().map(ToString::to_string);
        let start = RunStart { started_at, scope, dry: executor.is_dry(), triggered_by };
        let begin = |state: &mut StoreState| {
            state.trace_images(&snapshot);
            let pulled_again = state.learn(|memory| update_memory(&Snapshot { memory, ..snapshot }, policy));
            if let Some(usage) = usage {
                state.record_usage(started_at, usage);
            }
            (state.begin_run(start), pulled_again)
        };
        let (run, pulled_again) = self.store.change(begin).await;
        count_and_log_pulled_again(&pulled_again, &self.metrics);
        let watch = |report: &Report| watch(&plan, report);
        let Self { store, clock, metrics, settings, .. } = self;
        let mut recording = Recording::of(run, Records { store, clock, metrics, settings }, watch, self.logged(scope));
        recording.take(refused.clone()).await;
        let mut summary = executor.carry_out(&plan, stop, &mut recording).await;
        for report in &refused {
            summary.add(report);
        }
        if executor.is_dry() {
            let logged = recording.reports.iter().map(|report| logged_as(&report.action)).collect();
            self.logged.lock().unwrap_or_else(PoisonError::into_inner).insert(format!("{scope:?}"), logged);
        }
        let Recording { to, run, mut reports, .. } = recording;
        plan.put_in_order(&mut reports);
        let ended_at = (self.clock)();
        let pass = Pass { scope, ended_at, duration: None, plan, reports, summary, not_recorded: None };
        Pass { not_recorded: to.end(&run, &pass).await, ..pass }
    }

    /// Shows how full the disks are, and returns what passes over images record of it. Those over containers are five times
    /// as many.
    fn usage(&self, planned: &Planned) -> Option<Vec<FileSystem>> {
        self.metrics.disks(&planned.plan.disks);
        let disks = planned.snapshot.disks.iter().map(|disk| disk.file_system.clone());
        (planned.scope != Scope::Containers).then(|| disks.collect())
    }

    /// Returns the settings. A reload makes another cycle.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the disk pressure, if `[pressure]` is set and a disk of this node has it now.
    pub async fn pressure(&self) -> Option<Pressure> {
        self.monitor().check(&self.settings.policy.pressure).await
    }

    /// Returns a monitor for the disks of this node.
    pub fn monitor(&self) -> PressureMonitor {
        let Settings { policy, kubelet_root, .. } = &self.settings;
        // Not kubelet_root itself: the DaemonSet mounts only directories in it.
        let node = vec![policy.logs.pods_root.clone(), kubelet_root.join("pods")];
        PressureMonitor::new(self.executor.reader.clone(), Arc::clone(&self.executor.disks), node)
    }

    /// Sets where passes are counted, and shows the settings there.
    #[must_use]
    pub fn with_metrics(self, metrics: &AgentMetrics) -> Self {
        let mode = if self.is_dry() { Mode::Observe } else { Mode::Collect };
        metrics.in_force(mode.into(), self.settings.policy.profile.into(), self.settings.pods.sources.iter().copied());
        Self { metrics: metrics.clone(), ..self }
    }
}

impl Cycle {
    /// Creates a cycle that removes objects.
    pub fn live(settings: Settings, node: &LocalNode, store: Store, started_at: Timestamp) -> Self {
        let cycle = Self::dry(settings, node, store, started_at);
        let (writer, roots) =
            (RuntimeWriter::new(&cycle.executor.reader, &node.removals), cycle.executor.roots.clone());
        Self { executor: Executor { remover: Remover::Live { writer, roots }, ..cycle.executor }, ..cycle }
    }

    /// Creates a cycle that only records what it would remove.
    pub fn dry(settings: Settings, node: &LocalNode, store: Store, started_at: Timestamp) -> Self {
        let observer = node.observer(&settings);
        let roots = LogRoots::new(&settings.host_root, settings.policy.logs.clone());
        // Both use one reader, so that the observations and the rechecks share the state of a runtime that hangs.
        let (reader, image_names, remover) = (observer.reader().clone(), observer.image_names(), Remover::Dry);
        let (pods, disks) = (Arc::clone(&node.pods), Arc::clone(&node.disks));
        let options = options(&settings, node.space_settle);
        let executor =
            Executor { reader, remover, pods, disks, image_names, roots, options, gate: Arc::new(AlwaysOpen) };
        let (logged, metrics) = (Mutex::default(), AgentMetrics::default());
        let (clock, monotonic, jumps) = (clock::system(), clock::since_boot(), Arc::clone(&node.jumps));
        let (last_account, rules) = (None, RuleLog::default());
        let pauses = Arc::new(Pauses::of(&settings, Arc::clone(&clock), node.received.clone()));
        Self {
            observer,
            settings,
            executor,
            store,
            started_at,
            clock,
            monotonic,
            jumps,
            logged,
            metrics,
            last_account,
            rules,
            archiving: Archiving::default(),
            pauses,
            list_answers: Mutex::default(),
        }
    }

    /// Returns whether its passes remove nothing.
    pub fn is_dry(&self) -> bool {
        self.executor.is_dry()
    }

    fn logged(&self, scope: Scope) -> Logged {
        let logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        logged.get(&format!("{scope:?}")).cloned().unwrap_or_default()
    }

    /// Ends the cycle. Returns its store, which must be closed or used by another cycle.
    pub fn into_store(self) -> Store {
        self.store
    }

    /// Sets the clock of all passes, which never jumps. Default: the system clock.
    #[must_use]
    pub fn with_clock(self, clock: Clock) -> Self {
        let received = self.pauses.received().clone();
        let pauses = Arc::new(Pauses::of(&self.settings, Arc::clone(&clock), received));
        Self { monotonic: clock::as_it_passes(&clock), clock, pauses, ..self }
    }

    /// Sets the clock by which jumps of the other one are found. Default: the time since the start of the host.
    #[must_use]
    pub fn with_monotonic(self, monotonic: Monotonic) -> Self {
        Self { monotonic, ..self }
    }
}

/// Builds the execution options. If `guards.gone_after` is not 0, the recheck of a deleted pod includes the kubelet's
/// directory of the pod and a live lookup.
fn options(settings: &Settings, space_settle: Duration) -> ExecuteOptions {
    let confirms = !settings.policy.guards.gone_after.is_zero();
    let pods = settings.kubelet_root.join("pods");
    ExecuteOptions {
        kubelet_pods: confirms.then_some(pods),
        kubelet_root: settings.kubelet_root.clone(),
        confirms_deletions: confirms,
        keeps_pod_images: settings.policy.guards.keep_pod_images,
        undo: settings.policy.images.undo,
        space_settle,
        ..ExecuteOptions::default()
    }
}

#[cfg(test)]
mod tests;
