//! A bar on standard error while things go, where a person looks on.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::{human, words};
use crate::execute::Report;
use crate::plan::Plan;

/// The bar. It hides itself where standard error is no terminal, and goes when it is dropped.
pub(super) struct Progress(ProgressBar);

// === impl Progress ===

impl Progress {
    /// Begins with looking: how much there is to do is not known yet.
    pub(super) fn new() -> Self {
        let bar = ProgressBar::new_spinner().with_message("looking at the node");
        bar.enable_steady_tick(Duration::from_millis(120));
        Self(bar)
    }

    /// One more is done.
    pub(super) fn step(&self, plan: &Plan, report: &Report) {
        let target = &report.action.target;
        if self.0.length().is_none() {
            let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {wide_msg}");
            self.0.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        }
        self.0.set_length(plan.actions.len() as u64);
        let name = words::object_name(target.kind(), &target.id(), target.name(), false);
        self.0.set_message(human::printable(&format!("{} {name}", words::kind(target.kind()))));
        self.0.inc(1);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
