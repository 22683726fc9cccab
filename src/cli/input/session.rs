//! Access to this node: finds the runtime, opens the store, takes a snapshot.

use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;

use crate::cli::cli_error::{CliError, ErrorKind, warn};
use crate::cli::render::output::Format;
use crate::config::{Loaded, Settings};
use crate::cri::CriError;
use crate::daemon::agent::AgentError;
use crate::daemon::node::LocalNode;
use crate::daemon::{Cycle, needs_of_rules, now};
use crate::fleet::NodeStatus;
use crate::model::{AgentSettings, Pulls, Snapshot, Trace};
use crate::observe::{Needs, Part, wanted};
use crate::plan::{Plan, Scope, decide};
use crate::record::{Lock, LockError, STORE_LIMIT, Store, StoreError, StoreReader, read_within};
use crate::serve::node_status;

/// Runs a command that waits for the runtime and for signals. One thread is enough, because it waits most of the time.
/// Background work that hangs, such as access to an unresponsive disk, does not delay the exit.
pub(in crate::cli) fn block_on<T>(work: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let done = runtime.block_on(work);
    runtime.shutdown_background();
    done
}

/// Takes a snapshot of this node, with these parts for display, and plans what the agent would do now: under disk pressure it removes
/// more. It changes nothing, not even the memory.
pub(in crate::cli) async fn plan_now(
    loaded: &Loaded,
    scope: Scope,
    shown: impl IntoIterator<Item = Part>,
) -> Result<(Snapshot, Plan), CliError> {
    let needs = shown.into_iter().chain([Part::LogSizes]).collect();
    Ok(dry_cycle(loaded).await?.plan_now(scope, needs).await)
}

/// What a command knows of the node.
pub(in crate::cli) struct Observed {
    pub snapshot: Snapshot,
    pub plan: Plan,
    /// Why nothing is known of the runtime.
    pub runtime: Option<CliError>,
}

/// As [`plan_now`]. Without a runtime it has the rest.
pub(in crate::cli) async fn observe(
    loaded: &Loaded,
    scope: Scope,
    shown: impl IntoIterator<Item = Part>,
) -> Result<Observed, CliError> {
    let (node, error) = match LocalNode::find(loaded).await {
        Ok(node) => (node, None),
        Err(error) => (LocalNode::without_runtime(&loaded.settings, &error), Some(error.into())),
    };
    let needs = shown.into_iter().chain([Part::LogSizes]).collect();
    let (snapshot, plan) = cycle(loaded, &node).await?.plan_now(scope, needs).await;
    Ok(Observed { snapshot, plan, runtime: error })
}

/// Takes a snapshot with the lists alone, for completions.
pub(in crate::cli) async fn lists(loaded: &Loaded) -> Result<Snapshot, CliError> {
    Ok(dry_cycle(loaded).await?.snapshot(&Needs::new()).await)
}

/// Takes a snapshot with everything that a plan with any settings and these rules needs, and makes a plan with the policy in force, which
/// shows what is unavailable.
pub(in crate::cli) async fn snapshot(loaded: &Loaded) -> Result<(Snapshot, Plan), CliError> {
    let policy = &loaded.settings.policy;
    let mut needs = wanted([(Part::Workloads, policy.keeps_workload_images())]);
    needs.extend(Part::ALL.into_iter().chain(needs_of_rules(policy, Scope::All)));
    let snapshot = dry_cycle(loaded).await?.snapshot(&needs).await;
    let plan = decide(&snapshot, policy, Scope::All);
    Ok((snapshot, plan))
}

/// Returns a cycle that changes nothing: it has a copy of the store.
async fn dry_cycle(loaded: &Loaded) -> Result<Cycle, CliError> {
    cycle(loaded, &LocalNode::find(loaded).await?).await
}

async fn cycle(loaded: &Loaded, node: &LocalNode) -> Result<Cycle, CliError> {
    let memory = recorded(&loaded.settings).await?.memory()?;
    let started_at = memory.agent_started_at.unwrap_or_else(now);
    Ok(Cycle::dry(loaded.settings.clone(), node, Store::without_file(memory), started_at))
}

/// Prints a warning if there is no history yet: then each image was first seen now and each pod is missing since now. A
/// document has no warning: its reader may read both outputs.
pub(in crate::cli) async fn warn_without_history(settings: &Settings, format: Option<Format>) -> Result<(), CliError> {
    let is_text = !matches!(format, Some(Format::Json | Format::Yaml | Format::Name));
    if is_text && recorded(settings).await?.memory()?.agent_started_at.is_none() {
        warn(NO_HISTORY);
    }
    Ok(())
}

/// Returns what the agent shows on its socket. A command without permission shows only what is in files.
pub(in crate::cli) fn live(settings: &Settings) -> Option<NodeStatus> {
    let socket = settings.state.socket();
    let answer = block_on(async { Ok(tokio::time::timeout(ANSWER, node_status(&socket)).await) });
    answer.ok()?.ok()?.ok()
}

/// Prints a warning if a running agent has other settings than this command: it does something else than what is shown.
pub(in crate::cli) fn warn_of_other_settings(loaded: &Loaded) {
    let other = live(&loaded.settings).map(|status| other_settings(loaded, &status)).unwrap_or_default();
    if !other.is_empty() {
        warn(&format!("the running agent has other settings: {}", other.join(", ")));
    }
}

