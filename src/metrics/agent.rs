//! The metrics of the agent, and of one pass of `kubegc collect`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use strum::{VariantArray as _, VariantNames as _};

use super::calls::CriCalls;
use super::contents;
use super::definitions::*;
use super::registry::{Counters, Histograms, Labels, Metrics, number};
use super::text::Exposition;
use super::usage;
use crate::model::{DirUsage, LeftoverKind, PodSourceName, PodSourceReport, RemovedImage, Seen, Snapshot};
use crate::plan::{
    Action, DiskState, FailureCause, KeepReason, Kind, LimitOf, Outcome, Pass, Plan, PodKnowledge, RemoveWord, Report,
    Scope,
};
use crate::store::{DiskAccount, NamespaceSpace};

/// The bounds of the buckets for passes, in seconds.
const BOUNDS: [f64; 8] = [0.1, 0.5, 2.0, 10.0, 30.0, 120.0, 600.0, 1800.0];
/// The results of passes.
const RESULTS: [&str; 2] = ["succeeded", "failed"];

/// The metrics of the agent. Clones share the values.
#[derive(Clone, Debug)]
pub struct AgentMetrics(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    metrics: Metrics,
    calls: CriCalls,
    running: Family<Labels, Gauge>,
    passes: Counters,
    pass_seconds: Histograms,
    removed: Counters,
    failed: Counters,
    refused: Counters,
    reclaimed: Counters,
    estimated: Counters,
    pulled_again: Counters,
    pulled_again_bytes: Counters,
    /// Those in the settings.
    pod_sources: Mutex<Vec<PodSourceName>>,
    /// Whether an account shows what images hold, better than the sizes in plans.
    has_account: AtomicBool,
}

// === impl AgentMetrics ===

impl AgentMetrics {
    /// Returns where the calls to the runtime are counted.
    pub fn calls(&self) -> &CriCalls {
        &self.0.calls
    }

    /// Creates the metrics of a service: with those of its process.
    pub fn of_service() -> Self {
        let metrics = Self::default();
        metrics.0.metrics.add_process();
        metrics
    }

    /// Returns all metrics as text.
    pub fn text(&self, format: Exposition) -> String {
        self.0.metrics.text(format)
    }

    /// Shows the settings in force. The pod sources have metrics from now on.
    pub fn in_force(&self, mode: &'static str, profile: &'static str, sources: impl Iterator<Item = PodSourceName>) {
        self.0.metrics.values.replace(CONFIG, "", [(vec![("mode", mode), ("profile", profile)], 1.0)]);
        let sources: Vec<_> = sources.collect();
        let mut known = self.0.pod_sources.lock().unwrap_or_else(PoisonError::into_inner);
        if *known != sources {
            // Until the next pass no list is known.
            self.0.metrics.values.replace(
                POD_SOURCE_COMPLETE,
                "",
                sources.iter().map(|source| of_source(*source, false)),
            );
            *known = sources;
        }
    }

    /// Shows whether the last load of the configuration succeeded. `at` = when the one in force was loaded.
    pub fn reloaded(&self, at: Option<Timestamp>) {
        self.0.metrics.values.reloaded([RELOADED, RELOADED_AT], at);
    }

    /// Shows whether the agent holds the lock of the node.
    pub fn lock(&self, is_held: bool) {
        self.0.metrics.values.set(LOCK, f64::from(u8::from(is_held)));
    }

    /// Shows why scheduled passes remove nothing; `None` = they do.
    pub fn suspended(&self, cause: Option<&str>) {
        let is_now = |of| (vec![("cause", of)], f64::from(u8::from(cause == Some(of))));
        self.0.metrics.values.replace(SUSPENDED, "", ["pause", "policy_mode", "quiet_hours"].map(is_now));
    }

