//! Formats a plan for display: each removal with its reason, then one line for each reason to keep objects, then the
//! sum. If there are many removals, the sum and one line for each reason to remove objects come first too.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::output::is_wide;
use super::tables::PLAN;
use super::{Paint, format, line, object, planned, pod_text as pods};
use crate::model::ImageId;
use crate::plan::{
    ImageSummary, ImageTrigger, Kind, ListNote, Plan, PlanError, Pressure, RuleNote, Target, WorkloadNote,
    kept_images_text,
};

/// The most workloads that are named.
const MOST_NOTES: usize = 10;
/// The number of removals beyond which the sum comes first, because it has left the screen at the end of the table.
const MANY: usize = 100;

/// Formats the plan as a table. A wide one names every kept object and shortens no name.
pub(in crate::cli) fn plan(plan: &Plan, paint: Paint) -> String {
    let mut text = String::new();
    if plan.actions.len() > MANY {
        let removals = plan.actions.iter().map(|action| (action.target.kind(), action.reason.explain().phrase));
        let _ = writeln!(text, "{}\n{}", summary(plan, paint), by_reason(removals));
    }
    if !plan.actions.is_empty() {
        text += &actions(plan);
        text.push('\n');
    }
    if !plan.kept.is_empty() {
        let _ = writeln!(text, "{}", paint.bold("Kept:"));
        let kept = || by_reason(plan.kept.iter().map(|one| (one.kind, one.reason.explain().phrase)));
        text += &if is_wide() { all_kept(plan) } else { kept() };
        text.push('\n');
    }
    if let Some(pressure) = &plan.pressure {
        text += &line(&paint.yellow("Pressure:"), &pressure_text(pressure));
    }
    if !plan.endpoint.is_empty() {
        text += &line("Runtime:", &plan.endpoint);
    }
    text += &disks(plan);
    text += &line("Pods:", &pods::sources_of(plan));
    text.extend(plan.lists.iter().map(|note| line(&paint.yellow("Lists:"), &list_note(note))));
    text.extend(
        plan.workloads.iter().take(MOST_NOTES).map(|note| line(&paint.yellow("Workload:"), &workload_note(note))),
    );
    text += &images(&plan.images, plan.removes(Kind::Image), paint);
    text.extend(plan.rules.iter().filter_map(rule_note).map(|note| line(&paint.yellow("Rule:"), &note)));
    text.extend(log_limits(plan).map(|note| line(&paint.yellow("Logs:"), &note)));
    let title = |error: &PlanError| if error.is_unobserved() { paint.red("Error:") } else { paint.yellow("Warning:") };
    text.extend(plan.errors.iter().map(|error| line(&title(error), &error.to_string())));
    let is_short = |error: &PlanError| matches!(error, PlanError::FreeDiskSpaceFailed { .. });
    let kept = plan.errors.iter().any(is_short).then(|| kept_images_text(plan));
    text.extend(kept.filter(|kept| !kept.is_empty()).map(|kept| line("Kept:", &kept)));
    text + &summary(plan, paint) + "\n"
}

/// Formats the disks, and how long their space lasts.
pub(in crate::cli) fn disks(plan: &Plan) -> String {
    let forecasts = plan.disks.iter().filter_map(|disk| disk.forecast_text(0)).map(|text| line("Forecast:", &text));
    plan.disks.iter().map(|disk| line("Disk:", &disk.text())).chain(forecasts).collect()
}

/// Formats the limits on log files that a plan does not meet, the largest first.
pub fn log_limits(plan: &Plan) -> impl Iterator<Item = String> {
    let mut notes: Vec<_> = plan.log_limits.iter().collect();
    notes.sort_by_key(|note| Reverse(note.bytes));
    notes.into_iter().take(MOST_NOTES).map(|note| format::printable(&note.to_string()))
}

fn actions(plan: &Plan) -> String {
    let rows = plan.actions.iter().map(|action| {
        let target = &action.target;
        let [kind, id, name, pod] = object(target.kind(), &target.id(), target.name(), action.pod.as_ref());
        [
            kind,
            id,
            name + &more_tags(target),
            pod,
            action.age_seconds.map(format::age).unwrap_or_default(),
            action.size().map(format::size).unwrap_or_default(),
            action.reason.explain().phrase.into_owned() + &score(&plan.images, &target.id()),
        ]
    });
    PLAN.text(rows)
}

/// Formats the score of an image by `images.order`.
fn score(images: &ImageSummary, id: &str) -> String {
    images.scores.get(&ImageId::from(id)).map(|score| format!(", score {score}")).unwrap_or_default()
}

/// Formats the number of the other tags of an image that a plan removes.
pub(super) fn more_tags(target: &Target) -> String {
    match target {
        Target::RemoveImage { tags, .. } => super::more_tags(tags),
        _ => String::new(),
    }
}

