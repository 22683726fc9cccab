//! What the commands of the controller read from a cluster or a file, and their history.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::cli::cli_error::{CliError, ErrorKind};
use crate::cli::input::cluster::Source;
use crate::cli::input::one_document;
use crate::cli::input::session::block_on;
use crate::cli::render::format::count;
use crate::cli::render::output::Format;
use crate::cli::render::progress;
use crate::controller::{
    ClusterObserver, ClusterOutcome, ClusterResult, ControllerError, ControllerSettings, ObserverLimits,
};
use crate::daemon::now;
use crate::kubernetes::{Connection, DENIED};
use crate::model::Identity;
use crate::owners::ClusterSnapshot;
use crate::record::{DeletionEntry, DeletionLog};

const CALLS: &str = "controller.calls_per_second";

// === impl Source ===

impl Source<'_> {
    /// Returns the snapshot in `file`, or that of the cluster or a namespace.
    pub(super) fn snapshot(self, file: Option<&PathBuf>, namespace: Option<&str>) -> Result<ClusterSnapshot, CliError> {
        file.map_or_else(|| observe(self, namespace), |file| one_document::cluster_snapshot(file))
    }
}

/// Returns what adds each change of an object to the history, if there is one. Without a file that can be written nothing is deleted.
pub(super) fn history(
    source: Source<'_>,
    command: &'static str,
    cluster: String,
    dry_run: bool,
) -> Result<impl Fn(&ClusterOutcome) + Send + Sync + 'static, CliError> {
    let path = source.settings().controller_history.as_deref().filter(|_| !dry_run);
    let log = path.map(DeletionLog::open).transpose()?;
    Ok(move |outcome: &ClusterOutcome| {
        let is_change = !matches!(outcome.result, ClusterResult::DryRun | ClusterResult::AlreadyDeleted);
        if let Some(log) = log.as_ref().filter(|_| is_change) {
            let Identity { kind, namespace, name, uid } = &outcome.object;
            log.add(DeletionEntry {
                at: now(),
                command: command.to_owned(),
                cluster: cluster.clone(),
                action: outcome.action.to_string(),
                api_version: kind.api_version.to_string(),
                kind: kind.kind.to_string(),
                namespace: namespace.to_string(),
                name: name.to_string(),
                uid: uid.to_string(),
                owners: outcome.owners.join(", "),
                reason: outcome.reason.clone(),
                result: outcome.result.to_string(),
            });
        }
    })
}

pub(super) fn observer(connection: Arc<Connection>, source: Source<'_>, namespace: Option<&str>) -> ClusterObserver {
    let ControllerSettings { guards, rules, .. } = source.settings().owners_of_cluster();
    let mut observer = ClusterObserver::new(connection, ObserverLimits::default(), now, &guards);
    (observer.namespace, observer.rules) = (namespace.unwrap_or_default().to_owned(), rules);
    observer
}

/// Returns the settings of the collection by owner references, with those of a command. The deletion of a namespace needs all
/// objects, so it excludes flags that leave some out.
pub(super) fn with_namespaces(
    source: Source<'_>,
    namespaces: bool,
    is_limited: bool,
) -> Result<ControllerSettings, CliError> {
    let mut settings = source.settings().owners_of_cluster();
    if !source.loaded.is_set(CALLS) {
        // A person waits for the command, and the priority and fairness of the API server protects other clients.
        settings.calls.per_second = 0;
    }
    settings.namespaces |= namespaces;
    if settings.namespaces && is_limited {
        let text =
            "namespaces go with all that is in them: controller.namespaces excludes flags that leave objects out";
        return Err(CliError::message(ErrorKind::Usage, text));
    }
    Ok(settings)
}

pub(super) fn observe(source: Source<'_>, namespace: Option<&str>) -> Result<ClusterSnapshot, CliError> {
    let observer = observer(Arc::new(source.patient_connection()), source, namespace);
    let progress = progress(0, "{bar:30} {pos} of {len} resources");
    progress.enable_steady_tick(Duration::from_millis(200));
    let watch = |done: usize, all: usize| {
        progress.set_length(all as u64);
        progress.set_position(done as u64);
    };
    let snapshot = block_on(async { Ok(observer.snapshot(watch).await?) });
    progress.finish_and_clear();
    snapshot
}

/// Returns an error if a list is missing, although the decisions of the plan are correct. What a table shows is not repeated.
pub(super) fn all_listed(errors: &[String], format: Option<Format>) -> Result<(), CliError> {
    let errors = together(errors);
    let message = match errors.as_slice() {
        [] => return Ok(()),
        errors if matches!(format, None | Some(Format::Table | Format::Wide)) => {
            format!("the plan is incomplete: it shows {}", count(errors.len(), "error"))
        }
        [one] => one.clone(),
        [first, others @ ..] => format!("{first}; and {} more", others.len()),
    };
    Err(CliError::message(ErrorKind::Partial, message))
}

/// Returns these errors, of which those about permissions for lists are one.
pub(super) fn together(errors: &[String]) -> Vec<String> {
    let (mut lists, mut first_cause, mut all) = (Vec::new(), "", Vec::new());
    for error in errors {
        match error.strip_prefix(DENIED).and_then(|it| it.strip_prefix("list ")?.split_once(": ")) {
            Some((list, cause)) => {
                first_cause = if lists.is_empty() { cause } else { first_cause };
                lists.push(list);
            }
            None => all.push(error.clone()),
        }
    }
    if !lists.is_empty() {
        all.insert(0, format!("{DENIED}list {}: {first_cause}", lists.join(", ")));
    }
    all
}

impl From<ControllerError> for CliError {
    fn from(error: ControllerError) -> Self {
        let kind = match &error {
            ControllerError::Beside { .. } => return Self::new(ErrorKind::Config, error).hint("omit --namespaces"),
            error if error.is_of_credentials() => ErrorKind::Config,
            _ => ErrorKind::Runtime,
        };
        Self::new(kind, error).hint("--kubeconfig selects the credentials and the API server")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubernetes::Cause;

    #[test]
    fn lists_without_permission_are_one_error() {
        let errors =
            ["may not list pods (v1): a", "cannot list x (v1): b", "may not list secrets (v1): c", "may not read y: d"];
        let all = together(&errors.map(str::to_owned));
        assert_eq!(all, ["may not list pods (v1), secrets (v1): a", "cannot list x (v1): b", "may not read y: d"]);
    }

    #[test]
    fn an_error_names_its_cause_once() {
        let source = Cause::NoKubeconfig { path: "/nowhere".into() }.of("list");
        let error = CliError::from(ControllerError::Discover { source });
        assert_eq!(error.to_string(), "cannot observe the cluster: kubeconfig /nowhere does not exist");
    }
}
