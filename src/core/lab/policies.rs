//! Policies with which others are compared.

use crate::plan::{Guards, ImageOrder, ImagePolicy, Leftovers, Pace, Policy, Profile};
use crate::rules::{Rules, Score};

/// Orders besides the least recently used first, as in docs/rules.md: large images that are unused for long, and by cost.
const ORDERS: [&str; 2] = [
    "double(image.size_bytes) * double(image.unused.getHours())",
    "double(has(image.own_bytes) ? image.own_bytes : image.size_bytes) \
     / double((has(image.pull_seconds) ? image.pull_seconds : 30) * (has(image.pulls) ? image.pulls : 1))",
];

/// Returns the rules of the kubelet with the thresholds and ages in force, and nothing else.
pub fn of_kubelet(in_force: &Policy) -> Policy {
    let (profile, rules) = (Profile::Kubelet, Rules::default());
    let (guards, leftovers) = (Guards::of(profile), Leftovers::of(profile));
    let (keep, targets, order, pace) = (Vec::new(), Vec::new(), ImageOrder::default(), Pace::default());
    let images = ImagePolicy { keep, all_unused: false, targets, pace, order, ..in_force.images.clone() };
    Policy { profile, leftovers, images, guards, rules, ..in_force.clone() }
}

/// Returns the settings in force, with every unused image removed in each pass.
pub fn all_unused(in_force: &Policy) -> Policy {
    let images = ImagePolicy { all_unused: true, ..in_force.images.clone() };
    Policy { images, ..in_force.clone() }
}

/// Returns orders of images that may pull less again than the least recently used first.
pub fn orders() -> Vec<ImageOrder> {
    ORDERS.into_iter().filter_map(|text| Score::compile(text).ok()).map(ImageOrder::Score).collect()
}
