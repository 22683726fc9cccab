//! Access to this node: finds the runtime, opens the store, takes a snapshot.

use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use jiff::Timestamp;

use super::error::warn;
use super::{CliError, ErrorKind, Format};
use crate::config::{Loaded, Settings};
use crate::cri::{self, CriError, CriOptions, RuntimeReader};
use crate::daemon::node::LocalNode;
use crate::daemon::{PressureMonitor, look_and_plan, now, recalled};
use crate::model::{Memory, PodSourceName, PodSourceReport, Seen, Snapshot};
use crate::observe::{Observer, StatusFor};
use crate::plan::{Plan, Pressure, Scope, add_object_facts, decide};
use crate::record::{Lock, LockError, STORE_LIMIT, Store, StoreError, StoreReader, read_within};

/// The longest time to measure the log directories, for display.
const MEASURING: Duration = Duration::from_secs(2);

/// Runs a command that waits for the runtime and for signals. One thread is enough, because it waits most of the time.
/// Background work that hangs, such as access to an unresponsive disk, does not delay the exit.
pub(super) fn block_on<T>(work: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let done = runtime.block_on(work);
    runtime.shutdown_background();
    done
}

/// Finds the runtime and checks whether it answers.
pub(super) async fn node(loaded: &Loaded) -> Result<LocalNode, CliError> {
    let settings = &loaded.settings;
    let candidates = loaded.candidates();
    let endpoint = cri::resolve(&candidates, &settings.runtime.options).await?;
    let chosen_by = candidates.runtime.as_ref().map_or("well-known sockets", |named| &named.named_by);
    let options = CriOptions { patience: Duration::ZERO, ..settings.runtime.options.clone() };
    let reader = RuntimeReader::new(&endpoint.runtime, &endpoint.images, options);
    reader.check().await?;
    tracing::info!(endpoint = endpoint.runtime, chosen_by, "runtime found");
    Ok(LocalNode::of_host(settings, endpoint))
}

/// Takes a snapshot of this node and plans what the agent would do now: under disk pressure it removes everything unused. It
/// changes nothing, not even the memory.
pub(super) async fn look(loaded: &Loaded, scope: Scope) -> Result<(Snapshot, Plan), CliError> {
    planned(loaded, scope, &[]).await
}

/// Takes a snapshot with the lists alone, for completions.
pub(super) async fn lists(loaded: &Loaded) -> Result<Snapshot, CliError> {
    let taken_at = now();
    let Looking { observer, memory, .. } = Looking::at(loaded, taken_at).await?;
    Ok(observer.observe(taken_at, memory).await)
}

/// As [`look`], with the exit of each exited container.
pub(super) async fn explain(loaded: &Loaded) -> Result<(Snapshot, Plan), CliError> {
    planned(loaded, Scope::All, &[StatusFor::Ends]).await
}

async fn planned(loaded: &Loaded, scope: Scope, shown: &[StatusFor]) -> Result<(Snapshot, Plan), CliError> {
    let taken_at = now();
    let Looking { observer, memory, pressure } = Looking::at(loaded, taken_at).await?;
    let policy = &loaded.settings.policy;
    let policy = if pressure.is_some() { &policy.under_pressure() } else { policy };
    let (mut snapshot, plan) = look_and_plan(&observer, policy, scope, taken_at, memory).await;
    for what in shown {
        observer.fill_statuses(&mut snapshot, *what).await;
    }
    observer.measure_logs(&mut snapshot, MEASURING).await;
    let mut plan = Plan { pressure, ..plan };
    add_object_facts(&mut plan, &snapshot, policy);
    Ok((snapshot, plan))
}

/// Prints a warning if there is no history yet: then each image was first seen now and each pod is missing since now. A
/// document has no warning: its reader may read both outputs.
pub(super) async fn warn_without_history(settings: &Settings, format: Option<Format>) -> Result<(), CliError> {
    let is_text = !matches!(format, Some(Format::Json | Format::Yaml | Format::Name));
    if is_text && recorded(settings).await?.memory()?.agent_started_at.is_none() {
        warn(NO_HISTORY);
    }
    Ok(())
}

/// Takes a snapshot with everything that a plan with any policy needs, and makes a plan with the policy in force, which
/// shows what is unavailable.
pub(super) async fn snapshot(loaded: &Loaded) -> Result<(Snapshot, Plan), CliError> {
    let taken_at = now();
    let Looking { observer, memory, .. } = Looking::at(loaded, taken_at).await?;
    let mut snapshot = observer.observe(taken_at, memory).await;
    for what in [StatusFor::Ends, StatusFor::ImageVolumes] {
        observer.fill_statuses(&mut snapshot, what).await;
    }
    observer.resolve_image_names(&mut snapshot).await;
    observer.measure_logs(&mut snapshot, MEASURING).await;
    let plan = decide(&snapshot, &loaded.settings.policy, Scope::All);
    Ok((snapshot, plan))
}

