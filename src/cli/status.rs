//! `kubegc status`.

use jiff::Timestamp;
use serde::Serialize;

use super::session::{self, block_on};
use super::{CliError, Output, format, pods, reason_text};
use crate::config::Loaded;
use crate::daemon::now;
use crate::model::{FileSystem, ListBytes, Runtime, Seen, Snapshot};
use crate::plan::{Plan, PodKnowledge, Scope};
use crate::record::{Lock, RunEntry};

/// Show the agent, its data sources and its last passes
#[derive(Debug, clap::Args)]
pub struct Args {}

/// The number of runs in which to find the last one of each scope.
const RUNS: usize = 100;

/// The status of the node.
#[derive(Debug, Serialize)]
struct Status {
    kind: &'static str,
    version: u32,
    at: Timestamp,
    node: String,
    /// The agent that holds the node's lock, as `pid 123, run`; `null` = none.
    agent: Option<String>,
    /// Why the memory of the agent is not written to the store; `null` = it is.
    store: Option<String>,
    runtime: Seen<Runtime>,
    image_filesystem: Seen<FileSystem>,
    /// The sizes of the runtime's lists.
    list_bytes: ListBytes,
    /// The pod sources.
    pods: Seen<PodKnowledge>,
    /// The number of objects that a pass would remove now.
    to_remove: Seen<usize>,
    /// The last run of each scope, newest first.
    last_runs: Vec<RunEntry>,
    #[serde(skip)]
    pod_sources: String,
}

/// Prints the status. What does not depend on the runtime is printed even if the runtime is unavailable.
pub fn run(Args {}: &Args, loaded: &Loaded, output: &mut Output) -> Result<(), CliError> {
    let looked = block_on(session::look(loaded, Scope::All));
    let mut status = Status::begin(loaded)?;
    let trouble = match looked {
        Ok((snapshot, plan)) => {
            status.observed(snapshot, plan);
            None
        }
        Err(error) => {
            status.unavailable(&error);
            Some(error)
        }
    };
    output.result(&status, |_| status.text())?;
    trouble.map_or(Ok(()), Err)
}

// === impl Status ===

impl Status {
    /// Reads what is in files: the lock and the store.
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
            pod_sources: String::new(),
        })
    }

    fn observed(&mut self, snapshot: Snapshot, plan: Plan) {
        self.pod_sources = pods::sources_of(&plan);
        self.to_remove = Seen::Seen(plan.actions.len());
        self.pods = plan.pods;
        self.node = snapshot.node;
        self.runtime = snapshot.runtime;
        self.image_filesystem = snapshot.image_filesystem;
        self.list_bytes = snapshot.list_bytes;
    }

    fn unavailable(&mut self, error: &CliError) {
        let cause = error.to_string();
        "unknown: the runtime is unavailable".clone_into(&mut self.pod_sources);
        self.runtime = Seen::NotSeen(cause.clone());
        self.image_filesystem = Seen::NotSeen(cause.clone());
        self.pods = Seen::NotSeen(cause.clone());
        self.to_remove = Seen::NotSeen(cause);
    }

    /// Returns a warning for each list that reaches half of the limit on one message.
    fn large_lists(&self) -> impl Iterator<Item = String> {
        let sizes = &self.list_bytes;
        let large = sizes.receipts().filter(|(_, receipt)| sizes.is_near_limit(receipt));
        large.map(|(list, receipt)| reason_text::large_list(list, receipt, sizes.limit))
    }

    fn text(&self) -> String {
        let mut lines = vec![
            ("Node", self.node.clone()),
            ("Agent", self.agent.clone().unwrap_or_else(|| "none".to_owned())),
            ("Store", self.store.clone().unwrap_or_default()),
            ("Runtime", text_of(&self.runtime, |runtime| format!("{} {}", runtime.name, runtime.version))),
            ("Image disk", text_of(&self.image_filesystem, disk)),
            ("Pods", self.pod_sources.clone()),
            ("To remove", text_of(&self.to_remove, |count| format::count(*count, "object"))),
        ];
        lines.extend(self.large_lists().map(|warning| ("Warning", warning)));
        lines.extend(self.last_runs.iter().map(|run| ("Last pass", pass(run, self.at))));
        // If the runtime is unavailable, the name of the node is known only if it is set. The store has a line only if
        // there is a problem with it.
        lines.retain(|(_, value)| !value.is_empty());
        let line = |(name, value): (&str, String)| format!("{:<12}{}\n", format!("{name}:"), format::printable(&value));
        lines.into_iter().map(line).collect()
    }
}

fn text_of<T>(seen: &Seen<T>, words: impl FnOnce(&T) -> String) -> String {
    match seen {
        Seen::Seen(value) => words(value),
        Seen::NotSeen(cause) => format!("unavailable: {cause}"),
    }
}

fn disk(disk: &FileSystem) -> String {
    let (free, all) = (format::size(disk.available_bytes), format::size(disk.capacity_bytes));
    format!("{free} of {all} free, {}", disk.mountpoint.display())
}

/// Formats one run: `images, 12s ago: removed 3, failed 1, freed 1.2GiB`.
fn pass(run: &RunEntry, now: Timestamp) -> String {
    let age = format::age(now.duration_since(run.started_at).as_secs());
    let dry = if run.dry { ", dry run" } else { "" };
    let trouble = run.error.as_ref().map_or_else(String::new, |error| format!("; {error}"));
    let (removed, failed, freed) = (run.removed, run.failed, format::size(run.freed_bytes));
    format!("{}{dry}, {age} ago: removed {removed}, failed {failed}, reclaimed {freed}{trouble}", run.scope)
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
