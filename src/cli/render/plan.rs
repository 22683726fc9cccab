//! A plan for people: what goes with its reason, then what stays in a line for each reason, then the sum.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{Grid, Paint};
use crate::cli::{format, pods, reason_text};
use crate::plan::{Action, ImageSummary, ImageTrigger, Kept, Kind, Plan, Target};

/// The plan as a table; `wide` names everything that stays and leaves no name short.
pub(in crate::cli) fn plan(plan: &Plan, wide: bool, paint: Paint) -> String {
    let mut text = String::new();
    if !plan.actions.is_empty() {
        text += &actions(&plan.actions, wide);
        text.push('\n');
    }
    if !plan.kept.is_empty() {
        let _ = writeln!(text, "{}", paint.bold("Stays:"));
        text += &if wide { all_kept(&plan.kept) } else { kept(&plan.kept) };
        text.push('\n');
    }
    if let Some(pressure) = &plan.pressure {
        let _ = writeln!(text, "{} {}", paint.yellow("Pressure:"), format::printable(&reason_text::pressure(pressure)));
    }
    let _ = writeln!(text, "Pods: {}", format::printable(&pods::known_from(plan)));
    for note in &plan.lists {
        let _ = writeln!(text, "{} {}", paint.yellow("Lists:"), format::printable(&reason_text::list_note(note)));
    }
    text += &images(&plan.images, paint);
    for error in &plan.errors {
        let _ = writeln!(text, "{} {}", paint.red("Error:"), format::printable(&reason_text::plan_error(error)));
    }
    let _ = writeln!(text, "{}", summary(plan, paint));
    text
}

fn actions(actions: &[Action], wide: bool) -> String {
    let mut grid = Grid::new(&["KIND", "ID", "NAME", "POD", "AGE", "SIZE", "WHY"]);
    for action in actions {
        let id = action.target.id();
        grid.row([
            reason_text::kind(action.target.kind()).to_owned(),
            reason_text::object_id(action.target.kind(), &id, wide),
            name(&action.target, wide),
            action.pod.as_ref().map(|pod| reason_text::fit(&pod.to_string(), wide)).unwrap_or_default(),
            action.age_seconds.map(format::age).unwrap_or_default(),
            size(&action.target),
            reason_text::removed(&action.reason),
        ]);
    }
    grid.text()
}

/// What goes under this name; of an image with many tags the first and how many more.
fn name(target: &Target, wide: bool) -> String {
    let name = reason_text::object_name(target.kind(), &target.id(), target.name(), wide);
    match target {
        Target::RemoveImage { tags, .. } if tags.len() > 1 => format!("{name} +{}", tags.len() - 1),
        _ => name,
    }
}

fn size(target: &Target) -> String {
    match target {
        Target::RemoveImage { estimated_bytes, .. } => format::size(*estimated_bytes),
        _ => String::new(),
    }
}

/// One line for each kind and reason, in the order of the kinds, the most frequent first.
fn kept(kept: &[Kept]) -> String {
    let mut counts = BTreeMap::<_, usize>::new();
    for one in kept {
        *counts.entry((one.kind, reason_text::kept(one.kind, &one.reason))).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|((kind, _), count)| (*kind, std::cmp::Reverse(*count)));
    let things: Vec<_> =
        counts.iter().map(|((kind, _), count)| format::count(*count, reason_text::kind(*kind))).collect();
    let width = things.iter().map(String::len).max().unwrap_or_default();
    let lines = counts.iter().zip(things).map(|(((_, why), _), thing)| format!("  {thing:width$}   {why}\n"));
    lines.collect()
}

fn all_kept(kept: &[Kept]) -> String {
    let mut grid = Grid::new(&["KIND", "ID", "NAME", "POD", "WHY"]);
    for one in kept {
        let why = reason_text::kept(one.kind, &one.reason);
        grid.row([
            reason_text::kind(one.kind).to_owned(),
            reason_text::object_id(one.kind, &one.id, true),
            reason_text::object_name(one.kind, &one.id, one.name.as_deref(), true),
            one.pod.as_ref().map(ToString::to_string).unwrap_or_default(),
            reason_text::detail(&one.reason).map_or(why.clone(), |detail| format!("{why}: {detail}")),
        ]);
    }
    grid.text()
}

fn images(images: &ImageSummary, paint: Paint) -> String {
    let mut text = String::new();
    if images.triggered_by == Some(ImageTrigger::PercentUsed) {
        let used = images.used_percent.unwrap_or_default();
        let _ = writeln!(text, "Image disk: {used} % used, {} to free.", format::size(images.target_bytes));
    }
    if images.shortfall_bytes > 0 {
        let short = format!("{} short", format::size(images.shortfall_bytes));
        let _ = writeln!(text, "{} of it, even if every image that may go is gone.", paint.yellow(&short));
    }
    if !images.reserve.is_empty() {
        let next = format::count(images.reserve.len(), "image");
        let _ = writeln!(text, "{next} next in line, if the measured space is short after these.");
    }
    text
}

fn summary(plan: &Plan, paint: Paint) -> String {
    if plan.actions.is_empty() {
        return format!("{} {} stay.", paint.bold("Nothing to remove."), plan.kept.len());
    }
    let counted = |kind: Kind| (kind, plan.actions.iter().filter(|action| action.target.kind() == kind).count());
    let some = Kind::ALL.into_iter().map(counted).filter(|(_, count)| *count > 0);
    let things: Vec<_> = some.map(|(kind, count)| format::count(count, reason_text::kind(kind))).collect();
    let bytes: u64 = plan.actions.iter().map(|action| estimate(&action.target)).sum();
    let about = if bytes > 0 { format!(", about {}", format::size(bytes)) } else { String::new() };
    format!("{} {}{about}. {} stay.", paint.bold("To remove:"), format::list(&things), plan.kept.len())
}

fn estimate(target: &Target) -> u64 {
    match target {
        Target::RemoveImage { estimated_bytes, .. } => *estimated_bytes,
        _ => 0,
    }
}
