//! The node at hand: its runtime's socket, its store, and a look at it.

use std::path::Path;
use std::sync::Arc;

use super::{CliError, ErrorKind};
use crate::config::{Loaded, Settings};
use crate::cri::{self, CriError, Endpoint, RuntimeReader};
use crate::daemon::{look_and_plan, node, now};
use crate::model::{Memory, Snapshot};
use crate::observe::{HostDisks, Observer, StatusFor};
use crate::plan::{Plan, Scope};
use crate::record::{Store, StoreError};

/// Does asynchronous work on this thread. What hangs aside, as a look at a dead disk, does not hold up the end.
pub(super) fn block_on<T>(work: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| CliError::new(ErrorKind::Internal, error))?;
    let done = runtime.block_on(work);
    runtime.shutdown_background();
    done
}

/// Finds the runtime and makes sure that it answers.
pub(super) async fn endpoint(loaded: &Loaded) -> Result<Endpoint, CliError> {
    let options = &loaded.settings.runtime.options;
    let endpoint = cri::resolve(&loaded.candidates, options).await?;
    RuntimeReader::new(&endpoint.runtime, &endpoint.images, options.clone()).check().await?;
    Ok(endpoint)
}

/// A store that is only read, beside whoever is at work on it; a node without one has no past.
pub(super) fn read_store(path: &Path) -> Result<Store, StoreError> {
    match Store::open_read_only(path)? {
        Some(store) => Ok(store),
        None => Store::in_memory(),
    }
}

/// Looks at this node and plans.
pub(super) async fn plan(loaded: &Loaded, scope: Scope) -> Result<(Snapshot, Plan), CliError> {
    let (observer, memory) = observer(loaded).await?;
    Ok(look_and_plan(&observer, &loaded.settings.policy, scope, now(), memory).await)
}

/// Looks at this node, at all that a plan may ever ask for.
pub(super) async fn snapshot(loaded: &Loaded) -> Result<Snapshot, CliError> {
    let (observer, memory) = observer(loaded).await?;
    let mut snapshot = observer.observe(now(), memory).await;
    for what in [StatusFor::Ends, StatusFor::ImageVolumes] {
        observer.fill_statuses(&mut snapshot, what).await;
    }
    Ok(snapshot)
}

async fn observer(loaded: &Loaded) -> Result<(Observer, Memory), CliError> {
    let settings = &loaded.settings;
    let endpoint = endpoint(loaded).await?;
    let store = read_store(&settings.state.path)?;
    let memory = store.memory(store.begun_at()?.unwrap_or_else(now))?;
    let reader = RuntimeReader::new(&endpoint.runtime, &endpoint.images, settings.runtime.options.clone());
    Ok((node::observer(settings, reader, disks(settings)), memory))
}

/// The disks of this host.
pub(super) fn disks(settings: &Settings) -> Arc<HostDisks> {
    Arc::new(HostDisks::new(&settings.host_root))
}

impl From<CriError> for CliError {
    fn from(error: CriError) -> Self {
        let kind = match error {
            CriError::NotUnix { .. } => ErrorKind::Config,
            _ => ErrorKind::Runtime,
        };
        Self::new(kind, error)
    }
}

impl From<StoreError> for CliError {
    fn from(error: StoreError) -> Self {
        Self::new(ErrorKind::Internal, error)
    }
}
