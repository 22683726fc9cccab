//! The store as the passes of an agent share it: every call runs in a blocking thread, within a limit (I14).
//!
//! SQLite blocks its thread, and a call on a frozen file system never returns. When the limit passes, the blocked call
//! keeps its store, and an empty store in memory takes the place of that one, as after other errors of the file. While
//! the call is blocked, no other call uses the file. After that, the next run returns to the file. What the blocked call
//! wrote in the end is not added twice.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::error::StoreError;
use super::runs::Runs;
use super::store::Store;
use crate::host_path::{BoundedCalls, CallError};

/// The limit of one call. A healthy disk needs milliseconds, and a lock of another program ends a call after some
/// seconds. The action in progress at a shutdown and its record end within the limit of the shutdown.
pub const STORE_LIMIT: Duration = Duration::from_secs(10);

/// A store whose calls do not block the async threads.
#[derive(Debug)]
pub struct SharedStore {
    path: PathBuf,
    calls: BoundedCalls,
    /// Locked for one call at a time.
    current: tokio::sync::Mutex<Current>,
}

/// The store in use.
#[derive(Debug)]
struct Current {
    /// Locked by a thread for as long as its call takes.
    store: Arc<Mutex<Store>>,
    /// The runs of the store after its last call, for the store that may have to take its place.
    runs: Runs,
}

// === impl SharedStore ===

impl From<Store> for SharedStore {
    fn from(store: Store) -> Self {
        Self::within(STORE_LIMIT, store)
    }
}

impl SharedStore {
    /// Opens the store as [`Store::open`] does. If the file system does not respond, the store begins in memory.
    ///
    /// # Errors
    /// The file belongs to a newer version or to another program.
    pub async fn open(path: &Path) -> Result<Self, StoreError> {
        Self::open_within(STORE_LIMIT, path).await
    }

    pub(super) async fn open_within(limit: Duration, path: &Path) -> Result<Self, StoreError> {
        let (calls, file) = (BoundedCalls::new(limit), path.to_owned());
        let store = match calls.run(path, move || Store::open(&file)).await {
            Ok(opened) => opened?.store,
            Err(error) => Store::blocked(path, cause(error), Runs::default())?,
        };
        Ok(Self { calls, ..Self::from(store) })
    }

    /// Shares a store whose calls take at most `limit` each, instead of 10 s.
    pub fn within(limit: Duration, mut store: Store) -> Self {
        let (path, runs) = (store.path.clone(), store.runs_begun());
        let current = Current { store: Arc::new(Mutex::new(store)), runs };
        Self { path, calls: BoundedCalls::new(limit), current: tokio::sync::Mutex::new(current) }
    }

    /// Calls `work` in a blocking thread. If the file system does not respond within the limit, calls `work` once more,
    /// in memory.
    ///
    /// # Errors
    /// Those of `work`.
    pub async fn call<T: Send + 'static>(
        &self,
        work: impl Fn(&mut Store) -> Result<T, StoreError> + Send + Sync + 'static,
    ) -> Result<T, StoreError> {
        let mut current = self.current.lock().await;
        let work = Arc::new(work);
        let (store, in_thread) = (Arc::clone(&current.store), Arc::clone(&work));
        let call = move || {
            let mut store = lock(&store);
            (in_thread(&mut store), store.runs_begun())
        };
        match self.calls.run(&self.path, call).await {
            Ok((done, runs)) => {
                current.runs = runs;
                done
            }
            Err(error) => current.call_in_memory(&self.path, error, &*work),
        }
    }

    /// Returns the size of the file and of the log of its last writes, in bytes, within the limit; `None` = unavailable.
    pub async fn size_bytes(&self) -> Option<u64> {
        let path = self.path.clone();
        let log = PathBuf::from(format!("{}-wal", path.display()));
        let size = move || {
            let log = std::fs::metadata(log).map_or(0, |log| log.len());
            Some(std::fs::metadata(path).ok()?.len() + log)
        };
        self.calls.run(&self.path, size).await.ok().flatten()
    }

    /// Closes the store, within the limit. A store that is only dropped writes to its file in the caller's thread.
    pub async fn close(self) {
        let Current { store, .. } = self.current.into_inner();
        let _ = self.calls.run(&self.path, move || drop(store)).await;
    }
}

// === impl Current ===

impl Current {
    /// Calls `work` on a store in memory, without access to the file.
    fn call_in_memory<T>(
        &mut self,
        path: &Path,
        error: CallError,
        work: &dyn Fn(&mut Store) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let is_free = self.store.try_lock().is_ok_and(|mut store| store.is_in_memory());
        if !is_free {
            self.store = Arc::new(Mutex::new(Store::blocked(path, cause(error), self.runs.clone())?));
        }
        let mut store = lock(&self.store);
        let done = store.without_file(work);
        self.runs = store.runs_begun();
        done
    }
}

fn lock(store: &Mutex<Store>) -> MutexGuard<'_, Store> {
    store.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `read` in a blocking thread, for one look at a store.
///
/// # Errors
/// Those of `read`, or [`StoreError::Access`] if the file system of `path` does not respond within the limit.
pub async fn read_within<T: Send + 'static>(
    limit: Duration,
    path: &Path,
    read: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let silent = |error| StoreError::Access { path: path.to_owned(), cause: io::Error::other(cause(error)) };
    BoundedCalls::new(limit).run(path, read).await.map_err(silent)?
}

fn cause(error: CallError) -> String {
    match error {
        CallError::TimedOut { seconds, .. } => format!("file system did not respond within {seconds} s"),
        error => error.to_string(),
    }
}
