//! Access to this node: finds the runtime, opens the store, takes a snapshot.

use std::time::Duration;

use anyhow::anyhow;
use jiff::Timestamp;

use super::{CliError, ErrorKind};
use crate::config::{Loaded, Settings};
use crate::cri::{self, CriError, CriOptions, RuntimeReader};
use crate::daemon::node::LocalNode;
use crate::daemon::{look_and_plan, now, recalled};
use crate::model::{Memory, Snapshot};
use crate::observe::{Observer, StatusFor};
use crate::plan::{Plan, Scope, add_object_facts, decide};
use crate::record::{Lock, LockError, SharedStore, Store, StoreError};

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

/// As [`block_on`], for work that needs all processors.
pub(super) fn block_on_all_threads<T>(work: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
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
    tracing::info!(endpoint = endpoint.runtime, chosen_by, "runtime found");
    let options = CriOptions { patience: Duration::ZERO, ..settings.runtime.options.clone() };
    let reader = RuntimeReader::new(&endpoint.runtime, &endpoint.images, options);
    reader.check().await?;
    Ok(LocalNode::of_host(settings, endpoint))
}

/// Takes a snapshot of this node and makes a plan. It changes nothing, not even the memory.
pub(super) async fn look(loaded: &Loaded, scope: Scope) -> Result<(Snapshot, Plan), CliError> {
    let taken_at = now();
    let (observer, memory) = observer(loaded, taken_at).await?;
    let policy = &loaded.settings.policy;
    let (mut snapshot, mut plan) = look_and_plan(&observer, policy, scope, taken_at, memory).await;
    observer.measure_logs(&mut snapshot, MEASURING).await;
    add_object_facts(&mut plan, &snapshot, policy);
    Ok((snapshot, plan))
}

/// Takes a snapshot with the lists alone, for completions.
pub(super) async fn lists(loaded: &Loaded) -> Result<Snapshot, CliError> {
    let taken_at = now();
    let (observer, memory) = observer(loaded, taken_at).await?;
    Ok(observer.observe(taken_at, memory).await)
}

/// As [`look`], with the exit of each exited container.
pub(super) async fn explain(loaded: &Loaded) -> Result<(Snapshot, Plan), CliError> {
    let taken_at = now();
    let (observer, memory) = observer(loaded, taken_at).await?;
    let policy = &loaded.settings.policy;
    let (mut snapshot, mut plan) = look_and_plan(&observer, policy, Scope::All, taken_at, memory).await;
    observer.fill_statuses(&mut snapshot, StatusFor::Ends).await;
    observer.measure_logs(&mut snapshot, MEASURING).await;
    add_object_facts(&mut plan, &snapshot, policy);
    Ok((snapshot, plan))
}

/// Takes a snapshot with everything that a plan with any policy needs, and makes a plan with the policy in force, which
/// shows what is unavailable.
pub(super) async fn snapshot(loaded: &Loaded) -> Result<(Snapshot, Plan), CliError> {
    let taken_at = now();
    let (observer, memory) = observer(loaded, taken_at).await?;
    let mut snapshot = observer.observe(taken_at, memory).await;
    for what in [StatusFor::Ends, StatusFor::ImageVolumes] {
        observer.fill_statuses(&mut snapshot, what).await;
    }
    observer.resolve_image_names(&mut snapshot).await;
    observer.measure_logs(&mut snapshot, MEASURING).await;
    let plan = decide(&snapshot, &loaded.settings.policy, Scope::All);
    Ok((snapshot, plan))
}

/// Returns the observer of this node, and the memory.
async fn observer(loaded: &Loaded, taken_at: Timestamp) -> Result<(Observer, Memory), CliError> {
    let node = node(loaded).await?;
    let mut store = memory_only(&loaded.settings)?;
    let started_at = begun(&store)?;
    let memory = recalled(store.recall(started_at, taken_at)?, &loaded.settings);
    Ok((node.observer(&loaded.settings), memory))
}

/// Opens the store for a dry run. If this user may not read it, a warning is logged and the plan is made without
/// memory. Without memory everything counts as new, so less is removed.
pub(super) fn memory_only(settings: &Settings) -> Result<Store, CliError> {
    let opened = Store::open_read_only(&settings.state.path);
    match opened {
        Ok(Some(store)) => Ok(store),
        Ok(None) => Ok(Store::in_memory()?),
        Err(error @ StoreError::Newer { .. }) => Err(error.into()),
        Err(error) => {
            tracing::warn!(%error, "planning without memory");
            Ok(Store::in_memory()?)
        }
    }
}

/// Takes the lock and opens the store, for a pass that removes objects.
pub(super) async fn lock_and_open(settings: &Settings, verb: &'static str) -> Result<(Lock, SharedStore), CliError> {
    let lock = Lock::take(&settings.state.lock, verb)?;
    Ok((lock, SharedStore::open(&settings.state.path).await?))
}

/// Returns since when the store has records. A single pass does not change that time.
pub(super) fn begun(store: &Store) -> Result<jiff::Timestamp, CliError> {
    Ok(store.begun_at()?.unwrap_or_else(now))
}

/// Returns an error if a list that the plan needs is unavailable, although the decisions of the plan are correct.
pub(super) fn all_seen(plan: &Plan) -> Result<(), CliError> {
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

impl From<StoreError> for CliError {
    fn from(error: StoreError) -> Self {
        Self::new(ErrorKind::Internal, error)
    }
}

impl From<LockError> for CliError {
    fn from(error: LockError) -> Self {
        let hint = match &error {
            LockError::Held { .. } => "`kubegc plan` works without the lock",
            LockError::Dir { .. } | LockError::Open { .. } => {
                "run kubegc as root, or set state.lock (--lock) to a file that all agents of this node share"
            }
            LockError::Take { .. } => "set state.lock (--lock) to a file on a local file system",
        };
        Self::new(ErrorKind::Internal, anyhow!(error)).hint(hint)
    }
}
