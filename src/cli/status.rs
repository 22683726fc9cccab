//! `kubegc status`.

use std::io::IsTerminal as _;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use super::session::{self, block_on};
use super::{CliError, ErrorKind, Output, format, pods, reason_text};
use crate::config::{Loaded, Settings};
use crate::daemon::now;
use crate::model::{FileSystem, ListBytes, Runtime, Seen, Snapshot};
use crate::plan::{Plan, PodKnowledge, Scope};
use crate::record::{Lock, RunEntry};
use crate::serve::{AgentState, PassState, RunningPass, agent_state};

/// Show the agent, its data sources and its last passes
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print the status again after this time, until a signal
    #[arg(short, long, value_name = "INTERVAL", num_args = 0..=1, require_equals = true, default_missing_value = "2s",
          value_parser = humantime::parse_duration)]
    watch: Option<Duration>,
}

/// The longest wait for the agent's answer. The server has a thread of its own, so a healthy agent answers at once.
const ANSWER: Duration = Duration::from_secs(2);
/// Clears a terminal.
const CLEAR: &str = "\x1b[H\x1b[2J";
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
    /// What the running agent shows on its socket; `null` = no agent runs, or it has no socket.
    live: Option<AgentState>,
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
    /// Why a pod source is unavailable.
    #[serde(skip)]
    failed_sources: Option<String>,
    /// Why it cannot be seen whether an agent runs.
    #[serde(skip)]
    hidden: Option<String>,
    #[serde(skip)]
    thresholds: [u64; 2],
}

/// Prints the status. What does not depend on the runtime is printed even if the runtime is unavailable.
///
/// The exit status is for probes: an error if no agent runs, if its last pass failed, or if a pod source is unavailable.
pub fn run(args: &Args, loaded: &Loaded, output: &mut Output) -> Result<(), CliError> {
    let Some(interval) = args.watch else { return once(loaded, output) };
    let is_terminal = std::io::stdout().is_terminal();
    loop {
        output.text(if is_terminal { CLEAR } else { "" })?;
        if let Err(error) = once(loaded, output) {
            output.text(&format!("{error}\n"))?;
        }
        output.text(if is_terminal { "" } else { "\n" })?;
        output.flush()?;
        std::thread::sleep(interval);
    }
}

