//! Disk space is measured, not added up (I9).

use std::path::PathBuf;

use super::{Remover, Run};

/// The space on the file system of the images, and how much of it is enough.
#[derive(Debug)]
pub(super) struct Space {
    /// Available bytes that are enough; 0 = there is never enough.
    target: u64,
    mountpoint: Mountpoint,
}

/// Where the images lie, as the runtime says when it is asked first.
#[derive(Debug)]
enum Mountpoint {
    NotAsked,
    Told(PathBuf),
    NotTold,
}

// === impl Space ===

impl Space {
    pub(super) fn new(target: u64) -> Self {
        Self { target, mountpoint: Mountpoint::NotAsked }
    }

    /// Says whether measured bytes reach the target. What could not be measured does not: the plan's own arithmetic
    /// stands then.
    pub(super) fn is_enough(&self, available: Option<u64>) -> bool {
        self.target > 0 && available.is_some_and(|available| available >= self.target)
    }

    /// How much measured bytes fall short of the target; `None` = no target, or not measured.
    fn shortfall(&self, available: Option<u64>) -> Option<u64> {
        available.filter(|_| self.target > 0).map(|available| self.target.saturating_sub(available))
    }
}

// === impl Run ===

impl<H: Remover> Run<'_, H> {
    /// Available bytes on the file system of the images; `None` = could not be measured.
    pub(super) async fn available(&mut self) -> Option<u64> {
        if let Mountpoint::NotAsked = self.space.mountpoint {
            self.space.mountpoint = match self.exec.reader.image_filesystem().await {
                Ok(Some(path)) => Mountpoint::Told(path),
                Ok(None) | Err(_) => Mountpoint::NotTold,
            };
        }
        let Mountpoint::Told(path) = &self.space.mountpoint else { return None };
        self.exec.disks.measure(path).await.ok().map(|disk| disk.available_bytes)
    }

    /// How much the disk is short of the target; `None` = no target, or not measured.
    pub(super) async fn shortfall(&mut self) -> Option<u64> {
        if self.space.target == 0 {
            return None;
        }
        let available = self.available().await;
        self.space.shortfall(available)
    }

    /// Says whether the disk is short, after it had time to settle. Not measured is not short: the reserve is there
    /// for measured need alone.
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
            () = self.stop.wait() => return true,
        }
        is_short(self.shortfall().await)
    }
}
