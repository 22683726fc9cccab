//! A suggestion: thresholds, ages and orders that would have pulled less again.
//!
//! They are tried on the first half of the trace, and the best of them is judged on the second half, which did not choose it. There it goes
//! on with the images of its own first half: what that removed may be pulled again.

use std::time::Duration;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::replay::{Replay, Ruler, Totals};
use crate::model::Trace;
use crate::plan::{ImageOrder, ImagePolicy, Policy};

/// The high thresholds that are tried, in percent.
const HIGH: [u64; 5] = [70, 75, 80, 85, 90];
/// How far below it the low threshold is, in percentage points.
const BELOW: [u64; 3] = [2, 5, 10];
/// The maximum ages that are tried, in days; 0 = none.
const MAX_AGE_DAYS: [u64; 4] = [0, 7, 14, 30];
/// Settings that a replay finds better than those in force.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct Suggestion {
    /// The settings, as `KEY=VALUE`; none = those in force were the best.
    pub settings: Vec<String>,
    /// Where the second half begins.
    pub second_half_since: Timestamp,
    /// The settings in force on the first half.
    pub first_half_in_force: Totals,
    /// The suggestion on the first half, for which it was chosen.
    pub first_half: Totals,
    /// The settings in force on the second half.
    pub second_half_in_force: Totals,
    /// The suggestion on the second half, for which it was not chosen.
    pub second_half: Totals,
}

/// Settings that are tried, and what a replay of them counts.
struct Trial {
    images: ImagePolicy,
    totals: Totals,
}

/// Tries settings on the first half of a trace, and judges the best of them on the second half. `changes` returns what differs from those in
/// force.
pub fn suggest(
    trace: &Trace,
    in_force: &Policy,
    ruler: &Ruler,
    changes: impl FnOnce(&ImagePolicy) -> Vec<String>,
) -> Suggestion {
    let middle = ruler.since + ruler.until.duration_since(ruler.since) / 2;
    let first = Ruler { until: middle, ..ruler.clone() };
    let second = Ruler { counts_since: middle, ..ruler.clone() };
    let totals = |images: &ImagePolicy, ruler| {
        let policy = Policy { images: images.clone(), ..in_force.clone() };
        Replay::of(trace, &policy, ruler).totals
    };
    let begin = Trial { images: in_force.images.clone(), totals: totals(&in_force.images, &first) };
    let first_half_in_force = begin.totals.clone();
    let best = [thresholds, max_ages, orders].into_iter().fold(begin, |best, others| {
        let tried = others(&best.images).into_iter();
        let tried = tried.map(|images| Trial { totals: totals(&images, &first), images });
        tried.fold(best, |best, trial| if trial.totals.is_better(&best.totals) { trial } else { best })
    });
    Suggestion {
        second_half_since: middle,
        first_half_in_force,
        first_half: best.totals,
        second_half_in_force: totals(&in_force.images, &second),
        second_half: totals(&best.images, &second),
        settings: changes(&best.images),
    }
}

// === impl Totals ===

impl Totals {
    /// Returns whether less is evicted or, if not more, less is pulled again, by a twentieth: less than that is chance.
    pub fn is_better(&self, than: &Self) -> bool {
        let is_less = |one: u64, other: u64| one < other - other.div_ceil(20);
        let evicted = |totals: &Self| totals.above_eviction_seconds.unsigned_abs();
        is_less(evicted(self), evicted(than))
            || evicted(self) <= evicted(than) && is_less(self.pulled_again_bytes, than.pulled_again_bytes)
    }
}

fn thresholds(of: &ImagePolicy) -> Vec<ImagePolicy> {
    let pairs = HIGH.into_iter().flat_map(|high| BELOW.map(|below| (high, high - below)));
    let in_force = (of.high_threshold_percent, of.low_threshold_percent);
    // They have an effect only where not all unused images are removed.
    let with = |(high_threshold_percent, low_threshold_percent)| ImagePolicy {
        high_threshold_percent,
        low_threshold_percent,
        all_unused: false,
        ..of.clone()
    };
    [in_force].into_iter().chain(pairs).map(with).collect()
}

fn max_ages(of: &ImagePolicy) -> Vec<ImagePolicy> {
    let with = |days: u64| ImagePolicy { max_age: Duration::from_hours(24 * days), ..of.clone() };
    MAX_AGE_DAYS.into_iter().map(with).collect()
}

fn orders(of: &ImagePolicy) -> Vec<ImagePolicy> {
    let orders = [ImageOrder::LeastRecentlyUsed].into_iter().chain(super::orders());
    orders.map(|order| ImagePolicy { order, ..of.clone() }).collect()
}