    /// Shows the store. `bytes` = its size, if it can be read and written.
    pub fn store(&self, bytes: Option<u64>) {
        self.0.metrics.values.set(STORE_OK, f64::from(u8::from(bytes.is_some())));
        self.0.metrics.values.replace(STORE_BYTES, "", bytes.map(|bytes| (Labels::new(), number(bytes))));
    }

    /// Shows that a pass over these objects begins.
    pub fn begun(&self, scope: Scope) {
        self.0.running.get_or_create(&vec![("scope", scope.as_str())]).inc();
    }

    /// Shows that a pass over these objects ends.
    pub fn ended(&self, scope: Scope) {
        self.0.running.get_or_create(&vec![("scope", scope.as_str())]).dec();
    }

    /// Counts a pass, and shows its plan.
    pub fn passed(&self, pass: &Pass) {
        let scope = ("scope", pass.scope.as_str());
        let is_success = pass.is_success() && !pass.is_short();
        self.count_pass(pass.scope, is_success);
        if let Some(duration) = pass.duration {
            self.0.pass_seconds.get_or_create(&vec![scope]).observe(duration.as_secs_f64());
        }
        if is_success {
            self.0.metrics.values.replace(PASS_SUCCEEDED_AT, scope.1, [(vec![scope], seconds(pass.ended_at))]);
        }
        for (kind, bytes) in &pass.summary.measured_bytes {
            self.0.reclaimed.get_or_create(&vec![("kind", kind.as_str())]).inc_by(*bytes);
        }
        self.planned(pass.scope, &pass.plan);
    }

    /// Counts a pass that could not begin, because the runtime is unavailable.
    pub fn not_passed(&self, scope: Scope) {
        self.count_pass(scope, false);
    }

    fn count_pass(&self, scope: Scope, is_success: bool) {
        let [succeeded, failed] = RESULTS;
        let result = if is_success { succeeded } else { failed };
        self.0.passes.get_or_create(&vec![("scope", scope.as_str()), ("result", result)]).inc();
    }

    /// Counts the outcome of an action.
    pub fn outcome(&self, report: &Report) {
        let kind = ("kind", report.action.target.kind().as_str());
        match &report.outcome {
            Outcome::Removed {} => {
                self.0.removed.get_or_create(&vec![kind, ("reason", report.action.reason.kind())]).inc();
                self.0.estimated.get_or_create(&vec![kind]).inc_by(report.action.bytes().unwrap_or_default());
            }
            Outcome::Failed { cause, .. } => {
                self.0.failed.get_or_create(&vec![kind, ("cause", cause.as_str())]).inc();
            }
            Outcome::Refused { refusal } => {
                self.0.refused.get_or_create(&vec![kind, ("cause", refusal.kind())]).inc();
            }
            Outcome::AlreadyRemoved {} | Outcome::NotNeeded {} | Outcome::WouldRemove {} => {}
        }
    }

    /// Counts an image that was pulled again.
    pub fn pulled_again(&self, image: &RemovedImage) {
        let Ok(reason) = image.reason.parse::<RemoveWord>() else { return };
        let labels = vec![("reason", reason.as_str())];
        self.0.pulled_again.get_or_create(&labels).inc();
        self.0.pulled_again_bytes.get_or_create(&labels).inc_by(image.bytes);
    }

    /// Shows a plan. It replaces what the plan before showed of the same kinds.
    pub fn planned(&self, scope: Scope, plan: &Plan) {
        for kind in Kind::ALL.into_iter().filter(|kind| covers(scope, *kind)) {
            self.show_kept(kind, plan);
            self.show_actions(kind, plan);
        }
        if covers(scope, Kind::LogFile) {
            let over = plan.log_limits.iter().filter(|note| note.is_over());
            let over = over.map(|note| vec![("limit_of", note.limit.limit_of.into())]);
            let none = LimitOf::VARIANTS.iter().map(|of| vec![("limit_of", *of)]);
            self.0.metrics.values.replace(LOGS_OVER, "", counts(none, over));
        }
        self.pod_sources(&plan.pods);
    }

