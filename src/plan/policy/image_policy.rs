//! When images are removed, and in which order: the settings of images.

use std::time::Duration;

use crate::plan::images::goal::ImageTarget;
use crate::plan::images::pace::Pace;
use crate::plan::images::pattern::Pattern;
use crate::rules::Score;

/// When to remove images (kubelet settings of the same meaning).
#[derive(Clone, Debug, PartialEq)]
pub struct ImagePolicy {
    /// `images.high_threshold_percent`
    pub high_threshold_percent: u64,
    /// `images.low_threshold_percent`
    pub low_threshold_percent: u64,
    /// `images.min_age`
    pub min_age: Duration,
    /// `images.max_age`
    pub max_age: Duration,
    /// `images.keep`
    pub keep: Vec<Pattern>,
    /// `images.all_unused`
    pub all_unused: bool,
    /// `images.targets`
    pub targets: Vec<ImageTarget>,
    /// `images.pace`
    pub pace: Pace,
    /// `images.order`
    pub order: ImageOrder,
    /// `images.undo`
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
