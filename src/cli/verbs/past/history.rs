//! `kubegc history`, and commands that pull removed images again.

mod sums;

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use crate::cli::args::{times, values};
use crate::cli::cli_error::CliError;
use crate::cli::render::output::{Format, Output};
use crate::cli::render::tables::{REMOVALS, RUNS};
use crate::cli::render::{format, more_tags, object, reference};
use crate::cli::verb::{HISTORY, READS_FILES, ROWS, Start, TEXT, Verb, VerbFacts};
use crate::config::Loaded;
use crate::plan::Kind;
use crate::record::{HistoryEntry, HistoryFilter, RunEntry, StoreReader};

/// Show past removals and their reasons, newest first
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Filter by text in the id, path, name, tag or pod; a number selects a run
    text: Option<String>,
    /// Maximum number of entries
    #[arg(short = 'n', long, default_value_t = 50, value_name = "NUMBER")]
    limit: usize,
    /// Show entries since a duration (24h), a date (2026-11-21) or a time (2026-11-21T12:00, UTC without a zone)
    #[arg(long, value_name = "WHEN", value_parser = times::before_now)]
    since: Option<Timestamp>,
    /// Filter by object kind
    #[arg(long, value_parser = values::kinds())]
    kind: Option<Kind>,
    /// Filter by namespace of the pod (no short form: -n is the number of entries)
    #[arg(long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Show objects of all namespaces, which is the default
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// Show only removed images that were pulled again within 14 days
    #[arg(long, conflicts_with = "follow")]
    pulled_again: bool,
    /// Show runs instead of single removals
    #[arg(long, conflicts_with_all = ["text", "since", "kind", "namespace", "pulled_again"])]
    runs: bool,
    /// Sum removals by day (UTC) and reason
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

// === impl Args ===

impl Args {
    fn filter(&self) -> HistoryFilter {
        HistoryFilter {
            limit: Some(self.limit),
            since: self.since,
            kind: self.kind,
            text: self.text.clone(),
            namespace: self.namespace.clone().filter(|_| !self.all_namespaces),
            run: None,
            pulled_again: self.pulled_again,
        }
    }

    /// Returns the message for an empty result.
    fn nothing(&self) -> &'static str {
        let is_filtered = self.text.is_some()
            || self.since.is_some()
            || self.kind.is_some()
            || self.namespace.is_some()
            || self.pulled_again;
        if is_filtered { "no entry matches\n" } else { "no removals\n" }
    }
}

// === impl Args: the command ===

impl Verb for Args {
    fn facts() -> &'static VerbFacts {
        &VerbFacts {
            name: "history",
            examples: &[
                ("Show the last removals", "kubegc history"),
                ("Show what was removed of a namespace in a day", "kubegc history --since 24h --namespace shop"),
                ("Show images that were removed and pulled again", "kubegc history --pulled-again"),
                ("Sum removals by day and reason", "kubegc history --sums"),
                ("Print how to pull the images again that were removed today", "kubegc history --since 24h -o crictl"),
                ("Show the runs", "kubegc history --runs"),
                ("Show the run with number 12 and its removals", "kubegc history 12"),
            ],
            formats: HISTORY,
            words: &["events"],
            ..READS_FILES
        }
    }

    fn formats(&self) -> Option<(&'static str, &'static [Format])> {
        match self {
            Self { runs: true, .. } => Some(("history --runs", ROWS)),
            Self { sums: true, .. } => Some(("history --sums", TEXT)),
            _ => None,
        }
    }

    fn run(&self, start: &Start<'_>, output: &mut Output) -> Result<(), CliError> {
        let loaded = &start.load()?;
        let path = &loaded.settings.state.path;
        let Some(store) = StoreReader::open(path)? else {
            return match output.format {
                None | Some(Format::Table | Format::Wide) => {
                    output.text(&format!("no removals recorded: no store at {}\n", path.display()))
                }
                _ => Ok(()),
            };
        };
        let run = self.text.as_deref().and_then(|text| text.parse().ok());
        match run.map(|number| store.run(number)).transpose()?.flatten() {
            Some(run) => one_run(&run, &store, output),
            None if self.runs => runs(self, &store, output),
            None if self.sums => sums::print(self, &store, output),
            None if self.follow => follow(self, loaded, store, output),
            None => removals(self, &store, output),
        }
    }
}

/// Prints one run and its removals, oldest first.
fn one_run(run: &RunEntry, store: &StoreReader, output: &mut Output) -> Result<(), CliError> {
    let mut entries = store.history(&HistoryFilter { run: Some(run.id), ..HistoryFilter::default() })?;
    entries.reverse();
    output.list(&RunView { run, removals: &entries }, names(&entries), || {
        let removals = if entries.is_empty() { "no removals\n".to_owned() } else { removals_table(&entries) };
        format!("{}\n{removals}", runs_table(std::slice::from_ref(run)))
    })
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
            output.entries(&entries, names(&entries), || removals_table(&entries))?;
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
    if output.format == Some(Format::Crictl) {
        return output.text(&of(&entries));
    }
    output.entries(&entries, names(&entries), || match entries.as_slice() {
        [] => args.nothing().to_owned(),
        entries => removals_table(entries),
    })
}