/// Returns the settings of a running agent that differ from those of this command.
pub(in crate::cli) fn other_settings(loaded: &Loaded, agent: &NodeStatus) -> Vec<String> {
    agent.local.as_ref().map(|local| loaded.other_than(&local.settings)).unwrap_or_default()
}

/// The longest wait for the agent's answer. The server has a thread of its own, so a healthy agent answers at once.
const ANSWER: Duration = Duration::from_secs(2);
/// The warning for a node without a store.
const NO_HISTORY: &str = "no history yet: ages count from this command; run the service, or `kubegc collect --wait`";

/// Reads the store. If its file system does not respond, this user may not read it, or a newer version wrote it, a warning is logged
/// and the plan is made without memory. Without memory everything counts as new, so less is removed.
pub(in crate::cli) async fn recorded(settings: &Settings) -> Result<StoreReader, CliError> {
    recorded_within(STORE_LIMIT, settings).await
}

async fn recorded_within(limit: Duration, settings: &Settings) -> Result<StoreReader, CliError> {
    let of = settings.clone();
    or_none(read_within(limit, &settings.state.path, move || read(&of)).await)
}

/// As [`recorded`], for a thread that may wait.
pub(in crate::cli) fn recorded_blocking(settings: &Settings) -> Result<StoreReader, CliError> {
    or_none(read(settings))
}

/// Reads the trace, with the settings of the running agent, and how long pulls take.
pub(in crate::cli) fn trace(settings: &Settings) -> Result<(Trace, Arc<Pulls>), CliError> {
    let store = recorded_blocking(settings)?;
    let agent = live(settings).and_then(|status| status.local);
    let agent = agent.and_then(|local| Some(AgentSettings { keys: local.settings, eviction: local.eviction? }));
    Ok((Trace { agent, ..store.trace()? }, store.memory()?.pulls))
}

/// Reads the store of the agent that holds the lock, else that of the settings.
pub(in crate::cli) fn read(settings: &Settings) -> Result<Option<StoreReader>, StoreError> {
    let path = Lock::store_of_holder(&settings.state.lock).filter(|path| path.exists());
    StoreReader::open(path.as_deref().unwrap_or(&settings.state.path))
}

fn or_none(read: Result<Option<StoreReader>, StoreError>) -> Result<StoreReader, CliError> {
    match read {
        Ok(Some(store)) => return Ok(store),
        Ok(None) => {}
        Err(error) => tracing::warn!(%error, "planning without memory"),
    }
    Ok(StoreReader::empty()?)
}

/// Returns an error if a list that the plan needs is unavailable, although the decisions of the plan are correct.
pub(in crate::cli) fn all_seen(plan: &Plan) -> Result<(), CliError> {
    let blind = plan.errors.iter().find(|error| error.is_unobserved());
    blind.map_or(Ok(()), |error| Err(CliError::message(ErrorKind::Partial, error.to_string())))
}

impl From<CriError> for CliError {
    fn from(error: CriError) -> Self {
        let kind = match &error {
            error if error.is_configuration() => ErrorKind::Config,
            error if error.is_unreachable() => ErrorKind::Runtime,
            _ => ErrorKind::Internal,
        };
        Self::new(kind, error)
    }
}

impl From<AgentError> for CliError {
    fn from(error: AgentError) -> Self {
        match error {
            AgentError::Signals(error) => error.into(),
            AgentError::Lock(error) => error.into(),
            AgentError::Store(error) => error.into(),
            AgentError::Runtime(error) => error.into(),
        }
    }
}

impl From<StoreError> for CliError {
    fn from(error: StoreError) -> Self {
        Self::new(ErrorKind::Internal, error)
    }
}

impl From<LockError> for CliError {
    fn from(error: LockError) -> Self {
        let (kind, hint) = match &error {
            LockError::Held { .. } => (ErrorKind::Locked, "`kubegc plan` works without the lock"),
            LockError::Dir { .. } | LockError::Open { .. } => (
                ErrorKind::Config,
                "run kubegc as root, or set state.lock (--lock) to a file that all agents of this node share",
            ),
            LockError::Take { .. } => (ErrorKind::Config, "set state.lock (--lock) to a file on a local file system"),
        };
        Self::new(kind, anyhow!(error)).hint(hint)
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::stat::Mode;

    use super::*;
    use crate::model::Memory;

    /// Opening a pipe to read it waits for a writer, as every access to a disk that hangs waits.
    #[tokio::test]
    async fn an_unresponsive_store_gives_a_plan_without_memory() {
        let dir = tempfile::tempdir().unwrap();
        let mut settings = Settings::default();
        settings.state.path = dir.path().join("kubegc.db");
        settings.state.lock = dir.path().join("kubegc.lock");
        nix::unistd::mkfifo(&settings.state.path, Mode::S_IRWXU).unwrap();
        let opened = recorded_within(Duration::from_millis(50), &settings);
        let opened = tokio::time::timeout(Duration::from_secs(30), opened).await;
        drop(std::fs::OpenOptions::new().write(true).open(&settings.state.path).unwrap()); // ends the wait
        let store = opened.expect("a bounded wait").unwrap();
        assert_eq!(store.memory().unwrap(), Memory::default());
    }
}
