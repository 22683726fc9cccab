//! The images that kubegc removed, which of them were pulled again, and the pulls that passes saw, by repository.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{Image, ImageId};

/// An image counts as pulled again if the runtime has it within this time after its removal.
const PULLED_AGAIN_WITHIN: SignedDuration = SignedDuration::from_hours(14 * 24);
/// The longest time for which an image must be unused because it was pulled again.
const LONGEST_HOLD: SignedDuration = SignedDuration::from_hours(30 * 24);
/// A removal of an image that was pulled again is remembered for this long: by then the longest hold of an unused image has ended.
const REMEMBERED: SignedDuration = SignedDuration::from_hours(60 * 24);
/// Passes overlap, so a removal may be later than the snapshot of another pass. One that is later by more comes from a clock that
/// was set back.
const LONGEST_PASS: SignedDuration = SignedDuration::from_hours(1);

/// The last removal of each image that kubegc removed.
pub type RemovedImages = BTreeMap<ImageId, Arc<RemovedImage>>;

/// A removal of an image by kubegc, and when the image was pulled again.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct RemovedImage {
    /// When it was removed.
    pub at: Timestamp,
    /// The word of the reason, as in plans.
    #[serde(default)]
    pub reason: String,
    /// The name of the rule that removed it, or that set the limit; `null` = none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Its estimated bytes, as the metric of removals counts them.
    #[serde(default)]
    pub bytes: u64,
    /// The digests of its manifests, `sha256:…`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub digests: Vec<String>,
    /// For how long it had to be unused to be removed: `images.max_age`, or the hold because it had been pulled again. Of a
    /// removal for another reason, for how long it was unused.
    #[serde(default)]
    pub unused_seconds: i64,
    /// The last pass in which it was in use, and a container that used it, as in its memory before the removal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used_by: Option<String>,
    /// Until when its content was kept for `kubegc undo`; `null` = it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_until: Option<Timestamp>,
    /// The first pass that had the image again while its content was kept: nothing was transferred.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored_at: Option<Timestamp>,
    /// The first pass that had the image again otherwise; `null` = none had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pulled_again_at: Option<Timestamp>,
}

// === impl RemovedImage ===

impl RemovedImage {
    /// The most removals that are remembered. The oldest leave first. A removal takes some 400 bytes.
    pub const MOST: usize = 2_000;

    /// Returns when the image was back, by a restore or a pull.
    pub fn back_at(&self) -> Option<Timestamp> {
        self.pulled_again_at.or(self.restored_at)
    }

    /// Returns whether what is back at this time needed no transfer: its content was kept.
    pub fn was_kept(&self, at: Timestamp) -> bool {
        self.kept_until.is_some_and(|until| until > at)
    }

    /// Returns whether the removal is remembered: for 14 days, or for 60 if the image was pulled again.
    pub fn is_remembered(&self, now: Timestamp) -> bool {
        let longest = if self.back_at().is_some() { REMEMBERED } else { PULLED_AGAIN_WITHIN };
        (-LONGEST_PASS..longest).contains(&now.duration_since(self.at))
    }

    /// Returns for how many seconds the image must be unused until it is removed for the same reason again: twice as long as
    /// before, at most 30 days. `None` = it was pulled again later than `window_seconds` and the time before, so that this removal
    /// was worthwhile. `now` = when it was pulled again, if no pass has noted that yet.
    pub fn hold_seconds(&self, now: Timestamp, window_seconds: i64) -> Option<i64> {
        let away = self.back_at().unwrap_or(now).duration_since(self.at).as_secs();
        let hold = self.unused_seconds.saturating_mul(2).min(LONGEST_HOLD.as_secs());
        (away <= window_seconds.max(self.unused_seconds)).then_some(hold)
    }

    /// Returns whether this is the removal of an image, by a digest of its manifest: exactly the same, under any name.
    pub fn has_digest_of(&self, image: &Image) -> bool {
        !self.digests.is_empty()
            && manifest_digests(&image.digests).any(|digest| self.digests.iter().any(|of| of == digest))
    }
}

/// Returns the digests in names such as `repository@sha256:…`.
pub fn manifest_digests(names: &[String]) -> impl Iterator<Item = &str> {
    names.iter().filter_map(|name| name.rsplit_once('@')).map(|(_, digest)| digest)
}

/// What passes saw of the pulls of images, by the full name of the repository.
pub type Pulls = BTreeMap<String, RepositoryPulls>;

#[derive(Clone, Debug, JsonSchema, PartialEq, Deserialize, Serialize)]
pub struct RepositoryPulls {
    /// How often a pass found an image that the pass before did not have.
    pub pulls: u64,
    /// How long the last pull took that a pass saw in progress, at least 1, and too long by at most the time between two passes;
    /// `null` = none was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
    /// The pass that saw the last pull.
    pub last: Timestamp,
}

// === impl RepositoryPulls ===

impl RepositoryPulls {
    /// The most repositories that are remembered. Those whose last pull is the oldest leave first.
    pub const MOST: usize = 1_000;
    /// The longest name of a repository that is remembered, as in registries: a pod may name any other one.
    pub const LONGEST_NAME: usize = 255;
}
