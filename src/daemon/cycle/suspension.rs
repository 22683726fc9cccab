//! Whether passes may remove objects now. `kubegc pause` writes a file beside the store, the service writes there which policies of the
//! cluster apply to the node, and `quiet` has hours.
//!
//! The files are read when a pass begins, and before a removal if that was a second ago. So a pause holds within two seconds, also in
//! the middle of a pass, for the service and for commands, and without any other process. A file that cannot be read is a pause: a
//! fault of the disk must not end one.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::Cycle;
use crate::config::Settings;
use crate::daemon::clock::Clock;
use crate::execute::{Executor, Gate};
use crate::fleet::{CompiledLists, FleetPart, NodePolicies, Pause, QuietHours, Suspension};
use crate::host_path::{BoundedCalls, written_beside};

/// How long what was read of the file counts.
const COUNTS_FOR: Duration = Duration::from_secs(1);
/// The longest wait for the disk of the file. After it what was read before still counts.
const LIMIT: Duration = Duration::from_secs(2);

/// What may suspend the removals of a node.
pub struct Suspensions {
    files: StopFiles,
    quiet: Vec<QuietHours>,
    clock: Clock,
    calls: BoundedCalls,
    /// What was read of the files, and when.
    read: Mutex<(Option<Instant>, Stops)>,
}

/// The files beside the store that suspend removals.
#[derive(Clone)]
struct StopFiles {
    pause: PathBuf,
    /// `None` = no policies are followed.
    policies: Option<PathBuf>,
}

/// What the files say.
#[derive(Default)]
pub(super) struct Stops {
    pause: Option<Pause>,
    pub(super) policies: NodePolicies,
    /// The rules of the lists in the policies.
    pub(super) lists: CompiledLists,
}

/// The gate of one pass. It stays closed: what follows would go by observations from before the pause.
struct PassGate {
    suspensions: Arc<Suspensions>,
    /// Whether quiet hours close it.
    heeds_quiet_hours: bool,
    closed: OnceLock<String>,
}

/// Writes the file of a pause, or replaces it.
///
/// # Errors
/// The directory of the store does not exist, or cannot be written.
pub fn write_pause(file: &Path, pause: &Pause) -> io::Result<()> {
    replace_file(file, &serde_json::to_string(pause)?)
}

/// Writes a file, so that a reader sees the old text or the new one.
pub(in crate::daemon) fn replace_file(file: &Path, text: &str) -> io::Result<()> {
    let written = written_beside(file, text)?;
    written.as_file().sync_all()?;
    written.persist(file)?;
    Ok(())
}

