//! Whether passes may remove objects now. `kubegc pause` writes a file beside the store, the service writes there which policies of the
//! cluster apply to the node, and `quiet` has hours.
//!
//! The files are read when a pass begins and before each removal. So a pause holds as soon as it is written and the removals in progress
//! have ended, also in the middle of a pass, for the service and for commands, and without any other process. A file that cannot be read is a pause: a fault of the disk must
//! not end one. The policies that the service received count from memory, whether or not it can write the file. On a full disk the
//! file of a pause takes the place of one that is kept in reserve for it.

mod pause_file;

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use tokio::sync::Mutex;

use self::pause_file::removal_in_progress;
pub use self::pause_file::{end_pause, removals_ended, write_pause};
pub(in crate::daemon) use self::pause_file::{keep_reserve, replace_file};
use super::Cycle;
use crate::config::Settings;
use crate::daemon::clock::Clock;
use crate::execute::{Executor, RemovalGate};
use crate::fleet::{FleetPart, NodePolicies, Pause, PauseCause, QuietHours};
use crate::host_path::BoundedCalls;

/// The longest wait for the disk of the file. After it what was read before still counts.
const LIMIT: Duration = Duration::from_secs(2);

/// What may suspend the removals of a node.
pub struct Pauses {
    files: PauseFiles,
    quiet: Vec<QuietHours>,
    clock: Clock,
    calls: BoundedCalls,
    /// What was read of the files; `None` = nothing yet.
    read: Mutex<Option<PauseState>>,
    received: ReceivedPolicies,
}

/// The policies that apply to the node, as the API server sent them last. They outlive a reload.
#[derive(Clone, Debug, Default)]
pub struct ReceivedPolicies(Arc<std::sync::Mutex<Option<NodePolicies>>>);

/// The files beside the store that suspend removals.
#[derive(Clone)]
struct PauseFiles {
    pause: PathBuf,
    /// `None` = no policies are followed.
    policies: Option<PathBuf>,
}

#[derive(Default)]
pub(super) struct PauseState {
    pause: Option<Pause>,
    pub(super) policies: NodePolicies,
}

/// The gate of one pass. It stays closed: what follows would go by observations from before the pause.
struct PassGate {
    pauses: Arc<Pauses>,
    /// Whether quiet hours close it.
    heeds_quiet_hours: bool,
    closed: OnceLock<String>,
}

/// Reads the file of a pause; `None` = there is none.
fn read_pause(file: &Path) -> Option<Pause> {
    match text_of(file) {
        Ok(text) => text.map(|text| Pause::read(&text)),
        Err(error) => Some(Pause::unreadable(&error.to_string())),
    }
}

fn read_policies(file: &Path) -> NodePolicies {
    match text_of(file) {
        Ok(text) => text.map(|text| NodePolicies::read(&text)).unwrap_or_default(),
        Err(error) => NodePolicies::unreadable(&error.to_string()),
    }
}

/// Reads a file; `None` = there is none, or this user may not enter its directory: a command without permission does not learn of it. A link
/// that leads to no file cannot be read.
fn text_of(file: &Path) -> io::Result<Option<String>> {
    let is_absence = |error: &io::Error| matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied);
    match std::fs::read_to_string(file) {
        Err(error) if is_absence(&error) && file.symlink_metadata().is_err() => Ok(None),
        text => text.map(Some),
    }
}

/// Returns why passes of this node remove nothing now, apart from quiet hours: for commands that only show it.
pub fn suspension_of_files(settings: &Settings, now: Timestamp) -> Option<PauseCause> {
    PauseFiles::of(settings).read().suspension(now)
}

// === impl PauseFiles ===

impl PauseFiles {
    fn of(settings: &Settings) -> Self {
        let policies = settings.fleet.contains(&FleetPart::Policies).then(|| settings.state.policies_file());
        Self { pause: settings.state.pause_file(), policies }
    }

    fn read(&self) -> PauseState {
        let policies = self.policies.as_deref().map(read_policies).unwrap_or_default();
        PauseState { pause: read_pause(&self.pause), policies }
    }
}

// === impl PauseState ===

impl PauseState {
    /// Returns what suspends removals now: the pause of the node before the policies.
    fn suspension(&self, now: Timestamp) -> Option<PauseCause> {
        let pause = self.pause.clone().filter(|pause| !pause.is_over(now)).map(PauseCause::Paused);
        pause.or_else(|| self.policies.suspension(now))
    }
}

// === impl Cycle ===

impl Cycle {
    /// Returns the executor of a pass: one that removes nothing if removals are suspended now, else one that looks at that before
    /// each removal.
    pub(super) async fn executor_of(&self, heeds_quiet_hours: bool) -> Executor {
        let gate: Arc<dyn RemovalGate> = Arc::new(PassGate::new(&self.pauses, heeds_quiet_hours));
        let is_closed = gate.closed_by().await.is_some();
        let executor = Executor { gate, ..self.executor.clone() };
        if is_closed { executor.dry() } else { executor }
    }

    /// Returns where the service notes the policies that the API server sends.
    pub(in crate::daemon) fn received(&self) -> &ReceivedPolicies {
        self.pauses.received()
    }

    /// Returns why scheduled passes remove nothing now, and shows it in the metrics.
    pub(in crate::daemon) async fn suspension(&self) -> Option<PauseCause> {
        let suspension = self.pauses.now(true).await;
        self.metrics.suspended(suspension.as_ref().map(PauseCause::cause));
        suspension
    }
}

// === impl ReceivedPolicies ===

