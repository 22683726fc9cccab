//! Decides when a disk has changed for the last time after a removal.

use std::time::Duration;

use tokio::time::Instant;

/// The interval between measurements while the runtime may still delete data.
pub(super) const POLL: Duration = Duration::from_millis(50);
/// The wait for space whose amount is not known, or of which less came than expected, ends when the disk has not changed
/// for this long: the runtime deletes nothing more.
const QUIET: Duration = Duration::from_millis(200);
/// A difference of this size may come from other writers, so no wait continues for it.
pub(super) const NOISE_BYTES: u64 = 1 << 20;

/// When the available bytes changed last, and their value since.
#[derive(Default)]
pub(super) struct LastChange(Option<(Instant, u64)>);

// === impl LastChange ===

impl LastChange {
    /// Returns whether the bytes have not changed for `QUIET`.
    pub(super) fn is_over(&mut self, bytes: u64, now: Instant) -> bool {
        match self.0 {
            Some((since, same)) if same.abs_diff(bytes) <= NOISE_BYTES => now.duration_since(since) >= QUIET,
            _ => {
                self.0 = Some((now, bytes));
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_without_sizes_ends_when_the_disk_is_quiet() {
        let (begun, mut last) = (Instant::now(), LastChange::default());
        let mut is_over = |bytes, millis| last.is_over(bytes, begun + Duration::from_millis(millis));
        assert!(!is_over(0, 0) && !is_over(0, 150));
        assert!(!is_over(2 * NOISE_BYTES, 190), "the runtime deletes");
        assert!(!is_over(3 * NOISE_BYTES, 380), "others write");
        assert!(is_over(3 * NOISE_BYTES, 390));
    }
}