/// What a look at this node begins with.
struct Looking {
    observer: Observer,
    memory: Memory,
    /// The disk pressure to which the agent would respond.
    pressure: Option<Pressure>,
}

// === impl Looking ===

impl Looking {
    async fn at(loaded: &Loaded, taken_at: Timestamp) -> Result<Self, CliError> {
        let settings = &loaded.settings;
        let node = node(loaded).await?;
        let memory = recorded(settings).await?.memory()?.until(taken_at);
        let memory =
            recalled(Memory { agent_started_at: memory.agent_started_at.or(Some(taken_at)), ..memory }, settings);
        let mut monitor = PressureMonitor::of(settings, node.reader(settings), Arc::clone(&node.disks));
        let pressure = monitor.look(&settings.policy.pressure).await;
        Ok(Self { observer: node.observer(settings), memory, pressure })
    }
}

/// The warning for a node without a store.
const NO_HISTORY: &str = "no history yet: ages count from this command; run the service, or `kubegc collect --wait`";

/// Reads the store. If its file system does not respond, or this user may not read it, a warning is logged
/// and the plan is made without memory. Without memory everything counts as new, so less is removed.
pub(super) async fn recorded(settings: &Settings) -> Result<StoreReader, CliError> {
    recorded_within(STORE_LIMIT, settings).await
}

async fn recorded_within(limit: Duration, settings: &Settings) -> Result<StoreReader, CliError> {
    let of = settings.clone();
    or_none(read_within(limit, &settings.state.path, move || read(&of)).await)
}

/// As [`recorded`], for a thread that may wait.
pub(super) fn recorded_blocking(settings: &Settings) -> Result<StoreReader, CliError> {
    or_none(read(settings))
}

/// Reads the store of the agent that holds the lock, else that of the settings.
fn read(settings: &Settings) -> Result<Option<StoreReader>, StoreError> {
    let path = Lock::store_of_holder(&settings.state.lock).filter(|path| path.exists());
    StoreReader::open(path.as_deref().unwrap_or(&settings.state.path))
}

fn or_none(read: Result<Option<StoreReader>, StoreError>) -> Result<StoreReader, CliError> {
    match read {
        Ok(Some(store)) => return Ok(store),
        Ok(None) => {}
        Err(error @ StoreError::Newer { .. }) => return Err(error.into()),
        Err(error) => tracing::warn!(%error, "planning without memory"),
    }
    Ok(StoreReader::empty()?)
}

/// Takes the lock and opens the store, for a pass that removes objects.
pub(super) async fn lock_and_open(settings: &Settings, verb: &'static str) -> Result<(Lock, Store), CliError> {
    let mut lock = Lock::take(&settings.state.lock, verb)?;
    lock.names_store(&settings.state.path);
    Ok((lock, Store::open(&settings.state.path).await?))
}

/// Returns an error if a list that the plan needs is unavailable, although the decisions of the plan are correct.
pub(super) fn all_seen(plan: &Plan) -> Result<(), CliError> {
    let blind = plan.errors.iter().find(|error| error.is_unobserved());
    blind.map_or(Ok(()), |error| Err(CliError::message(ErrorKind::Partial, error.to_string())))
}

/// Returns why pod sources that the settings name, or that `auto` found, are unavailable, each with its address.
/// Without them no pod counts as deleted, so a command that says nothing would look as if nothing was to be removed.
pub(super) fn failed_sources(plan: &Plan, settings: &Settings) -> Option<String> {
    let sources = &settings.pods.sources;
    if sources.contains(PodSourceName::None) {
        return None;
    }
    let causes: Vec<_> = match &plan.pods {
        // The cause of `auto` says it itself.
        Seen::NotSeen(cause) if sources.contains(PodSourceName::Auto) => vec![cause.clone()],
        Seen::NotSeen(cause) => {
            let names: Vec<&str> = sources.iter().map(Into::into).collect();
            vec![format!("pod source {}{} unavailable: {cause}", names.join(", "), address(&names, settings))]
        }
        Seen::Seen(known) => known.sources.iter().filter_map(|source| missing(source, settings)).collect(),
    };
    (!causes.is_empty()).then(|| format!("{}; no pod counts as deleted", causes.join("; ")))
}

fn missing(source: &PodSourceReport, settings: &Settings) -> Option<String> {
    let cause = source.missing.as_ref()?;
    Some(format!("pod source {}{} unavailable: {cause}", source.name, address(&[&source.name], settings)))
}

/// Returns the address of the kubelet, which its errors do not contain.
fn address(names: &[&str], settings: &Settings) -> String {
    let is_kubelet = names.contains(&<&str>::from(PodSourceName::Kubelet));
    if is_kubelet { format!(" ({})", settings.pods.kubelet.endpoint) } else { String::new() }
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

    /// Opening a pipe to read it waits for a writer, as every access to a disk that hangs waits.
    #[tokio::test]
    async fn a_store_that_does_not_respond_gives_a_plan_without_memory() {
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
