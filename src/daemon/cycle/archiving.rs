//! The archive of the logs of deleted pods: what a pass gives to it, and what the service does between passes.
//!
//! A pass looks at all log files, so that an event that was missed costs at most the time of one pass. Between passes the service
//! looks at the pods whose directories have changed.
//!
//! While removals are suspended, nothing is removed from the archive either (I19). So that its limits hold, it gets no more files of a
//! namespace of which it has too many: what a pass would have removed and did not says which these are.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;
use std::{io, thread};

use tokio::sync::{Mutex, mpsc};
use tokio::time::{Instant, sleep, sleep_until};

use super::Cycle;
use super::planning::Planned;
use crate::execute::{Archived, LogError};
use crate::host_path::HostFs;
use crate::model::ArchivedPod;
use crate::observe::LogEvents;
use crate::plan::{KeepReason, Outcome, Pass, PlanError, Scope};

/// The shortest time between two looks: a pod that starts makes several events.
const BETWEEN: Duration = Duration::from_millis(100);
/// The time between two looks as a multiple of how long one takes, for a pod that takes long and for the others together. A pod with a
/// hostPath can make any number of events and names.
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
    /// The namespaces of which the archive has more than its limits permit; `None` = no pass has seen it yet.
    full: Mutex<Option<BTreeSet<String>>>,
}

/// The pods that wait for their next look: one that takes long has a pause of its own, and the others are served first.
#[derive(Default)]
struct Later {
    until: BTreeMap<String, Instant>,
    waiting: BTreeSet<String>,
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
        self.archive(None).await.map(drop).map_err(failed)
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

    /// Notes the namespaces of which the pass left files in the archive that are over a limit.
    pub(super) async fn note_full(&self, pass: &Pass) {
        let is_unknown = pass
            .plan
            .errors
            .iter()
            .any(|error| matches!(error, PlanError::NotSeen { source, .. } if source == "archived_logs"));
        if !self.has_archive() || pass.scope == Scope::Images || is_unknown {
            return;
        }
        let root = self.settings.policy.logs.archive_root();
        let removed = pass
            .reports
            .iter()
            .filter(|report| report.outcome.is_removal() && !matches!(report.outcome, Outcome::WouldRemove {}))
            .map(|report| report.action.target.id());
        let removed: BTreeSet<_> = removed.collect();
        let planned = pass.plan.actions.iter().map(|action| (action.target.id(), &action.pod));
        let waits = pass.plan.kept.iter().filter(|kept| matches!(kept.reason, KeepReason::BackingOff { .. }));
        let left = planned.chain(waits.map(|kept| (kept.id.clone(), &kept.pod)));
        let left = left.filter(|(id, _)| Path::new(id).starts_with(&root) && !removed.contains(id));
        let full = left.filter_map(|(_, pod)| Some(pod.as_ref()?.namespace.clone())).collect();
        *self.archiving.full.lock().await = Some(full);
    }

    /// Archives the logs of pods as soon as their directories change. Returns only if there is nothing to do.
    pub async fn follow_logs(&self) {
        while self.has_archive() && !self.is_dry() {
            if let Err(error) = self.follow().await {
                tracing::warn!("cannot watch the log directories: {error}; passes archive instead");
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
        let mut later = Later::default();
        loop {
            let next = later.next();
            let changed = tokio::select! {
                changed = changes.recv() => match changed {
                    Some(changed) => changed?,
                    None => return Ok(()),
                },
                () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => Some(BTreeSet::new()),
            };
            let (changed, begun) = (changed.map(|changed| later.take(changed)), Instant::now());
            // A pass says why the archive cannot be used.
            let slow = self.archive(changed).await.unwrap_or_default();
            let rest = begun.elapsed().saturating_sub(slow.values().sum());
            later.until.extend(slow.into_iter().map(|(pod, took)| (pod, Instant::now() + took * PAUSE)));
            sleep(BETWEEN.max(rest * PAUSE)).await;
        }
    }

    /// Looks at the log files of these pods; `None` = of all. Returns the pods that took long.
    async fn archive(&self, only: Option<BTreeSet<String>>) -> Result<BTreeMap<String, Duration>, LogError> {
        let full = self.archiving.full.lock().await.clone();
        if full.is_none() && self.suspension().await.is_some() {
            return Ok(BTreeMap::new());
        }
        let (mut known, is_whole) = (self.archiving.files.lock().await, only.is_none());
        let Archived { refused, slow, .. } = self.executor.remover.archive_logs(only, full.unwrap_or_default()).await?;
        let mut causes = logged(&refused, &known);
        if !is_whole {
            causes.append(&mut known);
        }
        *known = causes;
        Ok(slow)
    }

    fn has_archive(&self) -> bool {
        !self.settings.policy.logs.archive.is_empty()
    }
}

// === impl Later ===

impl Later {
    /// Returns those of the changed and of the waiting pods that may be looked at now.
    fn take(&mut self, mut changed: BTreeSet<String>) -> BTreeSet<String> {
        self.until.retain(|_, until| *until > Instant::now());
        changed.append(&mut self.waiting);
        let (waiting, ready) = changed.into_iter().partition(|pod| self.until.contains_key(pod));
        self.waiting = waiting;
        ready
    }

    /// Returns when the next waiting pod may be looked at.
    fn next(&self) -> Option<Instant> {
        self.waiting.iter().filter_map(|pod| self.until.get(pod)).min().copied()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_pod_that_takes_long_does_not_delay_the_others() {
        let pods = |names: &[&str]| names.iter().map(ToString::to_string).collect::<BTreeSet<_>>();
        let mut later = Later::default();
        assert_eq!(later.take(pods(&["slow", "web"])), pods(&["slow", "web"]));
        later.until.insert("slow".to_owned(), Instant::now() + Duration::from_secs(5));
        assert_eq!(later.take(pods(&["slow", "web"])), pods(&["web"]));
        assert_eq!(later.next(), Some(Instant::now() + Duration::from_secs(5)));
        tokio::time::advance(Duration::from_secs(4)).await;
        assert_eq!(later.take(pods(&[])), pods(&[]));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!((later.take(pods(&["web"])), later.next()), (pods(&["slow", "web"]), None));
    }
}
