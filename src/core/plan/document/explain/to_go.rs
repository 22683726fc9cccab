//! The time until a reason to keep an object ends by itself.

use jiff::{SignedDuration, Timestamp};

use crate::plan::document::Kept;
use crate::plan::document::reason::KeepReason;

// === impl Kept ===

impl Kept {
    /// Returns the seconds after `taken_at`, the time of the plan, at which the reason ends by itself. `None` = it does
    /// not, or the plan does not show when.
    pub fn seconds_to_go(&self, taken_at: Timestamp) -> Option<i64> {
        let until = |end: Timestamp| end.duration_since(taken_at).as_secs();
        let after =
            |since: Timestamp, seconds| since.saturating_add(SignedDuration::from_secs(seconds)).ok().map(until);
        let seconds = match &self.reason {
            KeepReason::YoungerThanMinAge { min_age_seconds } => min_age_seconds - self.age_seconds.unwrap_or_default(),
            KeepReason::MaybeStarting { created_grace_seconds } => created_grace_seconds - self.age_seconds?,
            KeepReason::YoungSandbox { sandbox_grace_seconds } => sandbox_grace_seconds - self.age_seconds?,
            KeepReason::PodMissing { absent_since, gone_after_seconds } => {
                after(absent_since.unwrap_or(taken_at), *gone_after_seconds)?
            }
            KeepReason::BackingOff { retry_at, .. } => until(*retry_at),
            _ => return None,
        };
        Some(seconds).filter(|seconds| *seconds > 0)
    }
}
