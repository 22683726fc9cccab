//! Reads the order of images: a word, or an expression in CEL.

use toml::Value;

use crate::config::position::OfPart;
use crate::plan::ImageOrder;
use crate::rules::Score;

/// The kubelet's order.
const LEAST_RECENTLY_USED: &str = "least-recently-used";

pub(in crate::config) fn read(value: &Value) -> Option<ImageOrder> {
    match value.as_str()?.trim() {
        LEAST_RECENTLY_USED => Some(ImageOrder::LeastRecentlyUsed),
        expression => Score::compile(expression).ok().map(ImageOrder::Score),
    }
}

pub(in crate::config) fn print(order: &ImageOrder) -> Value {
    match order {
        ImageOrder::LeastRecentlyUsed => LEAST_RECENTLY_USED,
        ImageOrder::Score(score) => score.text(),
    }
    .into()
}

/// Returns the faults of an expression.
pub(in crate::config) fn wrong(value: &Value) -> Vec<OfPart> {
    let faults = value.as_str().and_then(|text| Score::compile(text).err()).unwrap_or_default();
    let subject = format!("expected {LEAST_RECENTLY_USED:?} or an expression that gives a number: ");
    faults.into_iter().map(|fault| OfPart { path: String::new(), subject: subject.clone(), fault }).collect()
}