fn runs(args: &Args, store: &StoreReader, output: &mut Output) -> Result<(), CliError> {
    let entries = store.runs(args.limit)?;
    output.entries(&entries, [], || match entries.as_slice() {
        [] => "no runs\n".to_owned(),
        entries => runs_table(entries),
    })
}

fn names(entries: &[HistoryEntry]) -> impl Iterator<Item = String> {
    entries.iter().map(|entry| reference(entry.kind, &entry.id))
}

/// Formats a row for each removal. Those of the same kind in one hour are one row for a pod, where the row would say the same: a crash loop
/// leaves a termination log each minute.
fn removals_table(entries: &[HistoryEntry]) -> String {
    let mut groups: Vec<Vec<&HistoryEntry>> = Vec::new();
    let mut known = HashMap::new();
    for entry in entries {
        let hour = entry.at.as_second() / 3600;
        let same = (hour, entry.kind, &entry.pod, &entry.outcome, why(entry));
        let is_alone = entry.kind != Kind::Leftover || entry.pod.is_none();
        let group = if is_alone { groups.len() } else { *known.entry(same).or_insert(groups.len()) };
        match groups.get_mut(group) {
            Some(group) => group.push(entry),
            None => groups.push(vec![entry]),
        }
    }
    REMOVALS.text(groups.iter().map(|group| row(group)))
}

/// Formats removals as one row, with the time of the newest.
fn row(group: &[&HistoryEntry]) -> [String; 9] {
    let Some(entry) = group.first() else { return Default::default() };
    let sum = |of: fn(&HistoryEntry) -> Option<u64>| {
        let known = group.iter().filter_map(|entry| of(entry));
        known.reduce(u64::saturating_add).map(format::size).unwrap_or_default()
    };
    let [kind, id, name, pod] = object(entry.kind, &entry.id, entry.name.as_deref(), entry.pod.as_ref());
    [
        second(entry.at),
        kind,
        if group.len() == 1 { id } else { format!("{} in this hour", format::count(group.len(), "file")) },
        name + &more_tags(&entry.tags),
        pod,
        entry.outcome.replace('_', " "),
        sum(|entry| entry.estimated_bytes),
        sum(|entry| entry.freed_bytes),
        why(entry),
    ]
}

/// Returns that an image was pulled again after this removal, if so.
pub(in crate::cli) fn pulled_again(entry: &HistoryEntry) -> Option<String> {
    Some(format::pulled_again(entry.at, entry.pulled_again_at?, entry.estimated_bytes))
}

/// Returns the rule of the removal, or why the object was kept after all.
fn why(entry: &HistoryEntry) -> String {
    let proven = entry.proven_by.as_ref().map(|source| format!(", confirmed by {source}")).unwrap_or_default();
    let detail = entry.detail.as_ref().map(|detail| format!("; {detail}")).unwrap_or_default();
    let pulled_again = pulled_again(entry).map(|text| format!("; {text}")).unwrap_or_default();
    format!("{}{proven}{detail}{pulled_again}", entry.phrase())
}

/// Formats one line for each run. The numbers that are nearly always 0 are in the wide table only.
fn runs_table(entries: &[RunEntry]) -> String {
    let rows = entries.iter().map(|entry| {
        let took = |end: Timestamp| format::age(end.duration_since(entry.started_at).as_secs());
        [
            entry.id.to_string(),
            second(entry.started_at),
            entry.finished_at.map_or_else(|| "in progress".to_owned(), took),
            if entry.dry { format!("{} (dry)", entry.scope) } else { entry.scope.clone() },
            entry.removed.to_string(),
            entry.already_removed.to_string(),
            entry.refused.to_string(),
            entry.failed.to_string(),
            format::size(entry.freed_bytes),
            entry.triggered_by.clone().unwrap_or_default(),
            entry.error.clone().unwrap_or_default(),
        ]
    });
    RUNS.text(rows)
}

/// Formats a time to the second.
fn second(moment: Timestamp) -> String {
    format!("{moment:.0}")
}

/// Returns a command for each name of each removed image. A name that is no reference becomes a comment, because a shell runs the lines.
fn of(entries: &[HistoryEntry]) -> String {
    let is_reference = |name: &str| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-/:@".contains(c);
        name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(is_plain)
    };
    let removed = entries.iter().filter(|entry| entry.kind == Kind::Image && entry.outcome == "removed");
    let lines = removed.flat_map(|entry| {
        let unnamed = entry.tags.is_empty().then(|| format!("# {} had no tag\n", format::printable(&entry.id)));
        let line = |name: &String| {
            if is_reference(name) {
                format!("crictl pull {name}\n")
            } else {
                format!("# no reference: {}\n", format::printable(name))
            }
        };
        entry.tags.iter().map(line).chain(unnamed).collect::<Vec<_>>()
    });
    let mut known = HashSet::new();
    lines.filter(|line| known.insert(line.clone())).collect()
}
