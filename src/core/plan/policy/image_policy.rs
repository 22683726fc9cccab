//! When images are removed, and in which order: the settings of images.

use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::time::Duration;

use humantime::{format_duration, parse_duration};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::image_target::ImageTarget;
use crate::model::{ImageName, bytes_of_text, exact_size_text};
use crate::rules::Score;

/// When to remove images (kubelet settings of the same meaning).
#[derive(Clone, Debug, PartialEq)]
pub struct ImagePolicy {
    pub high_threshold_percent: u64,
    pub low_threshold_percent: u64,
    pub min_age: Duration,
    pub max_age: Duration,
    pub keep: Vec<ImageName>,
    pub all_unused: bool,
    pub targets: Vec<ImageTarget>,
    pub pace: Pace,
    pub order: ImageOrder,
    pub undo: Duration,
}

/// Which unused image is removed first.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ImageOrder {
    /// The one that was used least recently, as in the kubelet.
    #[default]
    LeastRecentlyUsed,
    /// The one with the highest score.
    Score(Score),
}

/// `images.pace`: the limits of one pass.
#[derive(Clone, Copy, Debug, Default, Eq, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct Pace {
    /// The most images; absent = any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub images: Option<u64>,
    /// The most bytes, by the estimates; absent = any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Seconds of the pause between two removals.
    #[serde(default)]
    pub pause_seconds: u64,
    /// The most seconds that the first pass after a start of the service waits.
    #[serde(default)]
    pub start_seconds: u64,
}

// === impl ImagePolicy ===

impl ImagePolicy {
    /// Returns whether the bytes of all images together can be a reason.
    pub fn has_total(&self) -> bool {
        self.targets.iter().any(|target| matches!(target, ImageTarget::Total { .. }))
    }

    /// Returns whether image removal is off. The kubelet does not start its loop then (1.36).
    pub fn is_off(&self) -> bool {
        let has_thresholds = self.high_threshold_percent < 100;
        !has_thresholds && self.max_age.is_zero() && !self.all_unused && self.targets.is_empty()
    }
}

impl Default for ImagePolicy {
    fn default() -> Self {
        Self {
            high_threshold_percent: 85,
            low_threshold_percent: 80,
            min_age: Duration::from_mins(2),
            max_age: Duration::ZERO,
            keep: Vec::new(),
            all_unused: false,
            targets: Vec::new(),
            pace: Pace::default(),
            order: ImageOrder::default(),
            undo: Duration::ZERO,
        }
    }
}

// === impl Pace ===

impl Pace {
    /// Returns the pause between two removals.
    pub fn pause(self) -> Duration {
        Duration::from_secs(self.pause_seconds)
    }

    /// Returns how long the first pass of a node waits: a part of the longest wait that depends on the name of the node, so
    /// that the nodes of a rollout do not all begin at once.
    pub fn start_delay(self, node: &str) -> Duration {
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(node);
        Duration::from_secs(hash % self.start_seconds.saturating_add(1))
    }

    /// A regular expression for the text of a part.
    pub const PATTERN: &str = "^images [1-9][0-9]*$|^bytes [0-9]+ ?[KMGT]?i?B$|^(pause|start) .+$";

    /// Adds a part, as in the settings. Each is more than 0: a part that is absent has no effect. The error says what is wrong.
    pub fn with(self, part: &str) -> Result<Self, String> {
        let forms =
            "\"images NUMBER\", \"bytes SIZE\", \"pause TIME\" up to 1m or \"start TIME\" up to 1day, each more than 0";
        self.with_part(part).ok_or_else(|| format!("{part:?} is not a part of a pace: expected {forms}"))
    }

    fn with_part(self, part: &str) -> Option<Self> {
        let (name, limit) = part.split_once(' ')?;
        let limit = limit.trim();
        let number = |number: Option<u64>| number.filter(|number| *number > 0);
        let seconds = |most| number(Some(parse_duration(limit).ok()?.as_secs())).filter(|seconds| *seconds <= most);
        Some(match name {
            "images" => Self { images: Some(number(limit.parse().ok())?), ..self },
            "bytes" => Self { bytes: Some(number(bytes_of_text(limit))?), ..self },
            "pause" => Self { pause_seconds: seconds(60)?, ..self },
            "start" => Self { start_seconds: seconds(24 * 60 * 60)?, ..self },
            _ => return None,
        })
    }

    /// Returns the parts, as in the settings.
    pub fn parts(self) -> Vec<String> {
        let time =
            |name, seconds| (seconds > 0).then(|| format!("{name} {}", format_duration(Duration::from_secs(seconds))));
        let parts = [
            self.images.map(|images| format!("images {images}")),
            self.bytes.map(|bytes| format!("bytes {}", exact_size_text(bytes))),
            time("pause", self.pause_seconds),
            time("start", self.start_seconds),
        ];
        parts.into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::policy::Policy;

    #[test]
    fn the_first_passes_of_many_nodes_are_spread_out() {
        let pace = Pace { start_seconds: 99, ..Pace::default() };
        let delays: Vec<_> = (0..1000).map(|node| pace.start_delay(&format!("node-{node}")).as_secs()).collect();
        assert!(delays.iter().all(|delay| *delay < 100));
        let in_tenth = |tenth| delays.iter().filter(|delay| **delay / 10 == tenth).count();
        assert!((0..10).all(|tenth| (50..200).contains(&in_tenth(tenth))), "{delays:?}");
        assert_eq!(Pace::default().start_delay("node-1"), Duration::ZERO);
    }

    #[test]
    fn a_pace_is_read_and_shown_in_the_same_form() {
        let parts = ["images 20", "bytes 1GiB", "pause 10s", "start 5m"];
        assert_eq!(
            parts.map(|part| Pace::default().with(part).unwrap().parts()),
            parts.map(|part| vec![part.to_owned()])
        );
        assert_eq!(parts.iter().try_fold(Pace::default(), |pace, part| pace.with(part)).unwrap().parts(), parts);
        for wrong in ["images 0", "bytes 0", "pause 0s", "pause 61s", "start 25h", "images", "layers 3"] {
            assert!(Pace::default().with(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_a_target_of_all_images_is_a_total() {
        let has_total = |target: &str| {
            let images = ImagePolicy { targets: vec![target.parse().unwrap()], ..ImagePolicy::default() };
            Policy { images, ..Policy::default() }.has_image_total()
        };
        assert_eq!(["total 2GiB..1GiB", "free 1GiB..2GiB"].map(has_total), [true, false]);
    }
}
