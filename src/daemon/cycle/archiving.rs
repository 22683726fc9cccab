//! The archive of the logs of deleted pods: what a pass gives to it.

use std::collections::BTreeSet;

use tokio::sync::Mutex;

use super::Cycle;
use super::planning::Planned;
use crate::execute::LogError;
use crate::model::ArchivedPod;
use crate::plan::{PlanError, Scope};

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

/// Returns these causes. Those that are not known yet are logged.
fn logged(refused: &[LogError], known: &BTreeSet<String>) -> BTreeSet<String> {
    let causes: BTreeSet<_> = refused.iter().map(ToString::to_string).collect();
    causes.difference(known).for_each(|cause| tracing::warn!("not archived: {cause}"));
    causes
}
