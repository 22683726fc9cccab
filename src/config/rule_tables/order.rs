//! Reads the order of images: a word, or an expression in CEL.

use toml::Value;

use crate::config::entry::WrongValue;
use crate::config::position::OfPart;
use crate::plan::ImageOrder;
use crate::rules::Score;

/// The kubelet's order.
const LEAST_RECENTLY_USED: &str = "least-recently-used";

pub(in crate::config) fn read(value: &Value) -> Result<ImageOrder, WrongValue> {
    let text = value.as_str().ok_or(WrongValue::NotAllowed)?;
    if text.trim() == LEAST_RECENTLY_USED {
        return Ok(ImageOrder::LeastRecentlyUsed);
    }
    let subject = format!("expected {LEAST_RECENTLY_USED:?} or an expression that gives a number: ");
    let part = |fault| OfPart { path: String::new(), subject: subject.clone(), fault };
    let wrong = |faults: Vec<_>| WrongValue::Parts(faults.into_iter().map(part).collect());
    Score::compile(text).map(ImageOrder::Score).map_err(wrong)
}

pub(in crate::config) fn print(order: &ImageOrder) -> Value {
    match order {
        ImageOrder::LeastRecentlyUsed => LEAST_RECENTLY_USED,
        ImageOrder::Score(score) => score.text(),
    }
    .into()
}