/// Formats one line for each kind and reason, in the order of the kinds, the most frequent first.
fn by_reason(objects: impl Iterator<Item = (Kind, Cow<'static, str>)>) -> String {
    let mut counts = BTreeMap::<_, usize>::new();
    for object in objects {
        *counts.entry(object).or_default() += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|((kind, _), count)| (*kind, std::cmp::Reverse(*count)));
    let things: Vec<_> = counts.iter().map(|((kind, _), count)| format::count(*count, kind.noun())).collect();
    let width = things.iter().map(String::len).max().unwrap_or_default();
    let lines = counts
        .iter()
        .zip(things)
        .map(|(((_, why), _), thing)| format!("  {thing:width$}   {}\n", format::printable(why)));
    lines.collect()
}

fn all_kept(plan: &Plan) -> String {
    let mut kept: Vec<_> = plan.kept.iter().collect();
    kept.sort_by_key(|one| (one.kind, one.pod.as_ref().map(ToString::to_string), &one.name, &one.id));
    let rows = kept.into_iter().map(|one| {
        let reason = one.reason.explain();
        let [kind, id, name, pod] = object(one.kind, &one.id, one.name.as_deref(), one.pod.as_ref());
        let to_go = one.seconds_to_go(plan.taken_at).map(|seconds| format!(", {} to go", format::age(seconds)));
        let score = score(&plan.images, &one.id);
        let why = reason.phrase.to_string() + &to_go.unwrap_or_default() + &score;
        let why = reason.detail.map_or(why.clone(), |detail| format!("{why}: {detail}"));
        let age = one.age_seconds.map(format::age).unwrap_or_default();
        let size = one.size.known().map(format::size).unwrap_or_default();
        [kind, id, name, pod, age, size, why]
    });
    PLAN.text(rows)
}

fn images(images: &ImageSummary, has_image: bool, paint: Paint) -> String {
    let mut text = String::new();
    if images.triggered_by == Some(ImageTrigger::PercentUsed) {
        let used = images.used_percent.unwrap_or_default();
        let _ = writeln!(text, "Image disk: {used}% used, {} to free.", format::size(images.target_bytes));
    }
    if let Some(target) = &images.began_by {
        let missing = match images.target_inodes {
            0 => format::size(images.target_bytes),
            inodes => format!("{inodes} inodes"),
        };
        let _ = writeln!(text, "Images: {target}, {missing} to free.");
    }
    if images.shortfall_bytes > 0 {
        let missing = paint.yellow(&format::size(images.shortfall_bytes));
        let why = if has_image { "all removable images are in the plan" } else { "no image can be removed now" };
        let _ = writeln!(text, "{missing} of it cannot be freed: {why}.");
    }
    if images.unscored > 0 {
        let count = format::count(usize::try_from(images.unscored).unwrap_or(usize::MAX), "image");
        let _ = writeln!(text, "{count} without a score by images.order, to be removed last.");
    }
    if images.beyond_pace > 0 {
        let rest = format::count(usize::try_from(images.beyond_pace).unwrap_or(usize::MAX), "image");
        let pace = images.pace.map(|pace| pace.parts().join(", ")).unwrap_or_default();
        let _ = writeln!(text, "{rest} left to later passes (images.pace: {pace}).");
    }
    if !images.reserve.is_empty() {
        let next = format::count(images.reserve.len(), "image");
        let _ = writeln!(
            text,
            "{next} would be removed too if these reclaim less space than estimated (fallback candidates)."
        );
    }
    text
}

fn summary(plan: &Plan, paint: Paint) -> String {
    if plan.actions.is_empty() {
        return format!("{} {} kept.", paint.bold("Nothing to remove."), plan.kept.len());
    }
    let things = planned(plan);
    let bytes: u64 = plan.actions.iter().map(|action| estimate(&action.target)).sum();
    let about = if bytes > 0 { format!(", about {}", format::size(bytes)) } else { String::new() };
    format!("{} {things}{about}. {} kept.", paint.bold("To remove:"), plan.kept.len())
}

fn estimate(target: &Target) -> u64 {
    match target {
        Target::RemoveImage { estimated_bytes, .. } => *estimated_bytes,
        _ => 0,
    }
}

/// Returns the disk pressure that a pass is to end.
fn pressure_text(pressure: &Pressure) -> String {
    match pressure {
        Pressure::Requested {} => "requested by a flag: removing everything unused".to_owned(),
        Pressure::FreeBytes { mountpoint, free_bytes, limit_bytes } => {
            let (free, limit) = (format::size(*free_bytes), format::size(*limit_bytes));
            format!("{} has {free} free, pressure.free_bytes = {limit}", mountpoint.display())
        }
        other => other.to_string(),
    }
}

/// Returns what people have to know of a rule: that it has ended, or that it cannot be evaluated for some objects.
pub(in crate::cli) fn rule_note(note: &RuleNote) -> Option<String> {
    let rule = format::printable(&note.rule);
    if note.expired {
        return Some(format!("{rule}: expired, it no longer applies"));
    }
    let error = format::printable(note.error.as_ref()?);
    let objects = format::count(usize::try_from(note.errors).unwrap_or(usize::MAX), "object");
    Some(format!("{rule}: not evaluated for {objects}, such as {error}"))
}

/// Describes how a list was received that does not fit into one message.
fn list_note(note: &ListNote) -> String {
    let ListNote { list, parts, bytes, complete, cause } = note;
    let incomplete = if *complete { "" } else { "; parts are missing" };
    let parts = format::count(*parts, "part");
    format!("{list} received in {parts} of {} together{incomplete}: {cause}", format::size(*bytes))
}

/// Describes a workload that names more images than are kept for it.
fn workload_note(note: &WorkloadNote) -> String {
    let WorkloadNote { workload, left_out } = note;
    format!("{workload} names {} beyond the limit of a workload or of its namespace", format::count(*left_out, "image"))
}