    fn show_kept(&self, kind: Kind, plan: &Plan) {
        let word = kind.as_str();
        let kept = plan.kept.iter().filter(|kept| kept.kind == kind).map(|kept| &kept.reason);
        let by = |reason: &KeepReason| ("by", if reason.is_guard() { "guard" } else { "rule" });
        let labels = kept.map(|reason| vec![("kind", word), ("reason", reason.kind()), by(reason)]);
        self.0.metrics.values.replace(KEPT, word, counts([], labels));
    }

    fn show_actions(&self, kind: Kind, plan: &Plan) {
        let (values, word) = (&self.0.metrics.values, kind.as_str());
        let is_of = |action: &&Action| action.target.kind() == kind;
        let none = reasons(kind).map(|reason| vec![("kind", word), ("reason", reason)]);
        let labels = |action: &Action| vec![("kind", word), ("reason", action.reason.kind())];
        values.replace(PLANNED, word, counts(none, plan.actions.iter().filter(is_of).map(labels)));
        if kind != Kind::Image || !self.0.has_account.load(Ordering::Relaxed) {
            let candidates = plan.removals().filter(is_of);
            self.reclaimable(kind, candidates.filter_map(Action::bytes).fold(0, u64::saturating_add));
        }
    }

    fn reclaimable(&self, kind: Kind, bytes: u64) {
        self.0.metrics.values.replace(RECLAIMABLE, kind.as_str(), [(vec![("kind", kind.as_str())], number(bytes))]);
    }

    /// Shows the lists of the runtime.
    pub fn observed(&self, snapshot: &Snapshot) {
        let values = &self.0.metrics.values;
        let lists = snapshot.list_bytes.receipts();
        values.replace(LIST_BYTES, "", lists.map(|(list, receipt)| (vec![("list", list)], number(receipt.bytes))));
        values.set(LIST_LIMIT, number(snapshot.list_bytes.limit));
    }

    /// Shows how full the disks are, and when kubegc responds to that.
    pub fn disks(&self, disks: &[DiskState]) {
        usage::show(&self.0.metrics.values, disks);
    }

    /// Shows what fills the image file system, and whether removable images are enough.
    pub fn account(&self, account: &DiskAccount, disks: &[DiskState]) {
        self.0.has_account.store(true, Ordering::Relaxed);
        self.reclaimable(Kind::Image, account.reclaimable_bytes);
        contents::show(&self.0.metrics.values, account, disks);
    }

    /// Shows what the pods of each namespace take, the largest first, and what is left over.
    pub fn contents(&self, namespaces: &[NamespaceSpace], leftovers: &BTreeMap<LeftoverKind, (u64, DirUsage)>) {
        contents::show_namespaces(&self.0.metrics.values, namespaces);
        contents::show_leftovers(&self.0.metrics.values, leftovers);
    }

