//! Measures the free space for images (I9). The sizes of removed images are not summed up.
//!
//! `observe` measures with the same reader of disks, so both measure the same.

use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::OnceCell;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::Executor;
use super::quiet::{LastChange, NOISE_BYTES, POLL};

/// The file system of the images and the target for its free space.
#[derive(Debug)]
pub(super) struct Space {
    /// The available bytes that are enough; 0 = no amount is enough.
    target: u64,
    /// The mountpoint of the images, or that the runtime reports none. It is requested at the first measurement.
    mountpoint: OnceCell<Option<PathBuf>>,
}

// === impl Space ===

impl Space {
    pub(super) fn new(target: u64) -> Self {
        Self { target, mountpoint: OnceCell::new() }
    }

    /// Returns whether the measured bytes reach the target. `false` if the space could not be measured: the plan's own
    /// calculation then holds.
    pub(super) fn is_enough(&self, available: Option<u64>) -> bool {
        self.target > 0 && available.is_some_and(|available| available >= self.target)
    }

    /// Returns the available bytes on the file system of the images; `None` = could not be measured.
    pub(super) async fn available(&self, exec: &Executor) -> Option<u64> {
        let named = self.mountpoint.get_or_init(|| async { exec.reader.image_filesystem().await.ok().flatten() });
        let path = named.await.as_ref()?;
        exec.disks.measure(path).await.ok().map(|disk| disk.available_bytes)
    }

    /// Returns the bytes that became available since `before`. Waits until they are as many as expected or the disk does not
    /// change any more, at most for the settle time; without an expectation it does not wait.
    pub(super) async fn reclaimed(&self, exec: &Executor, before: u64, expected: Option<u64>) -> Option<u64> {
        let until = Instant::now() + expected.map_or(Duration::ZERO, |_| exec.options.space_settle);
        let mut last = LastChange::default();
        loop {
            let available = self.available(exec).await?;
            let reclaimed = available.saturating_sub(before);
            let is_all = reclaimed.saturating_add(NOISE_BYTES) >= expected.unwrap_or_default();
            if is_all || last.is_over(available, Instant::now()) || Instant::now() >= until {
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
        self.available(exec).await.map(|available| self.target.saturating_sub(available))
    }

    /// Returns whether the free space is still below the target after the settle time. `false` if it could not be
    /// measured: fallback candidates are removed only for a measured need.
    pub(super) async fn is_still_short(&self, exec: &Executor, stop: &CancellationToken) -> bool {
        let is_short = |shortfall: Option<u64>| shortfall.is_some_and(|bytes| bytes > 0);
        if !is_short(self.shortfall(exec).await) {
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
        is_short(self.shortfall(exec).await)
    }
}
