//! `kubegc status`.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use nix::errno::Errno;
use nix::unistd::{AccessFlags, access};
use serde::Serialize;

use crate::cli::cli_error::{CliError, ErrorKind};
use crate::cli::input::session::{self, Observed, block_on};
use crate::cli::render::node_page::{Beside, node_page};
use crate::cli::render::output::{Document, Output};
use crate::cli::render::plan_tables::log_limits;
use crate::cli::render::{format, pod_text as pods};
use crate::cli::verb::{LOOKS, Start, TEXT, Verb, VerbFacts};
use crate::config::{ConfigFault, Loaded, Settings, StateSettings};
use crate::daemon::{failed_sources, now, suspension_of_files};
use crate::fleet::NodeStatus;
use crate::model::{FileSystem, ListBytes, ListReceipt, Runtime, Seen};
use crate::plan::{DiskState, DiskSummary, PassCounts, PodKnowledge, Scope};
use crate::record::{Lock, RunEntry, StoreError};

/// Show the agent, its data sources and its last passes
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print the status at this interval, until a signal
    #[arg(short, long, value_name = "INTERVAL", num_args = 0..=1, require_equals = true, default_missing_value = "2s",
          value_parser = humantime::parse_duration)]
    watch: Option<Duration>,
}

/// Clears a terminal.
const CLEAR: &str = "\x1b[H\x1b[2J";
/// The number of runs in which to find the last one of each scope.
const RUNS: usize = 100;

/// The status of the node.
#[derive(Debug, Serialize)]
pub(in crate::cli) struct Status {
    at: Timestamp,
    node: String,
    /// The agent that holds the node's lock, as `pid 123, run`; `null` = none.
    agent: Option<String>,
    /// What the running agent shows on its socket; `null` = no agent runs, or it has no socket.
    live: Option<NodeStatus>,
    /// The settings of the agent that differ from those of this command.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    other_settings: Vec<String>,
    /// Why passes remove nothing now; `null` = they do.
    suspended: Option<String>,
    /// What is wrong with the configuration. The node is observed with the rest of it, and without credentials.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    config_faults: Vec<String>,
    /// Why the memory of the agent is not written to the store, or why the store cannot be read; `null` = it is.
    store: Option<String>,
    runtime: Seen<Runtime>,
    image_filesystem: Seen<FileSystem>,
    /// The disks of the node, and the limits that apply to them.
    disks: Vec<DiskState>,
    /// The limits on log files that a pass would not meet now.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    log_limits: Vec<String>,
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
    /// Files of the agent that this user may not read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unreadable: Vec<PathBuf>,
}

// === impl Args: the command ===

impl Verb for Args {
    fn facts() -> &'static VerbFacts {
        &VerbFacts {
            name: "status",
            examples: &[
                ("Show the agent and its last passes", "kubegc status"),
                ("Show them every 5 seconds", "kubegc status --watch=5s"),
            ],
            formats: TEXT,
            words: &["info", "health"],
            ..LOOKS
        }
    }

    fn run(&self, start: &Start<'_>, output: &mut Output) -> Result<(), CliError> {
        let (loaded, faults) = start.load_in_part()?;
        run(self, &loaded, &faults, output)
    }
}

/// Prints the status. What does not depend on the runtime is printed even if the runtime is unavailable.
///
/// The exit status is for probes: an error if the configuration has `faults`, if no agent runs, if its last pass failed, or if a
/// pod source is unavailable.
fn run(args: &Args, loaded: &Loaded, faults: &[ConfigFault], output: &mut Output) -> Result<(), CliError> {
    let Some(interval) = args.watch else { return once(loaded, faults, output) };
    let is_terminal = std::io::stdout().is_terminal();
    loop {
        output.text(if is_terminal { CLEAR } else { "" })?;
        if let Err(error) = once(loaded, faults, output) {
            output.text(&format!("{error}\n"))?;
        }
        output.text(if is_terminal { "" } else { "\n" })?;
        output.flush()?;
        std::thread::sleep(interval);
    }
}

