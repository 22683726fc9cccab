//! The sections of the page.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use maud::{Markup, html};
use serde::Serialize;

use super::chart::{self, Mark, Span};
use super::outlook::{Outlook, Removals};
use crate::model::{FileSystem, count_text, cut_text, short_id, size_text};
use crate::record::{HistoryEntry, RunEntry, UsageSample};

/// How far back the charts of file systems reach.
const USAGE: SignedDuration = SignedDuration::from_hours(7 * 24);
/// The longest text of a cell, in characters: a user of the cluster may have written it.
pub(super) const LONGEST: usize = 1000;
/// The days of the chart of reclaimed bytes.
const DAYS: usize = 30;

#[derive(Clone, Debug, Serialize)]
pub struct Document {
    /// The node and its agent.
    pub facts: Facts,
    /// What the store has.
    pub past: Past,
    /// What the next pass would do, or why that is not known.
    pub outlook: Result<Outlook, String>,
}

/// The node and its agent.
#[derive(Clone, Debug, Serialize)]
pub struct Facts {
    /// The name of the node.
    pub node: String,
    /// The time of the page.
    pub at: Timestamp,
    /// The version of the program.
    pub program: String,
    /// `collect` or `observe`.
    pub mode: String,
    /// The profile of the rules.
    pub profile: String,
    /// `images.high_threshold_percent`
    pub high_percent: u64,
    /// `images.low_threshold_percent`
    pub low_percent: u64,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Past {
    /// The use of file systems, oldest first.
    pub usage: Vec<UsageSample>,
    /// Runs, newest first.
    pub runs: Vec<RunEntry>,
    /// The last removals, newest first.
    pub removals: Vec<HistoryEntry>,
    /// Why the store cannot be read.
    pub error: Option<String>,
}

// === impl Past ===

impl Past {
    /// Returns since when samples of the usage are shown.
    pub fn usage_since(at: Timestamp) -> Timestamp {
        at.checked_sub(USAGE).unwrap_or(Timestamp::MIN)
    }
}

// === impl Document ===

impl Document {
    pub(super) fn warnings(&self) -> Vec<String> {
        let store = self.past.error.iter().cloned();
        let pass = match &self.outlook {
            Ok(outlook) => outlook.errors.clone(),
            Err(cause) => vec![cause.clone()],
        };
        store.chain(pass).collect()
    }

    pub(super) fn disks(&self) -> Markup {
        let mut disks = BTreeMap::<&Path, Vec<&UsageSample>>::new();
        for sample in &self.past.usage {
            disks.entry(&sample.file_system.mountpoint).or_default().push(sample);
        }
        html! {
            section aria-labelledby="disks" {
                h2 id="disks" { "File systems" }
                @if disks.is_empty() { p { "Nothing is recorded yet: the agent records the usage in each pass over images." } }
                @for (mountpoint, samples) in disks { (self.disk(mountpoint, &samples)) }
            }
        }
    }

    fn disk(&self, mountpoint: &Path, samples: &[&UsageSample]) -> Markup {
        let Some(last) = samples.last().map(|sample| &sample.file_system) else { return html! {} };
        let points: Vec<_> = samples.iter().map(|sample| (sample.at, used(&sample.file_system))).collect();
        let highest = points.iter().map(|(_, percent)| *percent).fold(0.0, f64::max);
        let Facts { high_percent, low_percent, at, .. } = self.facts;
        let levels = [("high", high_percent), ("low", low_percent)];
        let hour_ago = at.checked_sub(SignedDuration::from_hours(1)).unwrap_or(at);
        let from = samples.first().map_or(hour_ago, |first| first.at.min(hour_ago));
        let span = Span { from, to: at };
        let scale = [("100 %", 1), ("50 %", 2)]
            .map(|(name, part)| format!("{name}, {}", size_text(last.capacity_bytes / part)));
        let [all, half] = scale;
        let used_now = format!("{:.0} % used, at most {highest:.0} %", used(last));
        let description =
            format!("Usage of {}: {used_now}; thresholds {high_percent} % and {low_percent} %", mountpoint.display());
        let bytes = last.used_bytes();
        html! {
            h3 { (mountpoint.display()) }
            p { (used_now) ": " (size_text(bytes)) " of " (size_text(last.capacity_bytes)) (inodes(last)) "." }
            @if let Some(forecast) = self.forecast(mountpoint) { p { "Forecast: " (forecast) "." } }
            (chart::line(span, &points, &levels, &self.marks(span), ([all, half, "0".to_owned()], &description)))
            ul.legend {
                li.high { "high threshold " (high_percent) " %" } li.low { "low threshold " (low_percent) " %" }
                li.removed { "pass that removed something" } li.failed { "pass with failures" }
                li.empty { "other pass" }
            }
        }
    }

