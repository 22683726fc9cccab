//! What came of a collection, for people: a line for each kind, what did not go and why, the sum.

use std::fmt::Write as _;

use super::{Grid, Paint};
use crate::cli::{human, words};
use crate::daemon::Pass;
use crate::execute::{Outcome, Report};

/// The end of a collection; `wide` names everything that it did.
pub(in crate::cli) fn collected(pass: &Pass, wide: bool, paint: Paint) -> String {
    let mut text = String::new();
    if wide && !pass.reports.is_empty() {
        text += &all(&pass.reports);
        text.push('\n');
    }
    if !pass.reports.is_empty() {
        text += &counts(pass);
        text.push('\n');
    }
    text += &troubles(&pass.reports, paint);
    for error in &pass.plan.errors {
        let _ = writeln!(text, "{} {}", paint.red("Error:"), human::printable(&words::plan_error(error)));
    }
    if pass.summary.shortfall_bytes > 0 {
        let _ = writeln!(text, "The image disk is still {} short.", human::size(pass.summary.shortfall_bytes));
    }
    let _ = writeln!(text, "{}", sum(pass, paint));
    text
}

fn counts(pass: &Pass) -> String {
    let dry = pass.tallies.total().would_remove > 0;
    let first = if dry { "WOULD GO" } else { "REMOVED" };
    let mut grid = Grid::new(&["KIND", first, "GONE ALREADY", "NOT NEEDED", "REFUSED", "FAILED", "FREED"]);
    for (kind, tally) in pass.tallies.iter() {
        grid.row([
            words::kind(kind).to_owned(),
            if dry { tally.would_remove } else { tally.removed }.to_string(),
            tally.already_gone.to_string(),
            tally.not_needed.to_string(),
            tally.refused.to_string(),
            tally.failed.to_string(),
            if tally.freed_bytes > 0 { human::size(tally.freed_bytes) } else { String::new() },
        ]);
    }
    grid.text()
}

/// What was to go and did not, a line each.
fn troubles(reports: &[Report], paint: Paint) -> String {
    let mut text = String::new();
    for report in reports {
        let Some(why) = trouble(report) else { continue };
        let word = match report.outcome {
            Outcome::Failed { .. } => paint.red("Failed:"),
            _ => paint.yellow("Refused:"),
        };
        let _ = writeln!(text, "{word} {}: {}", human::printable(&object(report)), human::printable(&why));
    }
    text
}

fn trouble(report: &Report) -> Option<String> {
    let why = match &report.outcome {
        Outcome::Failed { error } => error.clone(),
        Outcome::Refused { refusal } => refusal.to_string(),
        _ => return None,
    };
    Some(report.note.as_ref().map_or(why.clone(), |note| format!("{why}: {note}")))
}

/// An object in a line of text.
fn object(report: &Report) -> String {
    let target = &report.action.target;
    let id = words::object_id(target.kind(), &target.id(), false);
    let name = words::object_name(target.kind(), &target.id(), target.name(), true);
    let pod = report.action.pod.as_ref().map(|pod| format!("of {pod}")).unwrap_or_default();
    let words = [words::kind(target.kind()), &name, &id, &pod];
    let words: Vec<_> = words.into_iter().filter(|word| !word.is_empty()).collect();
    words.join(" ")
}

fn all(reports: &[Report]) -> String {
    let mut grid = Grid::new(&["KIND", "ID", "NAME", "POD", "OUTCOME", "FREED", "WHY"]);
    for report in reports {
        let (action, target) = (&report.action, &report.action.target);
        grid.row([
            words::kind(target.kind()).to_owned(),
            words::object_id(target.kind(), &target.id(), true),
            words::object_name(target.kind(), &target.id(), target.name(), true),
            action.pod.as_ref().map(ToString::to_string).unwrap_or_default(),
            report.outcome.kind().replace('_', " "),
            report.freed_bytes.map(human::size).unwrap_or_default(),
            trouble(report).unwrap_or_else(|| words::removed(&action.reason)),
        ]);
    }
    grid.text()
}

fn sum(pass: &Pass, paint: Paint) -> String {
    let total = pass.tallies.total();
    let stay = pass.plan.kept.len();
    if pass.reports.is_empty() {
        return format!("{} {stay} stay.", paint.bold("Nothing to remove."));
    }
    let number = |count: u64| human::count(usize::try_from(count).unwrap_or(usize::MAX), "object");
    let mut text = if total.would_remove > 0 {
        format!("{} {}", paint.bold("Dry run: would remove"), number(total.would_remove))
    } else {
        format!("{} {}", paint.bold("Removed"), number(total.removed))
    };
    if total.freed_bytes > 0 {
        let _ = write!(text, ", {} came back", paint.green(&human::size(total.freed_bytes)));
    }
    let rest = [(total.already_gone, "gone already"), (total.refused, "refused"), (total.failed, "failed")];
    for (count, word) in rest.into_iter().filter(|(count, _)| *count > 0) {
        let _ = write!(text, ", {count} {word}");
    }
    format!("{text}. {stay} stay.")
}