fn once(loaded: &Loaded, output: &mut Output) -> Result<(), CliError> {
    let looked = block_on(session::look(loaded, Scope::All));
    let mut status = Status::begin(loaded)?;
    let fault = match looked {
        Ok((snapshot, plan)) => {
            status.failed_sources = session::failed_sources(&plan, &loaded.settings);
            status.observed(snapshot, plan);
            None
        }
        Err(error) => {
            status.unavailable(&error);
            Some(error)
        }
    };
    output.result(&status, |_| status.text())?;
    // The text has the cause.
    fault.map_or(Ok(()), |error| Err(CliError::message(error.kind(), "the runtime is unavailable")))?;
    status.verdict()
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
            live: live(settings),
            store: Lock::fault(&settings.state.lock),
            runtime: Seen::default(),
            image_filesystem: Seen::default(),
            list_bytes: ListBytes::default(),
            pods: Seen::default(),
            to_remove: Seen::default(),
            last_runs: newest_of_each_scope(session::recorded_blocking(settings)?.runs(RUNS)?),
            pod_sources: String::new(),
            failed_sources: None,
            hidden: Lock::is_hidden(&settings.state.lock)
                .map(|cause| format!("cannot read {}: {cause}", settings.state.lock.display())),
            thresholds: [settings.policy.images.high_threshold_percent, settings.policy.images.low_threshold_percent],
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

    /// Formats the agent, as `pid 123, run, up 3h, mode collect, profile safe`.
    fn agent_text(&self) -> String {
        let unknown = self.hidden.as_ref().map(|cause| format!("unknown: {cause}"));
        let agent = self.agent.clone().or(unknown).unwrap_or_else(|| "none".to_owned());
        let Some(live) = &self.live else { return agent };
        let up = format::age(self.at.duration_since(live.started_at).as_secs());
        format!("{agent}, up {up}, mode {}, profile {}", live.mode, live.profile)
    }

    /// Formats the image disk: its usage against the thresholds.
    fn disk(&self, disk: &FileSystem) -> String {
        let used = disk.capacity_bytes.saturating_sub(disk.available_bytes);
        let percent = used.saturating_mul(100).div_ceil(disk.capacity_bytes.max(1));
        let [high, low] = self.thresholds;
        let (free, all) = (format::size(disk.available_bytes), format::size(disk.capacity_bytes));
        format!("{percent}% used (high {high}%, low {low}%), {free} of {all} free, {}", disk.mountpoint.display())
    }

    /// Formats the last passes: those of the running agent, else those in the store.
    fn last_passes(&self) -> Box<dyn Iterator<Item = String> + '_> {
        match self.live.as_ref().filter(|live| !live.passes.is_empty()) {
            Some(live) => Box::new(live.passes.iter().map(|(scope, pass)| live_pass(scope, pass, self.at))),
            None => Box::new(self.last_runs.iter().map(|run| pass(run, self.at))),
        }
    }

    /// Returns an error if no agent runs, or if its last pass failed in part.
    fn verdict(&self) -> Result<(), CliError> {
        let error = |text: String| Err(CliError::message(ErrorKind::Partial, text));
        if let (None, Some(cause)) = (&self.agent, &self.hidden) {
            return error(format!("whether an agent runs is unknown: {cause}"));
        }
        if self.agent.is_none() {
            return error("no agent runs on this node".to_owned());
        }
        let failed = |(_, pass): &(&String, &PassState)| pass.failed > 0 || !pass.errors.is_empty();
        match self.live.as_ref().and_then(|live| live.passes.iter().find(failed)) {
            Some((scope, _)) => error(format!("the last pass over {scope} failed in part")),
            None => self.failed_sources.clone().map_or(Ok(()), error),
        }
    }

    fn text(&self) -> String {
        let mut lines = vec![
            ("Node", self.node.clone()),
            ("Agent", self.agent_text()),
            ("Now", self.live.as_ref().map(now_text).unwrap_or_default()),
            ("Next pass", self.live.as_ref().map(|live| next_text(live, self.at)).unwrap_or_default()),
            ("Metrics", self.live.as_ref().map(metrics_text).unwrap_or_default()),
            ("Store", self.store.clone().unwrap_or_default()),
            ("Runtime", text_of(&self.runtime, runtime_text)),
            ("Image disk", self.image_filesystem.as_ref().map(|disk| self.disk(disk)).unwrap_or_default()),
            ("Pods", self.pod_sources.clone()),
            ("To remove", self.to_remove.as_ref().map(|count| format::count(*count, "object")).unwrap_or_default()),
        ];
        lines.extend(self.large_lists().map(|warning| ("Warning", warning)));
        lines.extend(self.last_passes().map(|text| ("Last pass", text)));
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

/// Formats the runtime, as `containerd v2.1.4 at /run/containerd/containerd.sock`.
fn runtime_text(runtime: &Runtime) -> String {
    format!("{} {} at {}", runtime.name, runtime.version, runtime.endpoint)
}

/// Returns what the agent shows on its socket. A command without permission shows only what is in files.
fn live(settings: &Settings) -> Option<AgentState> {
    let socket = settings.state.socket();
    let answer = block_on(async { Ok(tokio::time::timeout(ANSWER, agent_state(&socket)).await) });
    answer.ok()?.ok()?.ok()
}

/// Formats where metrics are; empty = they are turned off.
fn metrics_text(live: &AgentState) -> String {
    live.metrics_address.as_ref().map_or_else(String::new, |at| text_of(at, |at| format!("http://{at}/metrics")))
}

/// Formats what the agent does now.
fn now_text(live: &AgentState) -> String {
    let pass = |(scope, pass): (&String, &RunningPass)| match pass.planned {
        0 => format!("pass over {scope}"),
        planned => format!("pass over {scope}: {} of {planned} objects done", pass.done),
    };
    let passes: Vec<_> = live.running.iter().map(pass).collect();
    if passes.is_empty() { "idle".to_owned() } else { format::list(&passes) }
}

/// Formats when the next passes are due, as `containers in 40s, images in 4m`.
fn next_text(live: &AgentState, now: Timestamp) -> String {
    // A pass over all was requested, and has no next one.
    let due = |(scope, pass): (&String, &PassState)| {
        let seconds = pass.next_at?.duration_since(now).as_secs();
        Some(format!("{scope} {}", if seconds > 0 { format!("in {}", format::age(seconds)) } else { "now".to_owned() }))
    };
    let scheduled = live.passes.iter().filter(|(scope, _)| *scope != Scope::All.as_str());
    scheduled.filter_map(due).collect::<Vec<_>>().join(", ")
}

/// Formats the last pass of the agent over one scope.
fn live_pass(scope: &str, pass: &PassState, now: Timestamp) -> String {
    let age = format::age(now.duration_since(pass.ended_at).as_secs());
    let errors: Vec<_> = pass.errors.iter().map(|error| format!("; {error}")).collect();
    let errors = errors.concat();
    if pass.would_remove > 0 {
        return format!("{scope}, {age} ago: would remove {}{errors}", pass.would_remove);
    }
    let (removed, failed, freed) = (pass.removed, pass.failed, format::size(pass.freed_bytes));
    format!("{scope}, {age} ago: removed {removed}, failed {failed}, reclaimed {freed}{errors}")
}

/// Formats one run: `images, 12s ago: removed 3, failed 1, freed 1.2GiB`.
fn pass(run: &RunEntry, now: Timestamp) -> String {
    let age = format::age(now.duration_since(run.started_at).as_secs());
    let dry = if run.dry { ", dry run" } else { "" };
    let fault = run.error.as_ref().map_or_else(String::new, |error| format!("; {error}"));
    let (removed, failed, freed) = (run.removed, run.failed, format::size(run.freed_bytes));
    format!("{}{dry}, {age} ago: removed {removed}, failed {failed}, reclaimed {freed}{fault}", run.scope)
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
