//! Records a pass in progress: its run, and each outcome as soon as its action ends.

use std::collections::BTreeSet;

use crate::config::Settings;
use crate::daemon::clock::Clock;
use crate::execute::ReportSink;
use crate::metrics::AgentMetrics;
use crate::plan::{Action, Pass, Report};
use crate::record::{Retention, Run, RunEnd, Store, count_and_log_outcome};

/// The most removals in the history, and the most refusals: a month of a busy node, and a few MiB in the store.
const HISTORY_ROWS: u64 = 10_000;

/// What a dry pass logged: the key and the name of each object. A name that comes later is logged, because an image can be
/// listed before its tag.
pub(super) type Logged = BTreeSet<(String, Option<String>)>;

/// A pass in progress, and its reports so far.
pub(super) struct Recording<'a, W> {
    pub to: Records<'a>,
    /// Receives each report first.
    watch: W,
    pub run: Run,
    /// What the pass before would have removed. A dry run does not log it again.
    known: Logged,
    pub reports: Vec<Report>,
}

/// Where a pass is recorded.
pub(super) struct Records<'a> {
    pub store: &'a Store,
    pub clock: &'a Clock,
    pub metrics: &'a AgentMetrics,
    pub settings: &'a Settings,
}

// === impl Recording ===

impl<'a, W> Recording<'a, W> {
    /// Records in a run that has begun. `known` = what the dry pass before would have removed.
    pub fn of(run: Run, to: Records<'a>, watch: W, known: Logged) -> Self {
        Self { to, watch, run, known, reports: Vec::new() }
    }
}

// === impl Records ===

impl Records<'_> {
    /// Ends the run of a pass. Returns why the file of the store does not have it.
    pub async fn end(&self, run: &Run, pass: &Pass) -> Option<String> {
        let errors: Vec<_> = pass.errors().collect();
        let error = (!errors.is_empty()).then(|| errors.join("; "));
        let keep = Retention { max_age: self.settings.state.history_max_age, max_rows: HISTORY_ROWS };
        let end = RunEnd { at: pass.ended_at, summary: pass.summary.clone(), error, keep };
        self.store.change(|state| state.end_run(run, end)).await;
        self.store.fault()
    }
}

// === impl ReportSink for Recording ===

impl<W: FnMut(&Report) + Send> ReportSink for Recording<'_, W> {
    /// Records outcomes. The store keeps them if its file cannot be written, and the log contains them.
    async fn take(&mut self, reports: Vec<Report>) {
        let Records { store, clock, metrics, settings } = &self.to;
        for report in &reports {
            (self.watch)(report);
            count_and_log_outcome(report, metrics, self.known.contains(&logged_as(&report.action)));
        }
        let (at, retry_after) = (clock(), settings.policy.guards.retry_after);
        store.change(|state| state.record(&self.run, at, &reports, retry_after)).await;
        self.reports.extend(reports);
    }
}

/// Returns what stands for the action in [`Logged`].
pub(super) fn logged_as(action: &Action) -> (String, Option<String>) {
    (action.key(), action.target.name().map(str::to_owned))
}
