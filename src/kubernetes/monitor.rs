//! Follows all objects of a resource: a list, then a watch from its version on, without an end.
//!
//! [`crate::kubernetes::PodWatch`] follows the pods of one node instead, and reports how current it is. The watcher of
//! the crate `kube` cannot be used: it hides the end of a watch, and a list after a gap does not show what was deleted
//! meanwhile.

use std::sync::Arc;
use std::time::Duration;

use http::Request;
use kube::core::WatchEvent;
use kube::core::params::{ListParams, WatchParams};
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};

use super::clients::Clients;
use super::connection::{invalid_request, refused, unreadable};
use super::list::{LARGE_PAGE, List, kinds_of_lists, page_requests};
use super::metadata::{ACCEPT_ONE, accepting};
use super::pauses::Pauses;
use super::watch_lines::{SLACK, WatchLines};
use super::{ApiResource, Connection, KubernetesError, Timing};

/// A watch that ends sooner without an event counts as a failure.
const SHORT: Duration = Duration::from_secs(1);

/// Which fields of the objects are requested.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Form {
    /// Only metadata.
    Metadata,
    /// Whole objects, of which the type of the object takes what it needs.
    Whole,
}

/// An object with the fields that a [`Sink`] needs.
pub trait Watched: Clone + DeserializeOwned + Send + 'static {
    /// Returns its resource version.
    fn resource_version(&self) -> &str;
}

/// Takes what a monitor shows, in order.
pub trait Sink<T>: Send {
    /// A complete list begins. It may begin again before it ends.
    fn list_begins(&mut self);
    /// An object is in the list, is new or was changed.
    fn seen(&mut self, object: T);
    /// An object was deleted.
    fn deleted(&mut self, object: T);
    /// The list is complete: what it did not show does not exist.
    fn list_ends(&mut self);
    /// The resource cannot be listed or watched for now; the monitor tries again.
    fn failed(&mut self, error: &KubernetesError);
    /// The resource is listed and watched again, after a failure or for the first time.
    fn works(&mut self);
}

/// Follows one resource.
pub struct Monitor {
    /// The API server.
    pub connection: Arc<Connection>,
    /// What is followed.
    pub resource: ApiResource,
    /// Which fields are requested.
    pub form: Form,
    /// Limits.
    pub timing: Timing,
    /// Lists in flight at once, over all monitors.
    pub lists: Arc<Semaphore>,
}

/// The state of one monitor.
struct Round<'a, S> {
    monitor: &'a Monitor,
    list: String,
    watch: String,
    sink: S,
    /// To continue from; `None` = the objects must be listed.
    version: Option<String>,
    pauses: Pauses,
    is_failing: bool,
    /// The server may have been restored to a version before the one to continue from.
    is_doubtful: bool,
}

// === impl Monitor ===

impl Monitor {
    /// Follows the resource until the future is dropped.
    pub async fn run<T: Watched>(self, sink: impl Sink<T>) {
        let ApiResource { resource, api_version, .. } = &self.resource;
        let mut round = Round {
            list: format!("list {resource} ({api_version})"),
            watch: format!("watch {resource} ({api_version})"),
            sink,
            version: None,
            pauses: Pauses::new(&self.timing),
            is_failing: true,
            is_doubtful: false,
            monitor: &self,
        };
        loop {
            if let Err(error) = round.follow::<T>().await {
                round.fail(&error);
                sleep(round.pauses.after(error.code() == Some(410), round.version.is_none())).await;
            }
        }
    }
}

// === impl Round ===

