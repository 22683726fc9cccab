//! `kubegc history --sums`: the removals of each day by kind and reason.
//!
//! Containers and sandboxes are measured together, once a pass, so their bytes belong to no single reason. They have a row of
//! their own.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::Serialize;

use super::{Args, nothing};
use crate::cli::render::Grid;
use crate::cli::{CliError, Format, Output, format};
use crate::plan::Kind;
use crate::record::{HistoryEntry, HistoryFilter, StoreReader};

/// The reason of the row with the bytes of containers and sandboxes. It is last of its kind.
const BY_PASS: &str = "measured_by_pass";

/// The removals of a day for one reason.
#[derive(Serialize)]
struct Sum {
    /// The day, in UTC.
    day: Date,
    kind: Kind,
    /// The rule, as in plans; `measured_by_pass` = all containers and sandboxes of the day.
    reason: String,
    removed: u64,
    /// Reclaimed bytes, measured; `null` = not measured for each object.
    freed_bytes: Option<u64>,
}

/// The sums, newest day first.
#[derive(Default)]
struct Sums(BTreeMap<(Reverse<Date>, Kind, bool, String), Sum>);

/// Prints the number of removals and the reclaimed bytes by day and reason.
pub(super) fn print(args: &Args, store: &StoreReader, output: &mut Output) -> Result<(), CliError> {
    let filter = HistoryFilter { limit: None, ..args.filter() };
    let mut sums = Sums::default();
    for entry in store.history(&filter)?.iter().filter(|entry| entry.outcome == "removed") {
        sums.add(entry);
    }
    if shows_steps(&filter) {
        for (at, bytes) in store.step_bytes(filter.since.unwrap_or(Timestamp::MIN))? {
            sums.add_step(at, bytes);
        }
    }
    let sums: Vec<_> = sums.0.into_values().collect();
    match output.format.unwrap_or(Format::Table) {
        Format::Json => sums.iter().try_for_each(|sum| output.json(sum)),
        Format::Yaml => output.yaml(&sums),
        _ if sums.is_empty() => nothing(args.nothing(), output),
        _ => output.page(&table(&sums)),
    }
}

/// Returns whether the objects that are measured by pass are all among those that the filter selects.
fn shows_steps(filter: &HistoryFilter) -> bool {
    filter.text.is_none() && filter.namespace.is_none() && filter.kind.is_none_or(|kind| kind == Kind::Container)
}

fn day(at: Timestamp) -> Date {
    at.to_zoned(TimeZone::UTC).date()
}

fn table(sums: &[Sum]) -> String {
    let mut grid = Grid::new(&["DAY", "KIND", "REMOVED", "FREED", "WHY"]);
    for sum in sums {
        let kind = sum.kind.as_str().replace('_', " ");
        let removed = if sum.reason == BY_PASS { String::new() } else { sum.removed.to_string() };
        let freed = sum.freed_bytes.map(format::size).unwrap_or_default();
        grid.row([sum.day.to_string(), kind, removed, freed, rule(&sum.reason)]);
    }
    grid.text()
}

/// Returns the words of a rule without its values, which differ between the removals of a day.
fn rule(reason: &str) -> String {
    let words = match reason {
        "pod_gone" => "pod deleted",
        "pod_terminal" => "pod terminated",
        "over_max_per_pod_container" => "over containers.max_per_pod_container",
        "over_total_limit" => "over containers.max_containers",
        "superseded" => "pod has a newer sandbox",
        "dangling" => "dangling symlink",
        "space" => "disk usage",
        "age" => "over images.max_age",
        BY_PASS => "all containers and sandboxes (measured by pass)",
        other => return other.replace('_', " "),
    };
    words.to_owned()
}

// === impl Sums ===

impl Sums {
    fn of(&mut self, day: Date, kind: Kind, reason: &str) -> &mut Sum {
        let new = || Sum { day, kind, reason: reason.to_owned(), removed: 0, freed_bytes: None };
        self.0.entry((Reverse(day), kind, reason == BY_PASS, reason.to_owned())).or_insert_with(new)
    }

    fn add(&mut self, entry: &HistoryEntry) {
        let sum = self.of(day(entry.at), entry.kind, &entry.reason);
        sum.removed += 1;
        sum.freed_bytes = entry.freed_bytes.map_or(sum.freed_bytes, |bytes| Some(sum.freed_bytes.unwrap_or(0) + bytes));
    }

    fn add_step(&mut self, at: Timestamp, bytes: u64) {
        let sum = self.of(day(at), Kind::Container, BY_PASS);
        sum.freed_bytes = Some(sum.freed_bytes.unwrap_or(0) + bytes);
    }
}
