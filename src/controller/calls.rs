//! Calls to the API server, limited in number and rate. Only [`super::changes`] makes changes.

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::saved::SaveOptions;
use crate::kubernetes::{
    ApiNamespace, ApiNode, ApiResource, Bucket, Cause, Connection, KubernetesError, has_labels, list_metadata_in,
    read_metadata, read_namespace, read_node,
};
use crate::model::{Identity, ObjectMeta};

/// Calls in flight at once: more than [`WORKERS`](super::settings::WORKERS), as each makes one call or two, and few enough
/// for one HTTP/2 connection.
const IN_FLIGHT: usize = 64;

/// Limits on the calls of the workers to the API server.
#[derive(Clone, Debug, PartialEq)]
pub struct CallLimits {
    /// Calls per second; 0 = no limit. Default 100. After a pause, twice as many may be made at once.
    pub per_second: u64,
    /// The longest wait for one answer. Default 30 s.
    pub answer: Duration,
}

pub(super) struct Calls {
    pub(super) connection: Arc<Connection>,
    pub(super) answer: Duration,
    in_flight: Semaphore,
    bucket: Mutex<Bucket>,
    /// After this no call begins.
    pub(super) end: CancellationToken,
    /// Any 404 proves that an object is absent, as in kube-controller-manager.
    trusts_any_404: bool,
    /// Nothing is changed: changes are answered with the object as it is.
    pub(super) is_dry_run: bool,
    /// Each object is saved before it is deleted.
    pub(super) save: Option<SaveOptions>,
    /// How many changes were made.
    pub(super) made: AtomicUsize,
}

// === impl Calls ===

impl Calls {
    pub(super) fn new(
        connection: Arc<Connection>,
        limits: &CallLimits,
        trusts_any_404: bool,
        is_dry_run: bool,
    ) -> Self {
        let per_second = u32::try_from(limits.per_second).unwrap_or(u32::MAX);
        let interval = Duration::from_secs(1).checked_div(per_second).unwrap_or_default();
        Self {
            connection,
            answer: limits.answer,
            in_flight: Semaphore::new(IN_FLIGHT),
            bucket: Mutex::new(Bucket::full(interval, per_second.saturating_mul(2))),
            end: CancellationToken::new(),
            trusts_any_404,
            is_dry_run,
            save: None,
            made: AtomicUsize::new(0),
        }
    }

    /// Returns the same, of which no call begins after `end`.
    pub(super) fn until(self, end: CancellationToken) -> Self {
        Self { end, ..self }
    }

    /// Returns the same, which saves each object before it is deleted.
    pub(super) fn saving(self, save: Option<SaveOptions>) -> Self {
        Self { save, ..self }
    }

    /// Waits until a call may be made. The call counts as in flight while the permit is held.
    pub(super) async fn permit(&self) -> Result<SemaphorePermit<'_>, KubernetesError> {
        tokio::select! {
            biased;
            () = self.end.cancelled() => Err(ended()),
            permit = self.turn() => permit,
        }
    }

    async fn turn(&self) -> Result<SemaphorePermit<'_>, KubernetesError> {
        let now = Instant::now();
        let at = self.bucket.lock().unwrap_or_else(PoisonError::into_inner).take(now);
        // A timer has a cost, and most calls need not wait.
        if at > now {
            sleep_until(at).await;
        }
        // The semaphore is never closed.
        self.in_flight.acquire().await.map_err(|_| ended())
    }

    /// Reads the metadata of an object. `None` = it is proven absent.
    pub(super) async fn read(
        &self,
        resource: &ApiResource,
        namespace: &str,
        name: &str,
    ) -> Result<Option<ObjectMeta>, KubernetesError> {
        let _permit = self.permit().await?;
        self.checked(read_metadata(&self.connection, resource, namespace, name, self.answer).await)
    }

    /// Reads a node. `None` = it is proven absent.
    pub(super) async fn read_node(&self, name: &str) -> Result<Option<ApiNode>, KubernetesError> {
        let _permit = self.permit().await?;
        self.checked(read_node(&self.connection, name, self.answer).await)
    }

    /// Reads a namespace. `None` = it is proven absent.
    pub(super) async fn read_namespace(&self, name: &str) -> Result<Option<ApiNamespace>, KubernetesError> {
        let _permit = self.permit().await?;
        self.checked(read_namespace(&self.connection, name, self.answer).await)
    }

    /// Lists the objects of a resource in a namespace.
    pub(super) async fn list_in(
        &self,
        resource: &ApiResource,
        namespace: &str,
    ) -> Result<Vec<ObjectMeta>, KubernetesError> {
        let _permit = self.permit().await?;
        list_metadata_in(&self.connection, resource, namespace, None, self.answer).await
    }

    /// Returns whether the labels of an object are those of a selector. Without one they are.
    pub(super) async fn has_labels(
        &self,
        resource: &ApiResource,
        object: &Identity,
        selector: Option<&str>,
    ) -> Result<bool, KubernetesError> {
        let Some(selector) = selector else { return Ok(true) };
        let _permit = self.permit().await?;
        has_labels(&self.connection, resource, object, selector, self.answer).await
    }

    fn checked<T>(&self, read: Result<Option<T>, KubernetesError>) -> Result<Option<T>, KubernetesError> {
        match read {
            Err(error) if self.trusts_any_404 && error.cause.is_any_404() => Ok(None),
            read => read,
        }
    }

    /// Returns whether an error proves that an object does not exist.
    pub(super) fn proves_absence(&self, error: &KubernetesError, resource: &ApiResource, name: &str) -> bool {
        error.cause.proves_absence(resource, name) || self.trusts_any_404 && error.cause.is_any_404()
    }
}

fn ended() -> KubernetesError {
    Cause::Ended.of("send a request")
}

// === impl CallLimits ===

impl Default for CallLimits {
    fn default() -> Self {
        Self { per_second: 100, answer: Duration::from_secs(30) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn zero_calls_a_second_is_no_limit() {
        let limits = CallLimits { per_second: 0, ..CallLimits::default() };
        let connection = Arc::new(Connection::by(|| unreachable!("no call is made")));
        let (calls, begun) = (Calls::new(connection, &limits, false, false), Instant::now());
        for _ in 0..10_000 {
            drop(calls.permit().await.unwrap());
        }
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }
}
