//! What waits, fails or is parked (G6): numbers, names of resources, and of a few objects, cut and printable (G5).
//!
//! Readiness shows what concerns a whole resource. The leader writes all of it to its Lease, so that
//! `kubegc controller status` and `kubectl describe lease` show it.

use std::time::Duration;

use super::work::engine::{Engine, State};
use super::work::outcome::ClusterFailure;
use crate::model::{Identity, cut_text, duration_text, printable_text};

const NAMED: usize = 10;
/// How many objects are named: the Lease has them.
const NAMED_OBJECTS: usize = 3;
/// The most characters of an object, and of the cause why it fails.
const LONGEST: usize = 100;

// === impl Engine ===

impl Engine {
    /// Returns a line for each way in which whole resources are not collected.
    pub(super) fn resources_left_out(&self) -> Vec<String> {
        let State { resources, brake, .. } = &*self.state();
        let paused = brake.paused().map(|id| (resources.name(id), Duration::ZERO)).collect();
        [
            line("not listed so far", resources.unlisted()),
            line("cannot be watched now", resources.failing()),
            line("paused by the brake", paused),
            line("discovery failed, no resource known", resources.unknown_groups()),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// Returns a line for each thing that needs attention.
    pub(super) fn attention(&self) -> Vec<String> {
        let mut lines = self.resources_left_out();
        // Not those of `figures`, which counts all objects: the Lease is renewed every other second.
        let state = self.state();
        let ((failing, longest), parked, longest_wait) = (state.failing(), state.parked(), state.waiting.longest());
        if failing > 0 {
            let names = named(state.first_failures(NAMED_OBJECTS).map(failure), failing);
            lines.push(format!("objects that fail: {failing}, the longest for {}: {names}", seconds(longest)));
        }
        if parked > 0 {
            let names = named(state.first_parked(NAMED_OBJECTS).iter().map(object), parked);
            lines.push(format!("objects that wait for another discovery or list: {parked}: {names}"));
        }
        if longest_wait > Duration::ZERO {
            lines.push(format!("longest foreground deletion: {}", seconds(longest_wait)));
        }
        lines
    }
}

fn failure(ClusterFailure { object: it, cause }: &ClusterFailure) -> String {
    format!("{} ({})", object(it), printable_text(&cut_text(cause, LONGEST)))
}

fn object(object: &Identity) -> String {
    printable_text(&cut_text(&object.to_string(), LONGEST))
}

/// Joins the names of some of `count` things, and says how many more there are.
fn named(names: impl IntoIterator<Item = String>, count: usize) -> String {
    let mut names: Vec<_> = names.into_iter().collect();
    if let Some(more) = count.checked_sub(names.len()).filter(|more| *more > 0) {
        names.push(format!("and {more} more"));
    }
    names.join(", ")
}

fn seconds(time: Duration) -> String {
    duration_text(Duration::from_secs(time.as_secs()))
}

/// Names the first of these things, and says for how long the oldest has been one.
fn line(what: &str, mut things: Vec<(String, Duration)>) -> Option<String> {
    things.sort();
    let oldest = things.iter().map(|(_, since)| *since).max()?;
    let names = named(things.iter().take(NAMED).map(|(name, _)| name.clone()), things.len());
    let since = if oldest.is_zero() { String::new() } else { format!(" for {}", seconds(oldest)) };
    Some(format!("{what}{since}: {names}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_few_objects_and_counts_others() {
        let things = |count: u64| (0..count).map(|it| (format!("r{it:02}"), Duration::from_secs(60 * it))).collect();
        assert_eq!(line("lost", things(0)), None);
        assert_eq!(line("lost", things(1)).unwrap(), "lost: r00");
        assert_eq!(line("lost", things(3)).unwrap(), "lost for 2m: r00, r01, r02");
        assert!(line("lost", things(12)).unwrap().ends_with("r08, r09, and 2 more"));
    }
}