    /// Returns how long the space of a disk lasts.
    fn forecast(&self, mountpoint: &Path) -> Option<String> {
        let outlook = self.outlook.as_ref().ok()?;
        let state = outlook.states.iter().find(|state| state.disk.file_system.mountpoint == mountpoint)?;
        state.forecast_text(outlook.contents.reclaimable_bytes)
    }

    fn marks(&self, span: Span) -> Vec<Mark> {
        let shown = self.past.runs.iter().filter(|run| run.started_at >= span.from);
        let mark = |run: &RunEntry| {
            let (class, height) = class(run);
            Mark { at: run.started_at, class, height, text: run_text(run) }
        };
        shown.map(mark).collect()
    }

    pub(super) fn days(&self) -> Markup {
        let mut sums = BTreeMap::<Date, u64>::new();
        for run in self.past.runs.iter().filter(|run| !run.dry) {
            *sums.entry(day(run.started_at)).or_default() += run.freed_bytes;
        }
        let days: Vec<_> =
            last_days(day(self.facts.at)).map(|day| (day, sums.get(&day).copied().unwrap_or(0))).collect();
        let total: u64 = days.iter().map(|(_, bytes)| bytes).sum();
        let highest = days.iter().map(|(_, bytes)| *bytes).max().unwrap_or_default();
        let text = format!("{} in {DAYS} days, at most {} on one day", size_text(total), size_text(highest));
        html! {
            section aria-labelledby="days" {
                h2 id="days" { "Reclaimed bytes per day" }
                p { (text) ", as measured." }
                (chart::bars(&days, size_text, &format!("Reclaimed bytes per day: {text}")))
            }
        }
    }

    /// Formats the last removals: first what freed most. Those that freed nothing are counted.
    pub(super) fn removed(&self) -> Markup {
        let (freed_none, mut shown): (Vec<_>, Vec<_>) =
            self.past.removals.iter().partition(|entry| entry.freed_bytes == Some(0));
        shown.sort_by_key(|entry| Reverse(entry.freed_bytes));
        html! {
            section aria-labelledby="removed" {
                h2 id="removed" { "Last removals" }
                @if self.past.removals.is_empty() { p { "None." } } @else {
                    (table("removed", &["Time", "Kind", "Name", "Pod", "Outcome", "Reclaimed", "Why"], &html! {
                        @for entry in shown { (removal(entry)) }
                    }))
                    @if !freed_none.is_empty() { p { "and " (count_text(freed_none.len(), "removal")) " of 0B" } }
                }
            }
        }
    }

    pub(super) fn next(&self) -> Markup {
        let Ok(outlook) = &self.outlook else { return html! {} };
        html! {
            section aria-labelledby="next" {
                h2 id="next" { "Removed next" }
                p { "As of " (chart::time(outlook.at)) ". " (sum(&outlook.next)) }
                (lines(&outlook.next, "next"))
                @if let Some(removals) = &outlook.under_pressure {
                    h3 id="pressure" { "Under disk pressure" }
                    @if removals.count > 0 && removals == &outlook.next { p { "The same." } } @else {
                        p { (sum(removals)) }
                        (lines(removals, "pressure"))
                    }
                }
            }
        }
    }

