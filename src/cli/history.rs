//! `kubegc history`.

mod sums;

use std::collections::HashSet;
use std::time::Duration;

use clap::ValueEnum;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::render::{Grid, more_tags, object, reference};
use super::{CliError, Format, Output, format, formats};
use crate::config::Loaded;
use crate::daemon::now;
use crate::plan::Kind;
use crate::record::{HistoryEntry, HistoryFilter, RunEntry, StoreReader};

/// Show past removals and their reasons, newest first
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Filter by text in the id, path, name, tag or pod; a number shows the run with this number
    text: Option<String>,
    /// Maximum number of entries
    #[arg(short = 'n', long, default_value_t = 50, value_name = "NUMBER")]
    limit: usize,
    /// Show entries since a duration (24h), a date (2026-11-21) or a time (2026-11-21T12:00:00Z)
    #[arg(long, value_name = "WHEN", value_parser = when)]
    since: Option<When>,
    /// Filter by object kind
    #[arg(long, value_enum)]
    kind: Option<KindArg>,
    /// Filter by namespace of the pod (without a short form: -n is the number of entries)
    #[arg(long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Show objects of all namespaces, which is the default
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// Show runs instead of single removals
    #[arg(long, conflicts_with_all = ["text", "since", "kind", "namespace"])]
    runs: bool,
    /// Add up the removals by day and reason (UTC)
    #[arg(long, conflicts_with = "runs")]
    sums: bool,
    /// Wait for new entries and print them, until interrupted
    #[arg(short, long, conflicts_with_all = ["runs", "sums"])]
    follow: bool,
}

/// The time between two looks at the store with `--follow`.
const FOLLOW: Duration = Duration::from_secs(1);

/// A run with its removals.
#[derive(Serialize)]
struct RunView<'a> {
    run: &'a RunEntry,
    /// Oldest first.
    removals: &'a [HistoryEntry],
}

/// A time as the user writes it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum When {
    Ago(Duration),
    At(Timestamp),
}

/// The kind of an object, as a flag.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum KindArg {
    /// Containers
    Container,
    /// Sandboxes
    Sandbox,
    /// Log directories
    LogDir,
    /// Log links
    LogLink,
    /// Images
    Image,
}

// === impl Args ===

impl Args {
    /// Returns the name of the command, and its output formats. Runs and sums are no objects.
    pub(super) fn formats(&self) -> (&'static str, &'static [Format]) {
        match self {
            Self { runs: true, .. } => ("history --runs", formats::ROWS),
            Self { sums: true, .. } => ("history --sums", formats::TEXT),
            _ => ("history", formats::LIST),
        }
    }

    fn filter(&self) -> HistoryFilter {
        HistoryFilter {
            limit: Some(self.limit),
            since: self.since.map(When::moment),
            kind: self.kind.map(Kind::from),
            text: self.text.clone(),
            namespace: self.namespace.clone().filter(|_| !self.all_namespaces),
            run: None,
        }
    }

    /// Returns the message for an empty result.
    fn nothing(&self) -> &'static str {
        let is_filtered =
            self.text.is_some() || self.since.is_some() || self.kind.is_some() || self.namespace.is_some();
        if is_filtered { "no entry matches\n" } else { "no removals\n" }
    }
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
    let at = || text.parse().map(When::At);
    let date =
        || text.parse::<jiff::civil::Date>()?.to_zoned(jiff::tz::TimeZone::UTC).map(|at| When::At(at.timestamp()));
    ago.or_else(|_| at())
        .or_else(|_| date())
        .map_err(|_: jiff::Error| "wants a duration such as 24h, a date, or a time".to_owned())
}

/// Reads the store and prints the history.
pub fn run(args: &Args, loaded: &Loaded, output: &mut Output) -> Result<(), CliError> {
    let path = &loaded.settings.state.path;
    let Some(store) = StoreReader::open(path)? else {
        return nothing(&format!("no removals recorded: no store at {}\n", path.display()), output);
    };
    let run = args.text.as_deref().and_then(|text| text.parse().ok());
    match run.map(|number| store.run(number)).transpose()?.flatten() {
        Some(run) => one_run(&run, &store, output),
        None if args.runs => runs(args, &store, output),
        None if args.sums => sums::print(args, &store, output),
        None if args.follow => follow(args, loaded, store, output),
        None => removals(args, &store, output),
    }
}

