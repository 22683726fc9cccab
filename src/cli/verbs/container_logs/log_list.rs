//! The list of `kubegc logs`: what logs there are.

use std::collections::HashMap;

use jiff::Timestamp;
use serde::Serialize;

use crate::cli::cli_error::CliError;
use crate::cli::render::format;
use crate::cli::render::output::Output;
use crate::cli::render::tables::LOGS;
use crate::config::Settings;
use crate::daemon::now;
use crate::model::{ArchivedContainer, PodRef, Seen, Snapshot};
use crate::observe::{Archive, LoggedContainer, PodLogs};
use crate::plan::archive_ends;

/// The logs of a container.
#[derive(Serialize)]
struct Row<'a> {
    pod: &'a PodRef,
    container: String,
    attempts: Vec<u32>,
    files: usize,
    size_bytes: u64,
    modified_at: Option<Timestamp>,
    /// The newest instance, as the archive knows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    instance: Option<ArchivedContainer>,
    /// Until when the archive keeps its last file; `null` = its pod has it, or no limit on the time removes it.
    kept_until: Option<Timestamp>,
}

/// Until when the archive keeps the logs that their pods have no more, by pod and container.
type Ends = HashMap<(PodRef, String), Option<Timestamp>>;

/// Prints the containers that have logs.
pub(super) fn print(
    pods: &[PodLogs],
    settings: &Settings,
    left_out: &mut Vec<String>,
    output: &mut Output,
) -> Result<(), CliError> {
    let (mut rows, mut ends) = (Vec::new(), ends(settings, left_out));
    for pod in pods {
        let known = pod.document().map(|document| document.containers).unwrap_or_default();
        for logs in pod.containers(left_out) {
            let mut row = Row::of(&pod.pod, logs);
            row.instance = known.iter().rfind(|instance| instance.name == row.container).cloned();
            let end = ends.remove(&(pod.pod.clone(), row.container.clone())).flatten();
            row.kept_until = end.filter(|_| pod.is_deleted());
            rows.push(row);
        }
    }
    output.result(&rows, || if rows.is_empty() { "no logs\n".to_owned() } else { text(&rows) })
}

/// Reads until when the archive keeps logs.
fn ends(settings: &Settings, left_out: &mut Vec<String>) -> Ends {
    let archive = settings.policy.logs.archive_root();
    let read = Archive::of(&settings.host_root, &archive);
    let Archive { logs, pods } = read.unwrap_or_else(|error| {
        left_out.push(format!("{}: {error}", archive.display()));
        Archive::default()
    });
    let snapshot = Snapshot { archived_logs: Seen::Seen(logs), archived_pods: pods, ..Snapshot::unobserved(now()) };
    let mut ends = Ends::new();
    for (log, end) in
        snapshot.archived_logs.as_ref().into_iter().flatten().zip(archive_ends(&snapshot, &settings.policy))
    {
        let last = ends.entry((log.pod.clone(), log.container.clone())).or_default();
        *last = end.max(*last);
    }
    ends
}

fn text(rows: &[Row<'_>]) -> String {
    let now = now();
    let since = |at: Option<Timestamp>| at.map(|at| format::age(now.duration_since(at).as_secs()));
    let cells = rows.iter().map(|row| {
        let instance = row.instance.as_ref();
        [
            row.pod.name_or_uid(),
            row.pod.uid.to_string(),
            row.container.clone(),
            attempts_text(&row.attempts),
            row.files.to_string(),
            format::size(row.size_bytes),
            since(row.modified_at).unwrap_or_else(|| "-".to_owned()),
            since(instance.and_then(|instance| instance.finished_at)).unwrap_or_default(),
            instance.map(exit_text).unwrap_or_default(),
            row.kept_until.map(|at| format::age(at.duration_since(now).as_secs())).unwrap_or_default(),
        ]
    });
    LOGS.text(cells)
}

/// Formats how an instance exited: `137 (OOMKilled)`.
fn exit_text(instance: &ArchivedContainer) -> String {
    let code = instance.exit_code.map(|code| code.to_string()).unwrap_or_default();
    instance.reason.as_ref().map_or(code.clone(), |reason| format!("{code} ({reason})"))
}

/// Formats attempts: `1-4`, or `0, 3` where some are missing.
pub(super) fn attempts_text(attempts: &[u32]) -> String {
    match attempts {
        [first, .., last] if (last - first) as usize + 1 == attempts.len() => format!("{first}-{last}"),
        all => all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    }
}

// === impl Row ===

impl<'a> Row<'a> {
    fn of(pod: &'a PodRef, container: LoggedContainer) -> Self {
        let (attempts, modified_at) = (container.attempts(), container.modified_at());
        let size_bytes = container.files.iter().map(|file| file.bytes).fold(0, u64::saturating_add);
        let (files, container) = (container.files.len(), container.name);
        Self { pod, container, attempts, files, size_bytes, modified_at, instance: None, kept_until: None }
    }
}