    fn pod_sources(&self, pods: &Seen<PodKnowledge>) {
        let sources: Vec<_> = pods.as_ref().map(|pods| pods.sources.iter().collect()).unwrap_or_default();
        let label = |source: &PodSourceReport| {
            let name: PodSourceName = source.name.parse().ok()?;
            Some(vec![("source", <&'static str>::from(name))])
        };
        let complete =
            |source: &&PodSourceReport| Some((label(source)?, f64::from(u8::from(source.missing.is_none()))));
        let at = |source: &&PodSourceReport| Some((label(source)?, seconds(source.as_of?)));
        let values = &self.0.metrics.values;
        // Without any list no source reports itself.
        let wanted = self.0.pod_sources.lock().unwrap_or_else(PoisonError::into_inner);
        let is_complete = pods.as_ref().is_some_and(|pods| pods.complete);
        let silent = wanted.iter().filter(|_| sources.is_empty()).map(|source| of_source(*source, is_complete));
        values.replace(POD_SOURCE_COMPLETE, "", sources.iter().filter_map(complete).chain(silent));
        values.replace(POD_SOURCE_AT, "", sources.iter().filter_map(at));
    }
}

impl Default for AgentMetrics {
    /// Creates metrics that begin at 0.
    fn default() -> Self {
        let metrics = Metrics::new();
        metrics.values.replace(BUILD, "", [(vec![("version", env!("CARGO_PKG_VERSION"))], 1.0)]);
        let kinds = || Kind::ALL.map(|kind| ("kind", kind.as_str()));
        let each_kind = || kinds().map(|kind| vec![kind]);
        let reasons_of =
            |kind: Kind| reasons(kind).map(move |reason| vec![("kind", kind.as_str()), ("reason", reason)]);
        let pulled_again = || reasons(Kind::Image).map(|reason| vec![("reason", reason)]);
        let causes = kinds()
            .into_iter()
            .flat_map(|kind| FailureCause::VARIANTS.iter().map(move |cause| vec![kind, ("cause", cause.as_str())]));
        let scopes = [Scope::Containers, Scope::Images];
        let passes = scopes
            .into_iter()
            .flat_map(|scope| RESULTS.map(|result| vec![("scope", scope.as_str()), ("result", result)]));
        let pass_seconds: Histograms = Family::new_with_constructor(|| Histogram::new(BOUNDS));
        metrics.add(PASS_SECONDS, pass_seconds.clone());
        let running = Family::<Labels, Gauge>::default();
        metrics.add(PASS_RUNNING, running.clone());
        let calls = CriCalls::default();
        metrics.add(CRI_ERRORS, calls.errors.clone());
        metrics.add(CRI_SECONDS, calls.seconds.clone());
        Self(Arc::new(Inner {
            running,
            passes: metrics.counters(PASSES, passes),
            pass_seconds,
            calls,
            removed: metrics.counters(REMOVED, Kind::ALL.into_iter().flat_map(reasons_of)),
            failed: metrics.counters(FAILED, causes),
            refused: metrics.counters(REFUSED, kinds().map(|kind| vec![kind, ("cause", "state_changed")])),
            reclaimed: metrics.counters(RECLAIMED, each_kind()),
            estimated: metrics.counters(ESTIMATED, each_kind()),
            pulled_again: metrics.counters(PULLED_AGAIN, pulled_again()),
            pulled_again_bytes: metrics.counters(PULLED_AGAIN_BYTES, pulled_again()),
            pod_sources: Mutex::default(),
            has_account: AtomicBool::default(),
            metrics,
        }))
    }
}

/// Returns whether a pass plans objects of this kind.
fn covers(scope: Scope, kind: Kind) -> bool {
    match scope {
        Scope::Containers => kind != Kind::Image,
        Scope::Images => kind == Kind::Image,
        Scope::All => true,
    }
}

/// Counts how often each set of labels occurs, 0 for each of `none` that does not.
fn counts(
    none: impl IntoIterator<Item = Labels>,
    labels: impl Iterator<Item = Labels>,
) -> impl Iterator<Item = (Labels, f64)> {
    let mut counts: BTreeMap<_, u32> = none.into_iter().map(|labels| (labels, 0)).collect();
    labels.for_each(|labels| *counts.entry(labels).or_default() += 1);
    counts.into_iter().map(|(labels, count)| (labels, f64::from(count)))
}

/// Returns the sample of a pod source that reports nothing itself.
fn of_source(source: PodSourceName, is_complete: bool) -> (Labels, f64) {
    (vec![("source", source.into())], f64::from(u8::from(is_complete)))
}

fn seconds(at: Timestamp) -> f64 {
    at.as_duration().as_secs_f64()
}

/// Returns the words of the reasons to remove an object of a kind.
fn reasons(kind: Kind) -> impl Iterator<Item = &'static str> {
    RemoveWord::VARIANTS.iter().filter(move |word| word.kinds().contains(&kind)).map(|word| word.as_str())
}

#[cfg(test)]
mod tests;
