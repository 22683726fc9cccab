//! The archive of the logs of deleted pods: what a pass gives to it, and what the service does between passes.
//!
//! A pass looks at all log files, so that an event that was missed costs at most the time of one pass. Between passes the service
//! looks at the pods whose directories have changed.

use std::collections::BTreeSet;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;
use std::{io, thread};

use tokio::sync::{Mutex, mpsc};
use tokio::time::{Instant, sleep};

use super::Cycle;
use super::planning::Planned;
use crate::execute::LogError;
use crate::host_path::HostFs;
use crate::model::ArchivedPod;
use crate::observe::LogEvents;
use crate::plan::{PlanError, Scope};

/// The shortest time between two looks: a pod that starts makes several events.
const BETWEEN: Duration = Duration::from_millis(100);
/// The time between two looks as a multiple of how long one takes. A pod with a hostPath can make any number of events and names.
const PAUSE: u32 = 10;
/// The time until the directories are watched again after an error.
const AGAIN: Duration = Duration::from_mins(5);

/// Receives the directories of the pods in which something has changed; `None` = in any.
type Sender = mpsc::Sender<io::Result<Option<BTreeSet<String>>>>;

/// What the archive lacks, and why. Each cause is logged once.
#[derive(Default)]
pub(super) struct Archiving {
    /// Of log files. Only one look at a time has it.
    files: Mutex<BTreeSet<String>>,
    /// Of documents.
    documents: Mutex<BTreeSet<String>>,
}

// === impl Cycle ===

impl Cycle {
    /// Gives the log files of pods a name in the archive, before a removal of this pass takes their own.
    pub(super) async fn archive_logs(&self, scope: Scope) -> Result<(), PlanError> {
        if !self.has_archive() || scope == Scope::Images {
            return Ok(());
        }
        let failed =
            |error: LogError| PlanError::NotSeen { source: "log_archive".to_owned(), cause: error.to_string() };
        self.archive(None).await.map_err(failed)
    }

    /// Writes what the pass saw of pods beside their files in the archive.
    pub(super) async fn describe_pods(&self, planned: &Planned) {
        if !self.has_archive() || planned.scope == Scope::Images {
            return;
        }
        let described = self.executor.remover.describe_pods(ArchivedPod::all(&planned.snapshot)).await;
        let failed = described.unwrap_or_else(|error| vec![error]);
        let mut known = self.archiving.documents.lock().await;
        *known = logged(&failed, &known);
    }

    /// Archives the logs of pods as soon as their directories change. Returns only if there is nothing to do.
    pub async fn follow_logs(&self) {
        while self.has_archive() && !self.is_dry() {
            if let Err(error) = self.follow().await {
                tracing::warn!("log directories are not watched: {error}; each pass looks at them");
            }
            sleep(AGAIN).await;
        }
    }

    async fn follow(&self) -> io::Result<()> {
        // The thread ends when the other end is dropped.
        let (stop, _stopper) = UnixStream::pair()?;
        let (sender, mut changes) = mpsc::channel(1);
        let (host, root) = (HostFs::new(&self.settings.host_root), self.settings.policy.logs.pods_root.clone());
        thread::Builder::new().name("log-events".to_owned()).spawn(move || {
            let watched = watch(&host, &root, &stop, &sender);
            let _ = watched.or_else(|error| sender.blocking_send(Err(error)));
        })?;
        while let Some(changed) = changes.recv().await {
            let (changed, begun) = (changed?, Instant::now());
            // A pass says why the archive cannot be used.
            let _ = self.archive(changed).await;
            sleep(BETWEEN.max(begun.elapsed() * PAUSE)).await;
        }
        Ok(())
    }

    /// Looks at the log files of these pods; `None` = of all.
    async fn archive(&self, only: Option<BTreeSet<String>>) -> Result<(), LogError> {
        let (mut known, is_whole) = (self.archiving.files.lock().await, only.is_none());
        let refused = self.executor.remover.archive_logs(only).await?.refused;
        let mut causes = logged(&refused, &known);
        if !is_whole {
            causes.append(&mut known);
        }
        *known = causes;
        Ok(())
    }

    fn has_archive(&self) -> bool {
        !self.settings.policy.logs.archive.is_empty()
    }
}

/// Sends what changes, until `stop` is closed.
fn watch(host: &HostFs, root: &Path, stop: &UnixStream, sender: &Sender) -> io::Result<()> {
    let mut events = LogEvents::watch(host, root)?;
    while events.wait(stop)? {
        // While a look is made, the kernel keeps what follows.
        if sender.blocking_send(events.read()).is_err() {
            break;
        }
    }
    Ok(())
}

/// Returns these causes. Those that are not known yet are logged.
fn logged(refused: &[LogError], known: &BTreeSet<String>) -> BTreeSet<String> {
    let causes: BTreeSet<_> = refused.iter().map(ToString::to_string).collect();
    causes.difference(known).for_each(|cause| tracing::warn!("not archived: {cause}"));
    causes
}