impl<S> Round<'_, S> {
    /// Lists if needed, then watches until the server ends the watch.
    async fn follow<T: Watched>(&mut self) -> Result<(), KubernetesError>
    where
        S: Sink<T>,
    {
        if self.is_doubtful && self.version.is_some() {
            self.check_version().await?;
        }
        let version = match self.version.clone() {
            Some(version) => version,
            None => self.list::<T>().await?,
        };
        let body = self.monitor.connection.open(
            Clients::watches,
            &self.watch,
            self.request(&version)?,
            self.monitor.timing.answer,
        );
        let (body, begun, mut has_event) = (body.await?.into_body(), Instant::now(), false);
        self.works();
        let what = self.watch.clone();
        let lasts = self.monitor.timing.watch;
        let mut lines = WatchLines::new(&what, body, lasts + SLACK, lasts);
        while let Some(line) = lines.next().await? {
            self.event::<T>(line)?;
            has_event = true;
            self.pauses.works();
        }
        if !has_event && begun.elapsed() < SHORT {
            return Err(unreadable(&what, "it ended at once".to_owned()));
        }
        self.pauses.works();
        Ok(())
    }

    async fn list<T: Watched>(&mut self) -> Result<String, KubernetesError>
    where
        S: Sink<T>,
    {
        // The semaphore is never closed.
        let _permit = self.monitor.lists.acquire().await;
        let Self { monitor: Monitor { connection, resource, form, timing, .. }, list: what, sink, .. } = self;
        let request = page_requests(resource, *form, what)?;
        let kinds = kinds_of_lists(resource);
        let kinds = kinds.each_ref().map(|kind| &**kind);
        let list = List { what, kinds: &kinds, may_be_bare: true, limit: timing.answer };
        sink.list_begins();
        let take = |page: Vec<T>| page.into_iter().for_each(|object| sink.seen(object));
        let version = list.pages(connection, ListParams::default().limit(LARGE_PAGE), request, take).await?;
        self.sink.list_ends();
        self.pauses.listed();
        self.version = Some(version.clone());
        Ok(version)
    }

    /// Lists again if the server has not reached the version to continue from: after a restore from a backup it would show
    /// nothing until it has.
    async fn check_version(&mut self) -> Result<(), KubernetesError> {
        let Monitor { connection, resource, form, timing, .. } = self.monitor;
        let list = List { what: &self.list, kinds: &[], may_be_bare: true, limit: timing.answer };
        let newest = list.newest_version(connection, page_requests(resource, *form, &self.list)?).await?;
        let is_reached = newest.zip(self.version.as_ref()).is_some_and(|(newest, version)| !is_older(&newest, version));
        self.version.take_if(|_| !is_reached);
        self.is_doubtful = false;
        Ok(())
    }

    fn request(&self, version: &str) -> Result<Request<Vec<u8>>, KubernetesError> {
        let seconds = u32::try_from(self.monitor.timing.watch.as_secs()).unwrap_or(u32::MAX).clamp(1, 290);
        let path = self.monitor.resource.all(&self.watch)?;
        let request = path.watch(&WatchParams::default().timeout(seconds), version);
        let request = request.map_err(|error| invalid_request(&self.watch, error.to_string()))?;
        Ok(self.monitor.form.request(request, ACCEPT_ONE))
    }

    fn event<T: Watched>(&mut self, line: &[u8]) -> Result<(), KubernetesError>
    where
        S: Sink<T>,
    {
        match serde_json::from_slice(line).map_err(|error| unreadable(&self.watch, error.to_string()))? {
            WatchEvent::Error(status) => {
                // After any error it is unknown which events were lost.
                self.version = None;
                return Err(refused(&self.watch, *status, None));
            }
            WatchEvent::Bookmark(bookmark) => self.at(&bookmark.metadata.resource_version)?,
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                self.at(T::resource_version(&object))?;
                self.sink.seen(object);
            }
            WatchEvent::Deleted(object) => {
                self.at(T::resource_version(&object))?;
                self.sink.deleted(object);
            }
        }
        Ok(())
    }

    fn at(&mut self, version: &str) -> Result<(), KubernetesError> {
        if version.is_empty() {
            self.version = None;
            return Err(unreadable(&self.watch, "an event without a version".to_owned()));
        }
        // An older state was restored: what the list showed may not exist (G1).
        if self.version.as_deref().is_some_and(|before| is_older(version, before)) {
            self.version = None;
            return Err(unreadable(&self.watch, format!("the version {version} is older than the one before")));
        }
        self.version = Some(version.to_owned());
        Ok(())
    }

    fn works<T>(&mut self)
    where
        S: Sink<T>,
    {
        if std::mem::take(&mut self.is_failing) {
            self.sink.works();
        }
    }

    fn fail<T>(&mut self, error: &KubernetesError)
    where
        S: Sink<T>,
    {
        if matches!(error, KubernetesError::Silent { .. } | KubernetesError::Unreadable { .. })
            || error.code() == Some(410)
        {
            self.version = None;
        }
        (self.is_failing, self.is_doubtful) = (true, true);
        self.sink.failed(error);
    }
}

/// Versions are numbers that grow, unless an older state of the store was restored.
fn is_older(version: &str, than: &str) -> bool {
    let number = |text: &str| text.parse::<u64>().ok();
    number(version).zip(number(than)).is_some_and(|(version, than)| version < than)
}

// === impl Form ===

impl Form {
    pub(super) fn request(self, request: Request<Vec<u8>>, metadata: http::HeaderValue) -> Request<Vec<u8>> {
        match self {
            Self::Metadata => accepting(request, metadata),
            Self::Whole => request,
        }
    }
}