fn once(loaded: &Loaded, faults: &[ConfigFault], output: &mut Output) -> Result<(), CliError> {
    let config_faults: Vec<_> = faults.iter().map(ToString::to_string).collect();
    let observed = block_on(session::observe(loaded, Scope::All, []))?;
    let status = Status { config_faults, ..Status::new(loaded, &observed) };
    output.result(&Document::of(&status), || status.text())?;
    if !faults.is_empty() {
        let text = format::count(faults.len(), "fault") + " in the configuration";
        return Err(CliError::message(ErrorKind::Partial, text).hint("`kubegc config check` checks the configuration"));
    }
    // The text has the cause.
    let unavailable = |error: CliError| Err(CliError::message(error.kind(), "the runtime is unavailable"));
    observed.runtime.map_or_else(|| status.verdict(), unavailable)
}

// === impl Status ===

impl Status {
    /// Reads what is in files, the lock and the store, and adds what was observed of the node.
    fn new(loaded: &Loaded, observed: &Observed) -> Self {
        let Loaded { settings, .. } = loaded;
        let state = &settings.state;
        let live = session::live(settings);
        let (last_runs, unread) = runs(settings);
        let Observed { snapshot, plan, .. } = observed;
        Self {
            at: now(),
            node: snapshot.node.clone(),
            agent: Lock::holder(&state.lock),
            suspended: suspended(settings, live.as_ref()),
            other_settings: live.as_ref().map(|live| session::other_settings(loaded, live)).unwrap_or_default(),
            live,
            config_faults: Vec::new(),
            store: Lock::fault(&state.lock).or(unread),
            runtime: snapshot.runtime.clone(),
            image_filesystem: snapshot.image_filesystem.clone(),
            disks: plan.disks.clone(),
            log_limits: log_limits(plan).collect(),
            list_bytes: snapshot.list_bytes.clone(),
            pods: plan.pods.clone(),
            to_remove: snapshot.runtime.clone().map(|_| plan.actions.len()),
            last_runs,
            pod_sources: pod_sources(observed),
            failed_sources: failed_sources(plan, settings),
            hidden: Lock::is_hidden(&state.lock).map(|cause| format!("cannot read {}: {cause}", state.lock.display())),
            unreadable: unreadable(state),
        }
    }

    /// Returns a warning for each list that reaches half of the limit on one message.
    fn large_lists(&self) -> impl Iterator<Item = String> {
        let sizes = &self.list_bytes;
        let large = sizes.receipts().filter(|(_, receipt)| sizes.is_near_limit(receipt));
        large.map(|(list, receipt)| large_list(list, receipt, sizes.limit))
    }

    /// Formats what is missing because of permissions; empty = nothing is.
    fn unreadable_text(&self) -> String {
        let paths: Vec<_> = self.unreadable.iter().map(|path| path.display().to_string()).collect();
        if paths.is_empty() { String::new() } else { format!("{} (run as root)", format::list(&paths)) }
    }

    /// Returns an error if no agent runs, or if its last pass failed in part.
    fn verdict(&self) -> Result<(), CliError> {
        let error = |text: String| Err(CliError::message(ErrorKind::Partial, text));
        if let (None, Some(cause)) = (&self.agent, &self.hidden) {
            return error(format!("cannot determine whether an agent runs: {cause}"));
        }
        if self.agent.is_none() {
            return error("no agent runs on this node".to_owned());
        }
        match self.live.as_ref().and_then(|live| live.passes.iter().find(|pass| pass.fault().is_some())) {
            Some(pass) => error(format!("the last pass over {} failed in part", pass.scope)),
            None => self.failed_sources.clone().map_or(Ok(()), error),
        }
    }

    /// Returns the status that the agent shows, with what this command observed: the disks, if it has the limits of the agent, and what
    /// suspends removals. Without an agent
    /// the passes are those in the store.
    fn shown(&self) -> NodeStatus {
        let mut shown = self.live.clone().unwrap_or_default();
        shown.set_collecting(self.suspended.as_deref());
        if !self.disks.is_empty() && self.other_settings.is_empty() {
            shown.disks = self.disks.iter().map(DiskSummary::from).collect();
        }
        if shown.passes.is_empty() {
            shown.passes = self.last_runs.iter().map(counts).collect();
        }
        shown
    }