/// Prints one run and its removals, oldest first.
fn one_run(run: &RunEntry, store: &StoreReader, output: &mut Output) -> Result<(), CliError> {
    let mut entries = store.history(&HistoryFilter { run: Some(run.id), ..HistoryFilter::default() })?;
    entries.reverse();
    match output.format.unwrap_or(Format::Table) {
        Format::Json => output.json(&RunView { run, removals: &entries }),
        Format::Yaml => output.yaml(&RunView { run, removals: &entries }),
        Format::Name => output.names(entries.iter().map(|entry| reference(entry.kind, &entry.id))),
        format => {
            let wide = format == Format::Wide;
            let removals = if entries.is_empty() { "no removals\n".to_owned() } else { removals_table(&entries, wide) };
            output.page(&format!("{}\n{removals}", runs_table(std::slice::from_ref(run), wide)))
        }
    }
}

/// Prints new entries as they are recorded, oldest first. Interrupting the command ends it.
fn follow(args: &Args, loaded: &Loaded, store: StoreReader, output: &mut Output) -> Result<(), CliError> {
    let (mut store, mut known) = (store, HashSet::new());
    let mut filter = args.filter();
    loop {
        let mut entries = store.history(&filter)?;
        entries.reverse();
        entries.retain(|entry| known.insert((entry.run, entry.at, entry.kind, entry.id.clone())));
        if !entries.is_empty() {
            match output.format.unwrap_or(Format::Table) {
                Format::Json => entries.iter().try_for_each(|entry| output.json(entry))?,
                Format::Yaml => output.yaml(&entries)?,
                Format::Name => output.names(entries.iter().map(|entry| reference(entry.kind, &entry.id)))?,
                format => output.page(&removals_table(&entries, format == Format::Wide))?,
            }
            output.flush()?;
        }
        std::thread::sleep(FOLLOW);
        filter.limit = None;
        filter.since = filter.since.max(entries.iter().map(|entry| entry.at).max());
        if let Some(again) = StoreReader::open(&loaded.settings.state.path)? {
            store = again;
        }
    }
}

fn removals(args: &Args, store: &StoreReader, output: &mut Output) -> Result<(), CliError> {
    let entries = store.history(&args.filter())?;
    match output.format.unwrap_or(Format::Table) {
        Format::Json => entries.iter().try_for_each(|entry| output.json(entry)),
        Format::Yaml => output.yaml(&entries),
        Format::Name => output.names(entries.iter().map(|entry| reference(entry.kind, &entry.id))),
        _ if entries.is_empty() => nothing(args.nothing(), output),
        format => output.page(&removals_table(&entries, format == Format::Wide)),
    }
}

fn runs(args: &Args, store: &StoreReader, output: &mut Output) -> Result<(), CliError> {
    let entries = store.runs(args.limit)?;
    match output.format.unwrap_or(Format::Table) {
        Format::Json => entries.iter().try_for_each(|entry| output.json(entry)),
        Format::Yaml => output.yaml(&entries),
        _ if entries.is_empty() => nothing("no runs\n", output),
        format => output.page(&runs_table(&entries, format == Format::Wide)),
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
            name + &more_tags(&entry.tags),
            pod,
            entry.outcome.replace('_', " "),
            entry.freed_bytes.map(format::size).unwrap_or_default(),
            why(entry),
        ]);
    }
    grid.text()
}

/// Returns the rule of the removal, or why the object was kept after all.
fn why(entry: &HistoryEntry) -> String {
    let proven = entry.proven_by.as_ref().map(|source| format!(", confirmed by {source}")).unwrap_or_default();
    let detail = entry.detail.as_ref().map(|detail| format!("; {detail}")).unwrap_or_default();
    format!("{}{proven}{detail}", entry.phrase())
}

/// Formats one line for each run. The numbers that are nearly always 0 are in the wide table only.
fn runs_table(entries: &[RunEntry], wide: bool) -> String {
    let mut grid = Grid::new(&[
        "RUN",
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
            entry.id.to_string(),
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
    grid.text()
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
        assert_eq!(when("2026-11-21"), Ok(When::At("2026-11-21T00:00:00Z".parse().unwrap())));
        assert!(when("yesterday").is_err());
    }
}
