//! What to set or run for what takes much space and stays.

use std::collections::{BTreeMap, BTreeSet};

use crate::cli::render::format;
use crate::model::{LeftoverKind, duration_text};
use crate::plan::{KeepReason, Plan, Policy};
use crate::store::{Category, DiskAccount, LargeEntry};

/// The most steps that are shown.
const MOST: usize = 5;
/// What takes less is no reason to change a setting.
const SMALL: u64 = 1 << 20;

/// Returns the next steps, that of the most bytes first; empty = none is known.
pub(super) fn next_steps(account: &DiskAccount, plan: &Plan, policy: &Policy) -> String {
    let large = account.disks().flat_map(|disk| &disk.largest).filter_map(|entry| of_entry(entry, policy));
    let mut steps: Vec<_> = large.chain(of_leftovers(plan, policy)).chain(of_categories(account, policy)).collect();
    steps.retain(|(bytes, _)| *bytes >= SMALL);
    steps.sort_by(|one, other| other.0.cmp(&one.0).then_with(|| one.1.cmp(&other.1)));
    let lines = steps.iter().take(MOST).map(|(bytes, step)| format!("  {:>8}  {step}\n", format::size(*bytes)));
    let lines: String = lines.collect();
    if lines.is_empty() { lines } else { format!("Next steps:\n{lines}") }
}

fn of_entry(entry: &LargeEntry, policy: &Policy) -> Option<(u64, String)> {
    let what = match entry.category {
        Category::Logs if policy.logs.limits.is_empty() => "set logs.limits = [\"pod 200MiB\"]",
        Category::PodVolumes if entry.name.starts_with("empty-dir") => {
            "set a sizeLimit for the volume, or delete the pod"
        }
        Category::DeletedFiles => "restart the process, or end it",
        _ => return None,
    };
    let of = format!("{} of {}", format::printable(&entry.name), format::printable(&entry.held_by));
    Some((entry.usage.bytes, format!("{of}: {what}")))
}

/// Returns what goes with another value of `leftovers.remove`.
fn of_leftovers(plan: &Plan, policy: &Policy) -> Vec<(u64, String)> {
    let mut kinds: BTreeMap<LeftoverKind, (usize, u64)> = BTreeMap::new();
    for one in &plan.kept {
        let KeepReason::NotSelected { leftover } = one.reason else { continue };
        let (count, bytes) = kinds.entry(leftover).or_default();
        *count += 1;
        *bytes = bytes.saturating_add(one.size.known().unwrap_or_default());
    }
    let step = |(kind, (count, bytes)): (LeftoverKind, (usize, u64))| {
        let all: BTreeSet<_> = policy.leftovers.0.iter().copied().chain([kind]).collect();
        let words: Vec<_> = all.into_iter().map(|kind| format!("\"{}\"", <&str>::from(kind))).collect();
        let by_itself =
            if kind == LeftoverKind::Unreferenced { "it goes with the next removal of an image, or " } else { "" };
        (bytes, format!("{} ({count}): {by_itself}set leftovers.remove = [{}]", kind.phrase(), words.join(", ")))
    };
    kinds.into_iter().map(step).collect()
}

fn of_categories(account: &DiskAccount, policy: &Policy) -> Vec<(u64, String)> {
    let bytes = |of: Category| {
        let entries = account.disks().flat_map(|disk| &disk.categories).filter(|entry| entry.category == of);
        entries.map(|entry| entry.bytes).fold(0, u64::saturating_add)
    };
    let undo = duration_text(policy.images.undo);
    [
        (
            Category::KeptForUndo,
            format!("removed images that undo keeps for {undo}: set images.undo = \"0s\" until there is space"),
        ),
        (
            Category::CompressedBlobs,
            "registry layers of unpacked images, which no container needs: where the node serves no images to others, set \
             discard_unpacked_layers of containerd for what it pulls from then on"
                .to_owned(),
        ),
    ]
    .into_iter()
    .map(|(category, step)| (bytes(category), step))
    .collect()
}
