//! `kubegc status`.

use jiff::Timestamp;
use serde::Serialize;

use super::session::{self, block_on};
use super::{CliError, Format, Output, format, pods, reason_text};
use crate::config::Loaded;
use crate::daemon::now;
use crate::model::{FileSystem, ListBytes, Runtime, Seen, Snapshot};
use crate::plan::{Plan, PodKnowledge, Scope};
use crate::record::{Lock, RunEntry};

/// Tell who collects here, what it can see, and how its last passes went
#[derive(Debug, clap::Args)]
pub struct Args {}

/// How many runs are looked through for the last of each scope.
const RUNS: usize = 100;

/// What there is to tell.
#[derive(Debug, Serialize)]
struct Status {
    kind: &'static str,
    version: u32,
    at: Timestamp,
    node: String,
    /// The agent that holds the node's lock, as `pid 123, run`; `null` = none does.
    agent: Option<String>,
    /// Why the agent remembers in memory only; `null` = it writes to the store.
    store: Option<String>,
    runtime: Seen<Runtime>,
    image_filesystem: Seen<FileSystem>,
    /// How large the runtime's lists are.
    list_bytes: ListBytes,
    /// Where the knowledge of pods comes from.
    pods: Seen<PodKnowledge>,
    /// How many objects a pass would remove now.
    to_remove: Seen<usize>,
    /// The last run of each scope, the newest first.
    last_runs: Vec<RunEntry>,
    #[serde(skip)]
    known_from: String,
}

/// Looks and prints. What does not need the runtime is told without it.
pub fn run(Args {}: &Args, loaded: &Loaded, output: &mut Output) -> Result<(), CliError> {
    let looked = block_on(session::look(loaded, Scope::All));
    let mut status = Status::begin(loaded)?;
    let trouble = match looked {
        Ok((snapshot, plan)) => {
            status.saw(snapshot, plan);
            None
        }
        Err(error) => {
            status.saw_nothing(&error);
            Some(error)
        }
    };
    match output.format.unwrap_or(Format::Table) {
        Format::Json => output.json(&status)?,
        Format::Yaml => output.yaml(&status)?,
        Format::Table | Format::Wide => output.text(&status.text())?,
    }
    trouble.map_or(Ok(()), Err)
}

// === impl Status ===

impl Status {
    /// What stands in files: who holds the lock, and what is recorded.
    fn begin(loaded: &Loaded) -> Result<Self, CliError> {
        let Loaded { settings, .. } = loaded;
        Ok(Self {
            kind: "Status",
            version: 1,
            at: now(),
            node: settings.node.clone(),
            agent: Lock::holder(&settings.state.lock),
            store: Lock::trouble(&settings.state.lock),
            runtime: Seen::default(),
            image_filesystem: Seen::default(),
            list_bytes: ListBytes::default(),
            pods: Seen::default(),
            to_remove: Seen::default(),
            last_runs: newest_of_each_scope(session::memory_only(settings)?.runs(RUNS)?),
            known_from: String::new(),
        })
    }

    fn saw(&mut self, snapshot: Snapshot, plan: Plan) {
        self.known_from = pods::known_from(&plan);
        self.to_remove = Seen::Seen(plan.actions.len());
        self.pods = plan.pods;
        self.node = snapshot.node;
        self.runtime = snapshot.runtime;
        self.image_filesystem = snapshot.image_filesystem;
        self.list_bytes = snapshot.list_bytes;
    }

    fn saw_nothing(&mut self, error: &CliError) {
        let cause = error.to_string();
        "nobody: the runtime was not seen".clone_into(&mut self.known_from);
        self.runtime = Seen::NotSeen(cause.clone());
        self.image_filesystem = Seen::NotSeen(cause.clone());
        self.pods = Seen::NotSeen(cause.clone());
        self.to_remove = Seen::NotSeen(cause);
    }

    /// A warning for each list at half of the limit on one message or more.
    fn large_lists(&self) -> impl Iterator<Item = String> {
        let sizes = &self.list_bytes;
        let large = sizes.receipts().filter(|(_, receipt)| sizes.is_near_limit(receipt));
        large.map(|(list, receipt)| reason_text::large_list(list, receipt, sizes.limit))
    }

    fn text(&self) -> String {
        let mut lines = vec![
            ("Node", self.node.clone()),
            ("Agent", self.agent.clone().unwrap_or_else(|| "none holds this node's lock".to_owned())),
            ("Store", self.store.clone().unwrap_or_default()),
            ("Runtime", told(&self.runtime, |runtime| format!("{} {}", runtime.name, runtime.version))),
            ("Image disk", told(&self.image_filesystem, disk)),
            ("Pods", self.known_from.clone()),
            ("To remove", told(&self.to_remove, |count| format::count(*count, "object"))),
        ];
        lines.extend(self.large_lists().map(|warning| ("Warning", warning)));
        lines.extend(self.last_runs.iter().map(|run| ("Last pass", pass(run, self.at))));
        // Without a runtime the node has no name but the one that was set, and the store has a line if something is wrong.
        lines.retain(|(_, value)| !value.is_empty());
        let line = |(name, value): (&str, String)| format!("{:<12}{}\n", format!("{name}:"), format::printable(&value));
        lines.into_iter().map(line).collect()
    }
}

fn told<T>(seen: &Seen<T>, words: impl FnOnce(&T) -> String) -> String {
    match seen {
        Seen::Seen(value) => words(value),
        Seen::NotSeen(cause) => format!("not seen: {cause}"),
    }
}

fn disk(disk: &FileSystem) -> String {
    let (free, all) = (format::size(disk.available_bytes), format::size(disk.capacity_bytes));
    format!("{free} of {all} free, {}", disk.mountpoint.display())
}

/// One run: `images, 12s ago: removed 3, failed 1, freed 1.2GiB`.
fn pass(run: &RunEntry, now: Timestamp) -> String {
    let age = format::age(now.duration_since(run.started_at).as_secs());
    let dry = if run.dry { ", dry" } else { "" };
    let trouble = run.error.as_ref().map_or_else(String::new, |error| format!("; {error}"));
    let (removed, failed, freed) = (run.removed, run.failed, format::size(run.freed_bytes));
    format!("{}{dry}, {age} ago: removed {removed}, failed {failed}, freed {freed}{trouble}", run.scope)
}

fn newest_of_each_scope(runs: Vec<RunEntry>) -> Vec<RunEntry> {
    let mut newest: Vec<RunEntry> = Vec::new();
    for run in runs {
        if newest.iter().all(|known| known.scope != run.scope) {
            newest.push(run);
        }
    }
    newest
}
