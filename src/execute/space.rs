//! Measures the free space for images (I9). The sizes of removed images are not summed up.

use std::path::PathBuf;

use tokio::sync::OnceCell;

use super::Run;

/// The file system of the images and the target for its free space.
#[derive(Debug)]
pub(super) struct Space {
    /// The available bytes that are enough; 0 = no amount is enough.
    target: u64,
    /// The mountpoint of the images; `None` = the runtime reports none. It is requested at the first measurement.
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

    /// Returns how many bytes are missing to reach the target; `None` = no target, or not measured.
    fn shortfall(&self, available: Option<u64>) -> Option<u64> {
        available.filter(|_| self.target > 0).map(|available| self.target.saturating_sub(available))
    }
}

// === impl Run ===

impl Run<'_> {
    /// Returns the available bytes on the file system of the images; `None` = could not be measured.
    pub(super) async fn available(&self) -> Option<u64> {
        let request = async || self.exec.reader.image_filesystem().await.ok().flatten();
        let path = self.space.mountpoint.get_or_init(request).await.as_ref()?;
        self.exec.disks.measure(path).await.ok().map(|disk| disk.available_bytes)
    }

    /// Measures how many bytes are missing to reach the target; `None` = no target, or not measured.
    pub(super) async fn shortfall(&self) -> Option<u64> {
        if self.space.target == 0 {
            return None;
        }
        let available = self.available().await;
        self.space.shortfall(available)
    }

    /// Returns whether the free space is still below the target after the settle time. `false` if it could not be
    /// measured: fallback candidates are removed only for a measured need.
    pub(super) async fn is_still_short(&self) -> bool {
        let is_short = |shortfall: Option<u64>| shortfall.is_some_and(|bytes| bytes > 0);
        if !is_short(self.shortfall().await) {
            return false;
        }
        let settle = self.exec.options.space_settle;
        if settle.is_zero() {
            return true;
        }
        tokio::select! {
            () = tokio::time::sleep(settle) => {}
            () = self.stop.cancelled() => return true,
        }
        is_short(self.shortfall().await)
    }
}