/// Ends a pause. Returns whether there was one.
///
/// # Errors
/// The file cannot be deleted.
#[expect(clippy::disallowed_methods, reason = "it deletes the file that `write_pause` creates")]
pub fn end_pause(file: &Path) -> io::Result<bool> {
    match std::fs::remove_file(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        removed => removed.map(|()| true),
    }
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

/// Reads a file; `None` = there is none, or this user may not enter its directory: a command without permission does not learn of it.
fn text_of(file: &Path) -> io::Result<Option<String>> {
    match std::fs::read_to_string(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == ErrorKind::PermissionDenied && file.symlink_metadata().is_err() => Ok(None),
        text => text.map(Some),
    }
}

/// Returns why passes of this node remove nothing now, apart from quiet hours: for commands that only show it.
pub fn suspension_of_files(settings: &Settings, now: Timestamp) -> Option<Suspension> {
    StopFiles::of(settings).read().suspension(now)
}

// === impl StopFiles ===

impl StopFiles {
    fn of(settings: &Settings) -> Self {
        let policies = settings.fleet.contains(&FleetPart::Policies).then(|| settings.state.policies_file());
        Self { pause: settings.state.pause_file(), policies }
    }

    fn read(&self) -> Stops {
        let policies = self.policies.as_deref().map(read_policies).unwrap_or_default();
        Stops { pause: read_pause(&self.pause), policies, lists: CompiledLists::new() }
    }
}

// === impl Stops ===

impl Stops {
    /// Replaces what was read before. Rules are compiled again only for other policies.
    fn replace(&mut self, Self { pause, policies, .. }: Self) {
        if policies.policies != self.policies.policies {
            self.lists = policies.compiled();
        }
        (self.pause, self.policies) = (pause, policies);
    }

    /// Returns what suspends removals now: the pause of the node before the policies.
    fn suspension(&self, now: Timestamp) -> Option<Suspension> {
        let pause = self.pause.clone().filter(|pause| !pause.is_over(now)).map(Suspension::Paused);
        pause.or_else(|| self.policies.suspension(now))
    }
}

// === impl Cycle ===

impl Cycle {
    /// Returns the executor of a pass: one that removes nothing if removals are suspended now, else one that looks at that before
    /// each removal.
    pub(super) async fn executor_of(&self, heeds_quiet_hours: bool) -> Executor {
        let gate: Arc<dyn Gate> = Arc::new(PassGate::new(&self.suspensions, heeds_quiet_hours));
        let is_closed = gate.closed_by().await.is_some();
        let executor = Executor { gate, ..self.executor.clone() };
        if is_closed { executor.dry() } else { executor }
    }

    /// Returns why scheduled passes remove nothing now, and shows it in the metrics.
    pub(in crate::daemon) async fn suspension(&self) -> Option<Suspension> {
        let suspension = self.suspensions.now(true).await;
        self.metrics.suspended(suspension.as_ref().map(Suspension::cause));
        suspension
    }
}

// === impl Suspensions ===

impl Suspensions {
    /// Returns those that the settings name.
    pub(super) fn of(settings: &Settings, clock: Clock) -> Self {
        let (files, quiet) = (StopFiles::of(settings), settings.quiet.clone());
        Self { files, quiet, clock, calls: BoundedCalls::new(LIMIT), read: Mutex::default() }
    }

    /// Returns what `look` finds in the files. They are read, unless that was a second ago.
    pub(super) async fn read<T>(&self, look: impl FnOnce(&Stops) -> T) -> T {
        let mut read = self.read.lock().await;
        let (at, stops) = &mut *read;
        if at.is_none_or(|at| at.elapsed() >= COUNTS_FOR) {
            let files = self.files.clone();
            match self.calls.run(&self.files.pause, move || files.read()).await {
                Ok(read) => stops.replace(read),
                Err(error) if at.is_none() => stops.pause = Some(Pause::unreadable(&error.to_string())),
                Err(_) => {}
            }
            *at = Some(Instant::now());
        }
        look(stops)
    }

    /// Returns the quiet hours that it is now.
    fn quiet_hours(&self) -> Option<Suspension> {
        QuietHours::latest_end(&self.quiet, (self.clock)()).map(Suspension::QuietHours)
    }

    /// Returns why no removal may begin now.
    async fn now(&self, heeds_quiet_hours: bool) -> Option<Suspension> {
        self.read(|stops| stops.suspension((self.clock)()))
            .await
            .or_else(|| self.quiet_hours().filter(|_| heeds_quiet_hours))
    }
}

// === impl PassGate ===

impl PassGate {
    /// Creates the gate of a pass that begins.
    fn new(suspensions: &Arc<Suspensions>, heeds_quiet_hours: bool) -> Self {
        Self { suspensions: Arc::clone(suspensions), heeds_quiet_hours, closed: OnceLock::new() }
    }
}

#[async_trait]
impl Gate for PassGate {
    async fn closed_by(&self) -> Option<String> {
        if self.closed.get().is_none()
            && let Some(suspension) = self.suspensions.now(self.heeds_quiet_hours).await
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

    #[test]
    fn a_pause_is_a_file_that_is_written_and_deleted() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("kubegc.paused");
        assert_eq!(read_pause(&file), None);
        assert!(!end_pause(&file).unwrap());
        let pause = Pause { reason: "incident".to_owned(), ..Pause::default() };
        write_pause(&file, &Pause::default()).unwrap();
        write_pause(&file, &pause).unwrap();
        assert_eq!(read_pause(&file), Some(pause));
        assert!(end_pause(&file).unwrap());
        assert_eq!(read_pause(&file), None);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left");
    }

    #[test]
    fn a_file_that_cannot_be_read_is_a_pause() {
        let dir = tempfile::tempdir().unwrap();
        let pause = read_pause(dir.path()).unwrap();
        assert!(pause.to_string().contains("cannot be read"), "{pause}");
    }
}