    pub(super) fn kept(&self) -> Markup {
        let Ok(outlook) = &self.outlook else { return html! {} };
        html! {
            section aria-labelledby="kept" {
                h2 id="kept" { "Kept, and why" }
                (table("kept", &["Objects", "Size", "Guard", "Why"], &html! {
                    @for kept in &outlook.kept { tr {
                        td { (count_text(kept.count, kept.kind.noun())) }
                        td { @if kept.bytes > 0 { (size_text(kept.bytes)) } }
                        td { @if kept.is_guard { "guard" } }
                        td { (kept.reason) }
                    } }
                }))
            }
        }
    }
}

/// Formats a table that scrolls by itself on a narrow screen.
pub(super) fn table(label: &str, heads: &[&str], rows: &Markup) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-labelledby=(label) { table aria-labelledby=(label) {
            thead { tr { @for head in heads { th scope="col" { (head) } } } }
            tbody { (rows) }
        } }
    }
}

fn removal(entry: &HistoryEntry) -> Markup {
    let id = if entry.id.starts_with('/') { &entry.id } else { short_id(&entry.id) };
    html! {
        tr {
            td { (chart::time(entry.at)) }
            td { (entry.kind.noun()) }
            td.name { (cut_text(entry.name.as_deref().unwrap_or(id), LONGEST)) }
            td.name { (cut_text(&entry.pod.as_ref().map(ToString::to_string).unwrap_or_default(), LONGEST)) }
            td { (entry.outcome.replace('_', " ")) }
            td { (entry.freed_bytes.map(size_text).unwrap_or_default()) }
            td { (cut_text(&entry.phrase(), LONGEST)) }
        }
    }
}

fn sum(removals: &Removals) -> Markup {
    match removals.count {
        0 => html! { "Nothing." },
        count => html! { (count_text(count, "object")) ", about " (size_text(removals.bytes)) "." },
    }
}

fn lines(removals: &Removals, label: &str) -> Markup {
    html! {
        @if !removals.first.is_empty() {
            (table(label, &["Kind", "Name", "Pod", "Size", "Why"], &html! {
                @for line in &removals.first { tr {
                    td { (line.kind.noun()) } td.name { (cut_text(&line.name, LONGEST)) } td.name { (cut_text(&line.pod, LONGEST)) }
                    td { (line.bytes.map(size_text).unwrap_or_default()) } td { (cut_text(&line.reason, LONGEST)) }
                } }
            }))
        }
        @if removals.count > removals.first.len() { p { "and " (removals.count - removals.first.len()) " more" } }
    }
}

/// Returns how a pass is marked: the less common, the higher.
fn class(run: &RunEntry) -> (&'static str, f64) {
    match run {
        run if run.failed > 0 || run.error.is_some() => ("failed", 30.0),
        run if run.removed > 0 => ("removed", 20.0),
        _ => ("empty", 8.0),
    }
}

fn run_text(run: &RunEntry) -> String {
    let RunEntry { scope, removed, failed, freed_bytes, started_at, .. } = run;
    let freed = size_text(*freed_bytes);
    format!("{}, {scope}: removed {removed}, failed {failed}, reclaimed {freed}", chart::time(*started_at))
}

/// Returns the used space in percent.
fn used(of: &FileSystem) -> f64 {
    chart::share(of.used_bytes(), of.capacity_bytes) * 100.0
}

fn inodes(of: &FileSystem) -> String {
    match (of.inodes, of.inodes_free) {
        (Some(all), Some(free)) if all > 0 => {
            format!("; inodes {:.0} % used", chart::share(all.saturating_sub(free), all) * 100.0)
        }
        _ => String::new(),
    }
}

fn day(at: Timestamp) -> Date {
    at.to_zoned(TimeZone::UTC).date()
}

/// Returns the last days up to `today`, in order.
fn last_days(today: Date) -> impl Iterator<Item = Date> {
    let back =
        move |days: usize| today.checked_sub(SignedDuration::from_hours(24 * i64::try_from(days).unwrap_or(0))).ok();
    (0..DAYS).rev().filter_map(back)
}
