//! The progress of a pass on standard error: a bar on a terminal, elsewhere a line for each removal as soon as it ends.

use std::io::{self, Write as _};

use indicatif::ProgressBar;

use super::Args;
use crate::cli::render::output::Format;
use crate::cli::render::{self, format};
use crate::plan::{Outcome, Report};
use crate::record::OUTCOMES;

/// Takes exactly one line: `wide_msg` is what remains of it.
const TEMPLATE: &str = "{bar:20} {pos}/{len} {wide_msg}";
/// The characters of an object beside the bar, on a terminal with 80 columns.
const ROOM: usize = 46;

/// Shows the progress of a pass.
pub(super) struct Progress {
    bar: ProgressBar,
    /// Whether to print lines instead of the bar.
    has_lines: bool,
}

// === impl Progress ===

impl Progress {
    /// Creates the bar. It is drawn with the first action. A program that reads a document needs no lines, and a log that shows removals
    /// has them already.
    pub fn new(args: &Args, format: Option<Format>) -> Self {
        let bar = render::progress(0, TEMPLATE);
        let is_table = matches!(format, None | Some(Format::Table | Format::Wide)) && !args.quiet;
        let has_lines = bar.is_hidden() && is_table && !tracing::enabled!(target: OUTCOMES, tracing::Level::INFO);
        Self { bar, has_lines }
    }

    /// Shows that one of the planned actions ended.
    pub fn advance(&self, planned: usize, report: &Report) {
        let object = format::printable(&render::action(&report.action));
        if self.has_lines && report.outcome == (Outcome::Removed {}) {
            // If standard error is closed, the table at the end shows the outcome.
            let _ = writeln!(io::stderr(), "removed: {object}");
        }
        self.bar.set_length(planned as u64);
        self.bar.set_message(format::name(&object, ROOM));
        self.bar.inc(1);
    }

    /// Removes the bar from the terminal.
    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}