    /// Formats the page. The store has a line only if there is a problem with it.
    fn text(&self) -> String {
        let unknown = self.hidden.as_ref().map(|cause| format!("unknown: {cause}"));
        let faults = self.config_faults.iter().map(|fault| ("Config", fault.clone()));
        let notes = self.log_limits.iter().map(|note| ("Logs", note.clone()));
        let seen = [
            ("Pods", self.pod_sources.clone()),
            ("To remove", self.to_remove.as_ref().map(|count| format::count(*count, "object")).unwrap_or_default()),
        ];
        let beside = Beside {
            holder: self.agent.clone().or(unknown).unwrap_or_else(|| "none".to_owned()),
            node: vec![("Node", self.node.clone())],
            agent: faults
                .chain([
                    ("Settings", self.other_settings.join(", ")),
                    ("Store", self.store.clone().unwrap_or_default()),
                    ("Unreadable", self.unreadable_text()),
                    ("Runtime", format::seen(&self.runtime, "unavailable", runtime_text)),
                ])
                .collect(),
            disks: seen.into_iter().chain(notes).chain(self.large_lists().map(|note| ("Warning", note))).collect(),
        };
        node_page(&self.shown(), beside, self.at)
    }
}

/// Formats the pod sources. Where they need the runtime, that has the cause.
fn pod_sources(observed: &Observed) -> String {
    let Observed { snapshot, plan, .. } = observed;
    let is_of_runtime = plan.pods.cause().is_some_and(|cause| Some(cause) == snapshot.runtime.cause());
    if is_of_runtime { String::new() } else { pods::sources_of(plan) }
}

/// Returns why passes remove nothing now: what the files of the node say, else what the agent shows.
fn suspended(settings: &Settings, live: Option<&NodeStatus>) -> Option<String> {
    let of_files = suspension_of_files(settings, now()).map(|suspension| suspension.to_string());
    of_files.or_else(|| live?.suspended().map(str::to_owned))
}

/// Returns the last run of each scope, and why the store cannot be read. Files that this user may not read have a line of their own.
fn runs(settings: &Settings) -> (Vec<RunEntry>, Option<String>) {
    match session::read(settings).and_then(|store| store.map_or(Ok(Vec::new()), |store| store.runs(RUNS))) {
        Ok(runs) => (newest_of_each_scope(runs), None),
        Err(StoreError::Access { .. }) => (Vec::new(), None),
        Err(error) => (Vec::new(), Some(error.to_string())),
    }
}

/// Returns the files of the agent that this user may not read: the lock, the socket and the store.
fn unreadable(state: &StateSettings) -> Vec<PathBuf> {
    let files = [
        (state.lock.clone(), AccessFlags::R_OK),
        (state.socket(), AccessFlags::W_OK),
        (state.path.clone(), AccessFlags::R_OK),
    ];
    let is_denied = |(path, flags): &(PathBuf, AccessFlags)| access(path, *flags) == Err(Errno::EACCES);
    files.into_iter().filter(is_denied).map(|(path, _)| path).collect()
}

/// Warns of a list that soon does not fit into one message, or no longer does.
fn large_list(list: &str, receipt: &ListReceipt, limit: u64) -> String {
    let size = format!(
        "list of {list} is {}, usual limit on one message is {}",
        format::size(receipt.bytes),
        format::size(limit)
    );
    let hint = "hint: lower containers.max_containers, or raise max_send_message_size in the runtime's configuration";
    match &receipt.refused {
        Some(cause) => format!("{size}; received in parts: {cause}; {hint}"),
        None => format!("{size}; the kubelet fails above it; {hint}"),
    }
}

/// Formats the runtime, as `containerd v2.1.4 at /run/containerd/containerd.sock`.
fn runtime_text(runtime: &Runtime) -> String {
    format!("{} {} at {}", runtime.name, runtime.version, runtime.endpoint)
}

fn counts(run: &RunEntry) -> PassCounts {
    PassCounts {
        scope: format!("{}{}", run.scope, if run.dry { ", dry run" } else { "" }),
        at: Some(run.started_at),
        removed: run.removed,
        failed: run.failed,
        freed_bytes: run.freed_bytes,
        errors: run.error.iter().cloned().collect(),
        ..PassCounts::default()
    }
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
