//! The list of `kubegc logs`: what logs there are.

use jiff::Timestamp;
use serde::Serialize;

use crate::cli::cli_error::CliError;
use crate::cli::render::format;
use crate::cli::render::grid::table;
use crate::cli::render::output::Output;
use crate::daemon::now;
use crate::model::PodRef;
use crate::observe::{ContainerLogs, PodLogs};

/// The logs of a container.
#[derive(Serialize)]
struct Row<'a> {
    pod: &'a PodRef,
    container: String,
    attempts: Vec<u32>,
    files: usize,
    size_bytes: u64,
    modified_at: Option<Timestamp>,
}

/// Prints the containers that have logs.
pub(super) fn print(pods: &[PodLogs], left_out: &mut Vec<String>, output: &mut Output) -> Result<(), CliError> {
    let mut rows = Vec::new();
    for pod in pods {
        rows.extend(pod.containers(left_out).into_iter().map(|container| Row::of(&pod.pod, container)));
    }
    output.result(&rows, |wide| if rows.is_empty() { "no logs\n".to_owned() } else { text(&rows, wide) })
}

fn text(rows: &[Row<'_>], wide: bool) -> String {
    let now = now();
    let cells = rows.iter().map(|row| {
        [
            row.pod.name_or_uid(),
            if wide { row.pod.uid.to_string() } else { String::new() },
            row.container.clone(),
            attempts_text(&row.attempts),
            row.files.to_string(),
            format::size(row.size_bytes),
            row.modified_at.map_or_else(|| "-".to_owned(), |at| format::age(now.duration_since(at).as_secs())),
        ]
    });
    table(["POD", "UID", "CONTAINER", "ATTEMPTS", "FILES", "SIZE", "LAST WRITTEN"], cells)
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
    fn of(pod: &'a PodRef, container: ContainerLogs) -> Self {
        let (attempts, modified_at) = (container.attempts(), container.modified_at());
        let size_bytes = container.files.iter().map(|file| file.bytes).fold(0, u64::saturating_add);
        Self { pod, attempts, modified_at, files: container.files.len(), size_bytes, container: container.name }
    }
}
