//! `keepLastCopy` of policies: images without a registry that at least one of all the nodes keeps to which such a policy applies.
//!
//! Each of these nodes shows its images of this kind as labels of its NodeDisk. Of the nodes that have an image, the one whose name comes
//! first keeps it, and another removes it only if that one was heard lately. So nothing
//! coordinates them, and without an answer each node keeps its own. What a node shows can only make others remove what their own settings let go.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::node_disk::NodeDiskStatus;
use super::overview::is_heard;
use crate::model::{ImageId, is_image_pattern};

/// The labels of a NodeDisk that show images begin so.
pub const COPY_LABEL: &str = "copies.kubegc.dev/";
/// The most images that a node shows. Other nodes do not know of the others, and keep their own.
pub const MOST_COPIES: usize = 100;
/// The API server is asked for so many images at once: each is a list that it has to search.
const ASKED_AT_ONCE: usize = 3;
/// It is asked for one image this often.
const ASK_AGAIN: Duration = Duration::from_mins(5);
/// The time is doubled at most so often, to 80 minutes.
const MOST_DOUBLED: u32 = 4;
/// A holder whose clock is further ahead does not count: it would be heard for that much longer.
const CLOCK_SKEW: SignedDuration = SignedDuration::from_mins(1);
/// An answer counts for this long: until the one after the next.
const COUNTS_FOR: Duration = Duration::from_mins(10);
/// How much of an id is in a label: a part of a label has at most 63 characters.
const DIGITS: usize = 40;

/// Images whose last copy is kept.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, schemars::JsonSchema, Serialize)]
#[serde(default)]
pub struct KeepLastCopy {
    /// Patterns of names, as in `images.keep`. Images without a digest, as containerd has those that were imported, are always among
    /// them; CRI-O gives each image a digest, so there they need a pattern.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20), inner(length(min = 1, max = 300), regex(pattern = "^[A-Za-z0-9._/:@*-]+$")))]
    pub images: Vec<String>,
}

/// The images that other nodes keep, as far as the API server said so.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(transparent)]
pub struct KnownCopies {
    asked: BTreeMap<ImageId, Asked>,
}

/// The last answer about an image.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
struct Asked {
    at: Timestamp,
    is_elsewhere: bool,
    /// How often the answer was the same before.
    repeated: u32,
}

// === impl KeepLastCopy ===

impl KeepLastCopy {
    /// Returns what is wrong with a pattern.
    pub(super) fn fault(&self) -> Option<String> {
        let wrong = self.images.iter().find(|pattern| !is_image_pattern(pattern))?;
        Some(format!("spec.keepLastCopy: {wrong:?} names no image"))
    }
}

// === impl KnownCopies ===

impl KnownCopies {
    /// Returns the images to ask for now: a few of those that wait, the ones that were asked for longest ago.
    pub fn due(&self, waiting: &[ImageId], now: Timestamp) -> Vec<ImageId> {
        let age = |id: &ImageId| self.asked.get(id).map_or(Duration::MAX, |asked| asked.age(now));
        let is_due = |id: &&ImageId| self.asked.get(*id).is_none_or(|asked| asked.age(now) >= asked.ask_again());
        let mut due: Vec<_> = waiting.iter().filter(is_due).cloned().collect();
        due.sort_by_key(|id| Reverse(age(id)));
        due.truncate(ASKED_AT_ONCE);
        due
    }

    /// Notes an answer.
    pub fn note(&mut self, image: ImageId, is_elsewhere: bool, now: Timestamp) {
        let before = self.asked.get(&image).filter(|asked| asked.is_elsewhere == is_elsewhere);
        let repeated = before.map_or(0, |asked| asked.repeated.saturating_add(1));
        self.asked.insert(image, Asked { at: now, is_elsewhere, repeated });
    }

    /// Forgets images that do not wait.
    pub fn limit_to(&mut self, waiting: &[ImageId]) {
        self.asked.retain(|id, _| waiting.contains(id));
    }

    /// Returns the images that another node keeps.
    pub fn elsewhere(&self, now: Timestamp) -> BTreeSet<ImageId> {
        let counts = |asked: &Asked| asked.is_elsewhere && now >= asked.at && asked.age(now) < COUNTS_FOR;
        self.asked.iter().filter(|(_, asked)| counts(asked)).map(|(id, _)| id.clone()).collect()
    }
}