impl ReceivedPolicies {
    pub(in crate::daemon) fn set(&self, policies: &NodePolicies) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(policies.clone());
    }

    fn get(&self) -> Option<NodePolicies> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

// === impl Pauses ===

impl Pauses {
    /// Returns those that the settings name.
    pub(super) fn of(settings: &Settings, clock: Clock, received: ReceivedPolicies) -> Self {
        let (files, quiet) = (PauseFiles::of(settings), settings.quiet.clone());
        Self { files, quiet, clock, calls: BoundedCalls::new(LIMIT), read: Mutex::default(), received }
    }

    /// Returns where the service notes the policies.
    pub(super) fn received(&self) -> &ReceivedPolicies {
        &self.received
    }

    /// Returns what `look` finds in the files as they are now, and in the policies that the service received.
    pub(super) async fn read<T>(&self, look: impl FnOnce(&PauseState) -> T) -> T {
        let mut before = self.read.lock().await;
        let (mut files, is_first) = (self.files.clone(), before.is_none());
        let stops = before.get_or_insert_default();
        let received = self.received.get().filter(|_| files.policies.is_some());
        // They are never older than the file.
        files.policies = files.policies.filter(|_| received.is_none());
        let pause = match self.calls.run(&self.files.pause, move || files.read()).await {
            Ok(read) => {
                *stops = PauseState { policies: received.unwrap_or(read.policies), ..read };
                return look(stops);
            }
            Err(error) if is_first => Some(Pause::unreadable(&error.to_string())),
            Err(_) => stops.pause.take(),
        };
        let policies = received.unwrap_or_else(|| stops.policies.clone());
        *stops = PauseState { pause, policies };
        look(stops)
    }

    /// Returns the quiet hours that it is now.
    fn quiet_hours(&self) -> Option<PauseCause> {
        QuietHours::latest_end(&self.quiet, (self.clock)()).map(PauseCause::QuietHours)
    }

    /// Returns why no removal may begin now.
    async fn now(&self, heeds_quiet_hours: bool) -> Option<PauseCause> {
        self.read(|stops| stops.suspension((self.clock)()))
            .await
            .or_else(|| self.quiet_hours().filter(|_| heeds_quiet_hours))
    }
}

// === impl PassGate ===

impl PassGate {
    /// Creates the gate of a pass that begins.
    fn new(pauses: &Arc<Pauses>, heeds_quiet_hours: bool) -> Self {
        Self { pauses: Arc::clone(pauses), heeds_quiet_hours, closed: OnceLock::new() }
    }
}

#[async_trait]
impl RemovalGate for PassGate {
    async fn enter(&self) -> Option<File> {
        let (Pauses { files, calls, .. }, pause) = (&*self.pauses, self.pauses.files.pause.clone());
        calls.run(&files.pause, move || removal_in_progress(&pause)).await.ok().flatten()
    }

    async fn closed_by(&self) -> Option<String> {
        if self.closed.get().is_none()
            && let Some(suspension) = self.pauses.now(self.heeds_quiet_hours).await
        {
            // Another removal of the pass may have closed it by now.
            let _ = self.closed.set(suspension.to_string());
        }
        self.closed.get().cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pauses(dir: &Path) -> Pauses {
        let file = |name: &str| dir.join(name);
        let files = PauseFiles { pause: file("kubegc.paused"), policies: Some(file("kubegc.policies")) };
        let (clock, calls) = (crate::daemon::clock::system(), BoundedCalls::new(LIMIT));
        Pauses { files, quiet: Vec::new(), clock, calls, read: Mutex::default(), received: ReceivedPolicies::default() }
    }

    /// A disk that is full keeps the old file.
    #[tokio::test]
    async fn a_policy_counts_as_soon_as_the_service_received_it() {
        let dir = tempfile::tempdir().unwrap();
        let (of, now) = (pauses(dir.path()), crate::daemon::clock::now());
        let policies = |text: &str| NodePolicies::read(&format!("{{\"policies\":{{\"p\":{text}}}}}"));
        let paused = "{\"paused\":{\"reason\":\"incident\"}}";
        std::fs::write(dir.path().join("kubegc.policies"), serde_json::to_string(&policies("{}")).unwrap()).unwrap();
        let cause = async || of.read(|stops| stops.suspension(now).map(|it| it.to_string())).await;
        assert_eq!(cause().await, None);
        of.received.set(&policies(paused));
        assert_eq!(cause().await.as_deref(), Some("paused by policy p: incident"));
        of.received.set(&policies("{}"));
        assert_eq!(cause().await, None);
    }

    #[tokio::test]
    async fn a_pause_counts_from_the_moment_it_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let (of, file) = (pauses(dir.path()), dir.path().join("kubegc.paused"));
        for _ in 0..3 {
            assert_eq!(of.now(true).await, None);
            write_pause(&file, &Pause::default()).unwrap();
            assert!(of.now(true).await.is_some());
            end_pause(&file).unwrap();
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_is_a_pause() {
        let dir = tempfile::tempdir().unwrap();
        let pause = read_pause(dir.path()).unwrap();
        assert!(pause.to_string().contains("cannot be read"), "{pause}");
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("/nowhere", &link).unwrap();
        assert!(read_pause(&link).unwrap().to_string().contains("cannot be read"));
        let file = dir.path().join("kubegc.paused");
        for text in ["", "{}", "incident 7\r\n", "\u{feff}", "until = 2026-11-28", "\0\0\0", "reason: x"] {
            std::fs::write(&file, text).unwrap();
            assert!(read_pause(&file).is_some_and(|pause| !pause.is_over(Timestamp::MAX)), "{text:?}");
        }
    }
}
