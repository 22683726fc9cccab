//! Records a pass in progress: its run, and each outcome as soon as its action ends.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::clock::Clock;
use crate::execute::ReportSink;
use crate::metrics::AgentMetrics;
use crate::plan::{Action, Plan, Report, Scope, Summary};
use crate::record::{RunId, SharedStore, Store, StoreError, StoreNote, count_and_log_outcome};

/// What a dry pass logged: the key and the name of each object. A name that comes later is logged, because an image can be
/// listed before its tag.
pub(super) type Logged = BTreeSet<(String, Option<String>)>;

/// A pass in progress, and its reports so far.
pub(super) struct Recording<'a, W> {
    store: &'a SharedStore,
    clock: &'a Clock,
    metrics: &'a AgentMetrics,
    /// Receives each report first.
    watch: W,
    id: RunId,
    dry: bool,
    /// What the pass before would have removed. A dry run does not log it again.
    known: Logged,
    pub reports: Vec<Report>,
    trouble: Option<StoreError>,
}

/// Where a pass is recorded.
pub(super) struct Records<'a> {
    pub store: &'a SharedStore,
    pub clock: &'a Clock,
    pub metrics: &'a AgentMetrics,
}

// === impl Recording ===

impl<'a, W> Recording<'a, W> {
    /// Begins a run. `known` = what the dry pass before would have removed.
    pub async fn begin(
        to: Records<'a>,
        watch: W,
        taken_at: Timestamp,
        scope: Scope,
        dry: bool,
        known: Logged,
    ) -> Result<Self, StoreError> {
        let Records { store, clock, metrics } = to;
        let id = store.call(move |store| store.begin_run(taken_at, scope, dry)).await?;
        Ok(Self { store, clock, metrics, watch, id, dry, known, reports: Vec::new(), trouble: None })
    }

    /// Records why the run removes everything unused.
    pub async fn set_trigger(&self, trigger: String) -> Result<(), StoreError> {
        let id = self.id;
        self.store.call(move |store| store.set_trigger(id, &trigger)).await
    }

    /// Ends the run. Returns the reports, and how the store handled errors of its file.
    pub async fn end(self, plan: &Plan, summary: &Summary) -> Result<(Vec<Report>, Vec<StoreNote>), StoreError> {
        let planning = plan.errors.iter().map(ToString::to_string);
        let errors: Vec<_> = planning.chain(summary.halts.iter().map(ToString::to_string)).collect();
        let error = (!errors.is_empty()).then(|| errors.join("; "));
        let (id, at, summary) = (self.id, (self.clock)(), summary.clone());
        let finish = move |store: &mut Store| {
            store.finish_run(id, at, &summary, error.as_deref())?;
            Ok(store.take_trouble())
        };
        let notes = self.store.call(finish).await?;
        self.trouble.map_or(Ok((self.reports, notes)), Err)
    }
}

impl<W: FnMut(&Report) + Send> ReportSink for Recording<'_, W> {
    /// Records outcomes. An error of the store does not stop the pass: the removals have already happened, and the log
    /// contains them.
    async fn take(&mut self, reports: Vec<Report>) {
        for report in &reports {
            (self.watch)(report);
            count_and_log_outcome(report, self.metrics, self.known.contains(&logged_as(&report.action)));
        }
        if !self.dry {
            let (id, at, recorded) = (self.id, (self.clock)(), reports.clone());
            let record = move |store: &mut Store| recorded.iter().try_for_each(|report| store.record(id, at, report));
            let recorded = self.store.call(record).await;
            self.trouble = self.trouble.take().or(recorded.err());
        }
        self.reports.extend(reports);
    }
}

/// Returns what stands for the action in [`Logged`].
pub(super) fn logged_as(action: &Action) -> (String, Option<String>) {
    (action.key(), action.target.name().map(str::to_owned))
}
