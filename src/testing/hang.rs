//! A file system that hangs, for tests.

use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use crate::host_path::{BoundedCalls, CallError, HostFs};

impl BoundedCalls {
    /// Blocks a place until the sender is dropped.
    pub(crate) async fn block(&self, place: &Path) -> mpsc::Sender<()> {
        let (release, held) = mpsc::channel();
        let calls = self.with_limit(Duration::from_millis(50));
        let error = calls.run(place, move || held.recv().ok()).await.unwrap_err();
        assert!(matches!(error, CallError::TimedOut { .. }), "{error}");
        release
    }
}

impl HostFs {
    /// Blocks a place until the sender is dropped.
    pub(crate) async fn block(&self, place: &Path) -> mpsc::Sender<()> {
        let (release, held) = mpsc::channel();
        let host = self.with_limit(Duration::from_millis(50));
        let error = host.run(place, move |_| held.recv().ok()).await.unwrap_err();
        assert!(matches!(error, CallError::TimedOut { .. }), "{error}");
        release
    }
}
