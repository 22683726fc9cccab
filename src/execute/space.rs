//! Measures the free space for images (I9). The sizes of removed images are not summed up.
//!
//! `observe` measures with the same reader of disks, so both measure the same.
//!
//! A removal is over when the disk has changed for the last time.

use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::OnceCell;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::Executor;
use crate::model::FileSystem;
use crate::plan::ImageSummary;

/// The file system of the images and the target for its free space.
#[derive(Debug)]
pub(super) struct Space {
    /// The available bytes that are enough; 0 = no amount is enough.
    target: u64,
    /// The free inodes that are enough; 0 = any number.
    target_inodes: u64,
    /// The mountpoint of the images, or that the runtime reports none. It is requested at the first measurement.
    mountpoint: OnceCell<Option<PathBuf>>,
}

// === impl Space ===

impl Space {
    /// Creates the space of a plan.
    pub(super) fn new(images: &ImageSummary) -> Self {
        let ImageSummary { stop_at_available_bytes, stop_at_free_inodes, .. } = *images;
        Self { target: stop_at_available_bytes, target_inodes: stop_at_free_inodes, mountpoint: OnceCell::new() }
    }

    /// Returns whether the measured space reaches the target. `false` if the space could not be measured: the plan's own
    /// calculation then holds.
    pub(super) fn is_enough(&self, disk: Option<&FileSystem>) -> bool {
        let reaches = |disk: &FileSystem| {
            let inodes = self.target_inodes == 0 || disk.inodes_free.is_some_and(|free| free >= self.target_inodes);
            disk.available_bytes >= self.target && inodes
        };
        self.target > 0 && disk.is_some_and(reaches)
    }

    /// Returns the usage of the file system of the images; `None` = could not be measured.
    pub(super) async fn measure(&self, exec: &Executor) -> Option<FileSystem> {
        let named = self.mountpoint.get_or_init(|| async { exec.reader.image_filesystem().await.ok().flatten() });
        let path = named.await.as_ref()?;
        exec.disks.measure(path).await.ok()
    }

    /// Returns the bytes that became available since `before`. Waits until they are as many as expected or the disk does not
    /// change any more, at most for the settle time; without an expectation it does not wait.
    pub(super) async fn reclaimed(&self, exec: &Executor, before: u64, expected: Option<u64>) -> Option<u64> {
        let until = Instant::now() + expected.map_or(Duration::ZERO, |_| exec.options.space_settle);
        // For a small image, the noise of others would be most of what is expected.
        let expected = expected.unwrap_or_default();
        let enough = expected.saturating_sub(NOISE_BYTES.min(expected / 20));
        let mut last = LastChange::default();
        loop {
            let available = self.measure(exec).await?.available_bytes;
            let reclaimed = available.saturating_sub(before);
            if reclaimed >= enough || last.is_over(available, Instant::now()) || Instant::now() >= until {
                return Some(reclaimed);
            }
            sleep(POLL).await;
        }
    }

    /// Measures how many bytes are missing to reach the target; `None` = no target, or not measured.
    pub(super) async fn shortfall(&self, exec: &Executor) -> Option<u64> {
        if self.target == 0 {
            return None;
        }
        self.measure(exec).await.map(|disk| self.target.saturating_sub(disk.available_bytes))
    }

    /// Returns whether the free space is still below the target after the settle time. `false` if it could not be
    /// measured: fallback candidates are removed only for a measured need.
    pub(super) async fn is_still_short(&self, exec: &Executor, stop: &CancellationToken) -> bool {
        if !self.is_short(exec).await {
            return false;
        }
        let settle = exec.options.space_settle;
        if settle.is_zero() {
            return true;
        }
        tokio::select! {
            () = tokio::time::sleep(settle) => {}
            () = stop.cancelled() => return true,
        }
        self.is_short(exec).await
    }

    async fn is_short(&self, exec: &Executor) -> bool {
        let disk = self.measure(exec).await;
        self.target > 0 && disk.is_some() && !self.is_enough(disk.as_ref())
    }
}

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