// === impl Asked ===

impl Asked {
    fn age(&self, now: Timestamp) -> Duration {
        now.duration_since(self.at).unsigned_abs()
    }

    /// An image that only this node has would be asked for without end, so less and less often.
    fn ask_again(&self) -> Duration {
        let doubled = if self.is_elsewhere { 0 } else { self.repeated.min(MOST_DOUBLED) };
        ASK_AGAIN * 2_u32.pow(doubled)
    }
}

/// Returns the label that shows an image; `None` = its id is no digest.
pub fn copy_label(image: &ImageId) -> Option<String> {
    let id = image.canonical();
    let digits = id.strip_prefix("sha256:")?.get(..DIGITS)?;
    digits.bytes().all(|it| it.is_ascii_hexdigit()).then(|| format!("{COPY_LABEL}{digits}"))
}

/// Returns whether one of the nodes that show an image keeps it before this node: it is heard, and its name comes first.
pub fn is_kept_before<'a>(
    node: &str,
    mut holders: impl Iterator<Item = (&'a str, &'a NodeDiskStatus)>,
    now: Timestamp,
) -> bool {
    let is_ahead = |status: &NodeDiskStatus| status.at.is_some_and(|at| at.duration_since(now) > CLOCK_SKEW);
    holders.any(|(holder, status)| holder < node && is_heard(status, now) && !is_ahead(status))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn of_several_nodes_the_first_that_is_heard_keeps_an_image() {
        let heard = |second| NodeDiskStatus { at: Some(at(second)), ..NodeDiskStatus::default() };
        let holders = [("a", heard(0)), ("b", heard(500)), ("c", heard(1000))];
        let kept =
            |node: &str, second| is_kept_before(node, holders.iter().map(|(name, status)| (*name, status)), at(second));
        assert_eq!(["a", "b", "c", "d"].map(|node| kept(node, 800)), [false, true, true, true]);
        assert_eq!(["a", "b", "c", "d"].map(|node| kept(node, 1000)), [false, false, true, true], "a is silent");
        assert_eq!(["c", "d"].map(|node| kept(node, 1500)), [false, true]);
        assert!(!kept("d", 1900));
        assert_eq!([-60, -61].map(|second| kept("d", second)), [true, false], "the clock of a is ahead");
    }

    #[test]
    fn an_answer_counts_for_a_time_and_all_have_their_turn() {
        let ids: Vec<ImageId> = (10..22).map(|number| ImageId::from(number.to_string().as_str())).collect();
        let mut known = KnownCopies::default();
        let mut turns = Vec::new();
        for round in 0..4 {
            let due = known.due(&ids, at(round * 30));
            assert_eq!(due.len(), ASKED_AT_ONCE);
            for id in due {
                known.note(id.clone(), round == 0, at(round * 30));
                turns.push(id);
            }
        }
        turns.sort();
        assert_eq!(turns, ids, "each once");
        assert_eq!(known.due(&ids, at(299)), []);
        assert_eq!(known.due(&ids, at(300)), turns[..ASKED_AT_ONCE], "the oldest answers");
        assert_eq!(known.elsewhere(at(599)).len(), ASKED_AT_ONCE);
        assert_eq!([600, -1].map(|second| known.elsewhere(at(second)).len()), [0, 0]);
        known.limit_to(&ids[..1]);
        assert_eq!(known.elsewhere(at(1)).len(), 1);
        let mut only_here = KnownCopies::default();
        let mut times = Vec::new();
        for second in 0..40_000 {
            for id in only_here.due(&ids[..1], at(second)) {
                only_here.note(id, false, at(second));
                times.push(second / 300);
            }
        }
        assert_eq!(times, [0, 1, 3, 7, 15, 31, 47, 63, 79, 95, 111, 127], "less and less often");
    }

    #[test]
    fn a_label_has_the_digits_of_an_id() {
        let digits = "0123456789".repeat(6) + "abcd";
        let label = Some(format!("copies.kubegc.dev/{}", "0123456789".repeat(4)));
        for id in [format!("sha256:{digits}"), digits] {
            assert_eq!(copy_label(&ImageId::from(id.as_str())), label, "{id}");
        }
        for odd in ["", "sha256:", "sha256:01", &format!("sha256:{}", "../".repeat(30))] {
            assert_eq!(copy_label(&ImageId::from(odd)), None, "{odd}");
        }
    }
}
