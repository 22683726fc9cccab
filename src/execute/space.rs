//! Measures the free space for images (I9). The sizes of removed images are not summed up.

use std::path::PathBuf;

use super::Run;

/// The file system of the images and the target for its free space.
#[derive(Debug)]
pub(super) struct Space {
    /// The available bytes that are enough; 0 = no amount is enough.
    target: u64,
    mountpoint: Mountpoint,
}

/// The mountpoint of the images, as the runtime reports it at the first measurement.
#[derive(Debug)]
enum Mountpoint {
    NotAsked,
    Known(PathBuf),
    NotTold,
}

// === impl Space ===

impl Space {
    pub(super) fn new(target: u64) -> Self {
        Self { target, mountpoint: Mountpoint::NotAsked }
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
    pub(super) async fn available(&mut self) -> Option<u64> {
        if let Mountpoint::NotAsked = self.space.mountpoint {
            self.space.mountpoint = match self.exec.reader.image_filesystem().await {
                Ok(Some(path)) => Mountpoint::Known(path),
                Ok(None) | Err(_) => Mountpoint::NotTold,
            };
        }
        let Mountpoint::Known(path) = &self.space.mountpoint else { return None };
        self.exec.disks.measure(path).await.ok().map(|disk| disk.available_bytes)
    }

    /// Measures how many bytes are missing to reach the target; `None` = no target, or not measured.
    pub(super) async fn shortfall(&mut self) -> Option<u64> {
        if self.space.target == 0 {
            return None;
        }
        let available = self.available().await;
        self.space.shortfall(available)
    }

    /// Returns whether the free space is still below the target after the settle time. `false` if it could not be
    /// measured: fallback candidates are removed only for a measured need.
    pub(super) async fn is_still_short(&mut self) -> bool {
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
