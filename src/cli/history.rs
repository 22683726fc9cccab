//! `kubegc history`.

use std::time::Duration;

use clap::ValueEnum;
use jiff::{SignedDuration, Timestamp};

use super::render::{Grid, object};
use super::{CliError, Format, Output, format};
use crate::config::Loaded;
use crate::daemon::now;
use crate::plan::{Kind, RemoveReason};
use crate::record::{HistoryEntry, HistoryFilter, RunEntry, Store};

/// Show past removals and their reasons, newest first
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Filter by text in the id, path, name, tag or pod
    text: Option<String>,
    /// Maximum number of entries
    #[arg(short = 'n', long, default_value_t = 50, value_name = "NUMBER")]
    limit: usize,
    /// Show entries since a duration (24h) or time (2026-11-21T12:00:00Z)
    #[arg(long, value_name = "WHEN", value_parser = when)]
    since: Option<When>,
    /// Filter by object kind
    #[arg(long, value_enum)]
    kind: Option<KindArg>,
    /// Show runs instead of single removals
    #[arg(long, conflicts_with_all = ["text", "since", "kind"])]
    runs: bool,
}

/// A time as the user writes it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum When {
    Ago(Duration),
    At(Timestamp),
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum KindArg {
    Container,
    Sandbox,
    LogDir,
    LogLink,
    Image,
}

// === impl KindArg ===

impl From<KindArg> for Kind {
    fn from(kind: KindArg) -> Self {
        match kind {
            KindArg::Container => Self::Container,
            KindArg::Sandbox => Self::Sandbox,
            KindArg::LogDir => Self::LogDir,
            KindArg::LogLink => Self::LogLink,
            KindArg::Image => Self::Image,
        }
    }
}

// === impl When ===

impl When {
    fn moment(self) -> Timestamp {
        match self {
            Self::At(moment) => moment,
            Self::Ago(time) => {
                let back = SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX);
                now().checked_sub(back).unwrap_or(Timestamp::MIN)
            }
        }
    }
}

fn when(text: &str) -> Result<When, String> {
    let ago = humantime::parse_duration(text).map(When::Ago);
    ago.or_else(|_| text.parse().map(When::At)).map_err(|_| "wants a duration such as 24h, or a time".to_owned())
}

/// Reads the store and prints the history.
pub fn run(args: &Args, loaded: &Loaded, output: &mut Output) -> Result<(), CliError> {
    let path = &loaded.settings.state.path;
    let Some(store) = Store::open_read_only(path)? else {
        return nothing(&format!("no removals recorded: no store at {}\n", path.display()), output);
    };
    if args.runs { runs(args, &store, output) } else { removals(args, &store, output) }
}

fn removals(args: &Args, store: &Store, output: &mut Output) -> Result<(), CliError> {
    let filter = HistoryFilter {
        limit: Some(args.limit),
        since: args.since.map(When::moment),
        kind: args.kind.map(Kind::from),
        text: args.text.clone(),
    };
    let entries = store.history(&filter)?;
    match output.format.unwrap_or(Format::Table) {
        Format::Json => entries.iter().try_for_each(|entry| output.json(entry)),
        Format::Yaml => output.yaml(&entries),
        _ if entries.is_empty() => nothing("no removals\n", output),
        format => output.text(&removals_table(&entries, format == Format::Wide)),
    }
}

fn runs(args: &Args, store: &Store, output: &mut Output) -> Result<(), CliError> {
    let entries = store.runs(args.limit)?;
    match output.format.unwrap_or(Format::Table) {
        Format::Json => entries.iter().try_for_each(|entry| output.json(entry)),
        Format::Yaml => output.yaml(&entries),
        _ if entries.is_empty() => nothing("no runs\n", output),
        format => output.text(&runs_table(&entries, format == Format::Wide)),
    }
}

/// Prints a message for an empty result. In JSON and YAML nothing is printed.
fn nothing(words: &str, output: &mut Output) -> Result<(), CliError> {
    match output.format {
        Some(Format::Json | Format::Yaml) => Ok(()),
        _ => output.text(words),
    }
}

fn removals_table(entries: &[HistoryEntry], wide: bool) -> String {
    let mut grid = Grid::new(&["TIME", "KIND", "ID", "NAME", "POD", "OUTCOME", "FREED", "WHY"]);
    for entry in entries {
        let HistoryEntry { kind, id, name, pod, .. } = entry;
        let [kind, id, name, pod] = object(*kind, id, name.as_deref(), pod.as_ref(), wide);
        grid.row([
            second(entry.at),
            kind,
            id,
            name,
            pod,
            entry.outcome.replace('_', " "),
            entry.freed_bytes.map(format::size).unwrap_or_default(),
            why(entry),
        ]);
    }
    grid.text(wide)
}

/// Returns the rule of the removal, or why the object was kept after all.
fn why(entry: &HistoryEntry) -> String {
    let mut reason = entry.reason_values.clone();
    reason.insert("reason".to_owned(), entry.reason.as_str().into());
    let reason = serde_json::from_value::<RemoveReason>(reason.into());
    let why = reason.map_or_else(|_| entry.reason.replace('_', " "), |reason| reason.explain().phrase.into_owned());
    let proven = entry.proven_by.as_ref().map(|source| format!(", confirmed by {source}")).unwrap_or_default();
    let detail = entry.detail.as_ref().map(|detail| format!("; {detail}")).unwrap_or_default();
    format!("{why}{proven}{detail}")
}

/// Formats one line for each run. The numbers that are nearly always 0 are in the wide table only.
fn runs_table(entries: &[RunEntry], wide: bool) -> String {
    let mut grid = Grid::new(&[
        "STARTED",
        "TOOK",
        "SCOPE",
        "REMOVED",
        "ALREADY REMOVED",
        "REFUSED",
        "FAILED",
        "FREED",
        "TRIGGER",
        "ERROR",
    ]);
    for entry in entries {
        let took = |end: Timestamp| format::age(end.duration_since(entry.started_at).as_secs());
        let rare = |number: u64| if wide { number.to_string() } else { String::new() };
        grid.row([
            second(entry.started_at),
            entry.finished_at.map_or_else(|| "in progress".to_owned(), took),
            if entry.dry { format!("{} (dry)", entry.scope) } else { entry.scope.clone() },
            entry.removed.to_string(),
            rare(entry.already_gone),
            rare(entry.refused),
            entry.failed.to_string(),
            format::size(entry.freed_bytes),
            entry.triggered_by.clone().unwrap_or_default(),
            entry.error.clone().unwrap_or_default(),
        ]);
    }
    grid.text(wide)
}

/// Formats a time to the second.
fn second(moment: Timestamp) -> String {
    format!("{moment:.0}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn since_accepts_a_time_or_a_duration() {
        assert_eq!(when("24h"), Ok(When::Ago(Duration::from_hours(24))));
        assert_eq!(when("2026-11-21T12:00:00Z"), Ok(When::At("2026-11-21T12:00:00Z".parse().unwrap())));
        assert!(when("yesterday").is_err());
    }
}
