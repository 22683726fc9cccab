//! Formats the result of a pass for display.

use super::output::is_wide;
use super::plan_tables::{log_limits, more_tags};
use super::tables::{REMOVED, REMOVED_BY_KIND};
use super::{Paint, counts, format, line, object};
use crate::plan::{Action, Kept, Kind, Measure, Outcome, Pass, Report, Summary};

/// Formats each object with its result, then the totals. A wide table names images whose removal was
/// not needed too.
pub(in crate::cli) fn collection(pass: &Pass, paint: Paint) -> String {
    details(&pass.reports) + &totals(pass, paint)
}

/// Formats the kept objects that the command names, and why each is kept.
pub(in crate::cli) fn named(kept: &[Kept]) -> String {
    let rows = kept.iter().map(|one| {
        let [kind, id, name, pod] = object(one.kind, &one.id, one.name.as_deref(), one.pod.as_ref());
        [kind, id, name, pod, "kept".to_owned(), String::new(), one.reason.explain().phrase.into_owned()]
    });
    if kept.is_empty() { String::new() } else { REMOVED.text(rows) + "\n" }
}

/// Formats the counts by kind, then the sum.
pub(in crate::cli) fn totals(pass: &Pass, paint: Paint) -> String {
    let mut text = String::new();
    let is_dry = pass.summary.total().would_remove > 0;
    let rows = pass.summary.outcomes.iter().map(|(&kind, tally)| {
        let freed = freed(pass.summary.freed_bytes.get(&kind).copied(), pass.summary.measure.get(&kind).copied());
        let removed = tally.removed + tally.would_remove;
        let numbers = [removed, tally.already_removed, tally.refused, tally.failed, tally.not_needed];
        let [removed, already, refused, failed, not_needed] = numbers.map(|number| number.to_string());
        let [removed, predicted] = if is_dry { [String::new(), removed] } else { [removed, String::new()] };
        [kind.noun().to_owned(), removed, predicted, already, refused, failed, not_needed, freed]
    });
    if !pass.reports.is_empty() {
        text += &REMOVED_BY_KIND.text(rows);
        text.push('\n');
    }
    text.extend(pass.errors().map(|error| line(&paint.red("Error:"), &error)));
    text.extend(pass.summary.suspended.iter().map(|cause| line(&paint.yellow("Suspended:"), cause)));
    text.extend(log_limits(&pass.plan).map(|note| line(&paint.yellow("Logs:"), &note)));
    text + &sum(pass, paint) + "\n"
}

fn details(reports: &[Report]) -> String {
    let is_shown = |report: &&Report| is_wide() || report.outcome != (Outcome::NotNeeded {});
    let rows = reports.iter().filter(is_shown).map(|report| {
        let Action { target, pod, .. } = &report.action;
        let [kind, id, name, pod] = object(target.kind(), &target.id(), target.name(), pod.as_ref());
        [
            kind,
            id,
            name + &more_tags(target),
            pod,
            report.outcome.kind().replace('_', " "),
            freed(report.freed_bytes, (report.outcome == (Outcome::Removed {})).then_some(report.measure)),
            why(report),
        ]
    });
    let rows: Vec<_> = rows.collect();
    if rows.is_empty() { String::new() } else { REMOVED.text(rows) + "\n" }
}

/// Formats a number of bytes, and how it was determined unless it was measured. `measure` is that of removed objects
/// only.
fn freed(bytes: Option<u64>, measure: Option<Measure>) -> String {
    match (bytes.unwrap_or_default(), measure) {
        (_, None) | (0, Some(Measure::Measured)) => String::new(),
        (bytes, Some(Measure::Measured)) => format::size(bytes),
        (bytes, Some(Measure::Estimated)) => format!("~{}", format::size(bytes)),
        (0, Some(Measure::Unknown)) => "unknown".to_owned(),
        (bytes, Some(Measure::Unknown)) => format!("at least {}", format::size(bytes)),
    }
}

/// Formats the bytes of all kinds, as `, 12.0KiB reclaimed (measured)`.
fn reclaimed(summary: &Summary) -> String {
    let part = |measure: Measure| match summary.freed_by(measure) {
        0 => String::new(),
        bytes => format!(", {} reclaimed ({})", format::size(bytes), measure.as_str()),
    };
    let is_unknown = summary.measure.values().any(|measure| *measure == Measure::Unknown);
    let rest = if is_unknown { ", more unknown" } else { "" };
    part(Measure::Measured) + &part(Measure::Estimated) + rest
}

/// Returns the error of an action, or else the reason of the removal.
fn why(report: &Report) -> String {
    let note = report.note.clone();
    match &report.outcome {
        Outcome::Failed { error, .. } => error.clone(),
        Outcome::Refused { refusal } => note.unwrap_or_else(|| refusal.to_string()),
        _ => {
            let reason = report.action.reason.explain().phrase.into_owned();
            note.map_or(reason.clone(), |note| format!("{reason}; {note}"))
        }
    }
}

fn sum(pass: &Pass, paint: Paint) -> String {
    let count = |kind: Kind| {
        let tally = pass.summary.of(kind);
        tally.removed + tally.would_remove
    };
    let (things, kept) = (counts(count), pass.kept());
    let total = pass.summary.total();
    let not_removed = not_removed(&pass.summary);
    if things.is_empty() {
        return format!("{}{} {kept} kept.", paint.bold("Nothing removed."), paint.red(&not_removed));
    }
    let word = if total.would_remove > 0 { "Would be removed:" } else { "Removed:" };
    let reclaimed = paint.green(&reclaimed(&pass.summary));
    format!("{} {things}{reclaimed}.{} {kept} kept.", paint.bold(word), paint.red(&not_removed))
}

/// Formats what was not removed, as ` 2 refused, 1 failed.`; empty = nothing.
fn not_removed(summary: &Summary) -> String {
    let total = summary.total();
    let counts = [(total.refused, "refused"), (total.failed, "failed"), (summary.not_begun, "not begun")];
    let counts = counts.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}"));
    let counts: Vec<_> = counts.collect();
    if counts.is_empty() { String::new() } else { format!(" {}.", counts.join(", ")) }
}
