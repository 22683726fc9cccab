//! What became of a plan, for people.

use std::fmt::Write as _;

use super::{Grid, Paint};
use crate::cli::{human, words};
use crate::daemon::Pass;
use crate::execute::{Outcome, Report};
use crate::plan::Kind;

/// Every action that did not go as planned, then the counts by kind, then the sum; `wide` names every action.
pub(in crate::cli) fn collection(pass: &Pass, wide: bool, paint: Paint) -> String {
    let mut text = told(&pass.reports, wide);
    let removed = if pass.tallies.total().would_remove > 0 { "WOULD GO" } else { "REMOVED" };
    let mut grid = Grid::new(&["KIND", removed, "GONE", "REFUSED", "FAILED", "NOT NEEDED", "FREED"]);
    for (kind, tally) in pass.tallies.iter() {
        let freed = if tally.freed_bytes > 0 { human::size(tally.freed_bytes) } else { String::new() };
        let numbers =
            [tally.removed + tally.would_remove, tally.already_gone, tally.refused, tally.failed, tally.not_needed];
        let [removed, gone, refused, failed, not_needed] = numbers.map(|number| number.to_string());
        grid.row([words::kind(kind).to_owned(), removed, gone, refused, failed, not_needed, freed]);
    }
    if !pass.reports.is_empty() {
        text += &grid.text();
        text.push('\n');
    }
    for error in &pass.plan.errors {
        let _ = writeln!(text, "{} {}", paint.red("Error:"), human::printable(&words::plan_error(error)));
    }
    for halt in &pass.summary.halts {
        let _ = writeln!(text, "{} {}", paint.red("Error:"), human::printable(&halt.to_string()));
    }
    let _ = writeln!(text, "{}", sum(pass, paint));
    text
}

fn told(reports: &[Report], wide: bool) -> String {
    let mut grid = Grid::new(&["KIND", "ID", "NAME", "POD", "OUTCOME", "FREED", "WHY"]);
    let is_news = |report: &&Report| wide || is_trouble(&report.outcome) || report.note.is_some();
    let news: Vec<_> = reports.iter().filter(is_news).collect();
    for report in &news {
        let target = &report.action.target;
        let id = target.id();
        grid.row([
            words::kind(target.kind()).to_owned(),
            words::object_id(target.kind(), &id, wide),
            words::object_name(target.kind(), &id, target.name(), wide),
            report.action.pod.as_ref().map(|pod| words::fit(&pod.to_string(), wide)).unwrap_or_default(),
            report.outcome.kind().replace('_', " "),
            report.freed_bytes.map(human::size).unwrap_or_default(),
            why(report),
        ]);
    }
    if news.is_empty() { String::new() } else { grid.text() + "\n" }
}

fn is_trouble(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Failed { .. } | Outcome::Refused { .. })
}

/// What went wrong, or else why it went.
fn why(report: &Report) -> String {
    let note = report.note.clone();
    match &report.outcome {
        Outcome::Failed { error } => error.clone(),
        Outcome::Refused { refusal } => note.unwrap_or_else(|| refusal.to_string()),
        _ => note.unwrap_or_else(|| words::removed(&report.action.reason)),
    }
}

fn sum(pass: &Pass, paint: Paint) -> String {
    let counted = |kind: Kind| {
        let tally = pass.tallies.of(kind);
        (kind, usize::try_from(tally.removed + tally.would_remove).unwrap_or(usize::MAX))
    };
    let some = Kind::ALL.into_iter().map(counted).filter(|(_, count)| *count > 0);
    let things: Vec<_> = some.map(|(kind, count)| human::count(count, words::kind(kind))).collect();
    let kept = pass.kept();
    if things.is_empty() {
        return format!("{} {kept} stay.", paint.bold("Nothing removed."));
    }
    let total = pass.tallies.total();
    let word = if total.would_remove > 0 { "Would be removed:" } else { "Removed:" };
    let freed =
        if total.freed_bytes > 0 { format!(", {} came back", human::size(total.freed_bytes)) } else { String::new() };
    format!("{} {}{}. {kept} stay.", paint.bold(word), human::list(&things), paint.green(&freed))
}
