//! `kubegc history --sums`: the removals of each day by kind and reason.
//!
//! Containers and sandboxes are measured together, once a pass, so their bytes belong to no single reason. They have a row of
//! their own.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::Serialize;

use super::Args;
use crate::cli::cli_error::CliError;
use crate::cli::render::format;
use crate::cli::render::output::Output;
use crate::cli::render::tables::SUMS;
use crate::plan::{Kind, Pressure, RemoveWord};
use crate::record::{HistoryEntry, HistoryFilter, RunId, StoreReader};

/// The reason of the row with the bytes of containers and sandboxes. It is last of its kind.
const BY_PASS: &str = "measured_by_pass";
/// More runs than a store keeps.
const ALL_RUNS: usize = i32::MAX as usize;

/// The removals of a day for one reason.
#[derive(Serialize)]
struct Sum {
    /// The day, in UTC.
    day: Date,
    kind: Kind,
    /// The rule, as in plans; `measured_by_pass` = all containers and sandboxes of the day.
    reason: String,
    /// The name of the rule that the operator wrote; `null` = none.
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<String>,
    /// What set the rule aside from the settings: `pressure` = disk pressure, `flag` = `--pressure`; `null` = nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<&'static str>,
    removed: u64,
    /// Reclaimed bytes, measured; `null` = not measured for each object.
    freed_bytes: Option<u64>,
    /// How many of the images were pulled again within 14 days.
    pulled_again: u64,
    /// The estimated bytes of these.
    pulled_again_bytes: u64,
}

/// The reason of removals, the rule of the operator, and what set the rule aside.
type Why<'a> = (&'a str, Option<&'a str>, Option<&'static str>);

// === impl Sum ===

impl Sum {
    fn count(&mut self, entry: &HistoryEntry) {
        self.removed += 1;
        self.add_freed(entry.freed_bytes);
        if entry.pulled_again_at.is_some() {
            self.pulled_again += 1;
            self.pulled_again_bytes += entry.estimated_bytes.unwrap_or_default();
        }
    }

    fn add_freed(&mut self, bytes: Option<u64>) {
        self.freed_bytes = bytes.map_or(self.freed_bytes, |bytes| Some(self.freed_bytes.unwrap_or(0) + bytes));
    }

    /// Formats how many were pulled again, and their bytes, if any.
    fn pulled_again(&self) -> String {
        let bytes = format::size(self.pulled_again_bytes);
        if self.pulled_again > 0 { format!("{} ({bytes})", self.pulled_again) } else { String::new() }
    }
}

/// Prints the number of removals and the reclaimed bytes by day and reason.
pub(super) fn print(args: &Args, store: &StoreReader, output: &mut Output) -> Result<(), CliError> {
    let filter = HistoryFilter { limit: None, ..args.filter() };
    // Newest day first.
    let mut sums = BTreeMap::new();
    let requested = requested(store)?;
    let mut add = |at: Timestamp, kind, (reason, rule, by): Why, change: &dyn Fn(&mut Sum)| {
        let day = at.to_zoned(TimeZone::UTC).date();
        let (reason, rule) = (reason.to_owned(), rule.map(str::to_owned));
        let key = (Reverse(day), kind, reason == BY_PASS, reason.clone(), rule.clone(), by);
        let (freed_bytes, removed, pulled_again, pulled_again_bytes) = Default::default();
        let new = || Sum { day, kind, reason, rule, by, removed, freed_bytes, pulled_again, pulled_again_bytes };
        change(sums.entry(key).or_insert_with(new));
    };
    for entry in store.history(&filter)?.iter().filter(|entry| entry.outcome == "removed") {
        let rule = entry.reason_values.get("rule").and_then(|rule| rule.as_str());
        add(entry.at, entry.kind, (&entry.reason, rule, by(entry, &requested)), &|sum| sum.count(entry));
    }
    if shows_steps(&filter) {
        for (at, bytes) in store.step_bytes(filter.since.unwrap_or(Timestamp::MIN))? {
            add(at, Kind::Container, (BY_PASS, None, None), &|sum| sum.add_freed(Some(bytes)));
        }
    }
    let sums: Vec<_> = sums.into_values().collect();
    output.entries(&sums, [], || match sums.as_slice() {
        [] => args.nothing().to_owned(),
        sums => rows(sums),
    })
}

/// Returns the runs that removed what disk pressure would remove because a flag requested it.
fn requested(store: &StoreReader) -> Result<BTreeSet<RunId>, CliError> {
    let flag = Pressure::Requested {}.to_string();
    let runs = store.runs(ALL_RUNS)?.into_iter();
    Ok(runs.filter(|run| run.triggered_by.as_ref() == Some(&flag)).map(|run| run.id).collect())
}

/// Returns what set a rule that depends on disk pressure.
fn by(entry: &HistoryEntry, requested: &BTreeSet<RunId>) -> Option<&'static str> {
    let is_by_pressure = entry.reason_values.get("pressure").is_some_and(|pressure| *pressure == true);
    is_by_pressure.then(|| if requested.contains(&entry.run) { "flag" } else { "pressure" })
}

/// Returns whether the objects that are measured by pass are all among those that the filter selects.
fn shows_steps(filter: &HistoryFilter) -> bool {
    !filter.pulled_again
        && filter.text.is_none()
        && filter.namespace.is_none()
        && filter.kind.is_none_or(|kind| kind == Kind::Container)
}

fn rows(sums: &[Sum]) -> String {
    let rows = sums.iter().map(|sum| {
        let kind = sum.kind.as_str().replace('_', " ");
        let removed = if sum.reason == BY_PASS { String::new() } else { sum.removed.to_string() };
        let freed = sum.freed_bytes.map(format::size).unwrap_or_default();
        [sum.day.to_string(), kind, removed, freed, sum.pulled_again(), rule(sum)]
    });
    SUMS.text(rows)
}

/// Returns the words of a rule without its values, which differ between the removals of a day.
fn rule(sum: &Sum) -> String {
    let by = match sum.by {
        Some("flag") => " (--pressure)",
        Some(_) => " (disk pressure)",
        None => "",
    };
    if let Some(rule) = &sum.rule {
        return format!("rule {rule:?}");
    }
    let words = match sum.reason.parse() {
        Ok(RemoveWord::Unused) if sum.by.is_none() => "unused (images.all_unused)",
        Ok(RemoveWord::PodTerminal) if sum.by.is_none() => "pod terminated (containers.evict_terminated_pods)",
        Ok(word) => word.phrase(),
        Err(_) if sum.reason == BY_PASS => "all containers and sandboxes (measured by pass)",
        // Of another version.
        Err(_) => return sum.reason.replace('_', " ") + by,
    };
    format!("{words}{by}")
}
