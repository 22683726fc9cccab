//! Follows all objects of a resource: a list, then a watch from its version on, without an end.
//!
//! The watcher of the crate `kube` cannot be used. It hides bookmarks and the end of a watch, and on a quiet node these are
//! the only proof that the list of its pods is current. And a list after a gap does not show what was deleted meanwhile.

use std::sync::Arc;
use std::time::Duration;

use kube::core::WatchEvent;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};

use super::kubernetes_error::attempt;
use super::requests::connection::{parsed, refused};
use super::requests::list::Listing;
use super::requests::pauses::Pauses;
use super::requests::watch_lines::{SLACK, WatchLines};
use super::{ApiResource, Cause, Connection, KubernetesError, Timing, Watched};
use crate::model::Outage;

/// A watch that ends sooner without an event counts as a failure.
const SHORT: Duration = Duration::from_secs(1);

/// An event of a monitor: what the server shows of a resource.
pub enum MonitorEvent<'a, T> {
    /// A complete list begins. It may begin again before it ends.
    ListBegins,
    /// An object is in the list, is new or was changed.
    Seen(T),
    /// An object was deleted.
    Deleted(T),
    /// The list is complete: what it did not show does not exist.
    ListEnds,
    /// Nothing else has happened up to now: a bookmark, or a watch that ended in order.
    Current,
    /// The resource is watched again, after a failure or for the first time.
    Works,
    /// The resource cannot be listed or watched for now; the monitor tries again. Whether it is the first failure since the
    /// resource was watched.
    Failed(&'a KubernetesError, bool),
}

/// Takes what a monitor shows, in order.
pub trait Follower<T>: Send {
    /// Prepares for the next watch, and for the list before it.
    ///
    /// # Errors
    ///
    /// Neither may begin now. The monitor tries again.
    fn begin(&mut self) -> impl Future<Output = Result<(), KubernetesError>> + Send {
        std::future::ready(Ok(()))
    }

    /// Returns how long the next watch lasts, at most `longest`.
    fn lasts(&self, longest: Duration) -> Duration {
        longest
    }

    /// Takes one event.
    fn show(&mut self, event: MonitorEvent<'_, T>);
}

/// Follows one resource.
pub struct Monitor {
    connection: Arc<Connection>,
    listing: Listing,
    timing: Timing,
    /// Lists in flight at once, over all monitors.
    lists: Arc<Semaphore>,
    /// A watch counts as dead after so long without a line.
    silence: Duration,
    /// An older state of the server may be restored, so a version that is older than the one before means a new list. After
    /// a failure that costs one more request (G1).
    compares_versions: bool,
}

/// The state of one monitor.
struct Round<'a, F> {
    monitor: &'a Monitor,
    follower: F,
    /// To continue from; `None` = the objects must be listed.
    version: Option<String>,
    pauses: Pauses,
    is_watched: bool,
    outage: Outage,
    /// The server may have been restored to a version before the one to continue from.
    is_doubtful: bool,
}

// === impl Monitor ===

impl Monitor {
    /// Creates a monitor of all objects of a resource. `lists` limits the lists in flight at once, over all monitors.
    pub fn new(connection: Arc<Connection>, resource: &ApiResource, timing: Timing, lists: Arc<Semaphore>) -> Self {
        let (listing, silence) = (Listing::all(resource), timing.watch + SLACK);
        Self { connection, listing, timing, lists, silence, compares_versions: true }
    }

    /// Returns the same, of one namespace; empty = of all.
    #[must_use]
    pub fn within(self, resource: &ApiResource, namespace: &str) -> Self {
        Self { listing: Listing::of_namespace(resource, namespace), ..self }
    }

    /// Creates a monitor of the pods of a node. It compares no versions: a live lookup follows before anything of a pod is
    /// removed (I11).
    pub(super) fn of_node(connection: Arc<Connection>, node: &str, timing: Timing) -> Self {
        let (listing, silence) = (Listing::pods_of(node), timing.max_silence / 2);
        Self { connection, listing, timing, lists: Arc::new(Semaphore::new(1)), silence, compares_versions: false }
    }

    /// Follows the resource until the future is dropped.
    pub async fn run<T: Watched>(self, follower: impl Follower<T>) {
        let (monitor, pauses) = (&self, Pauses::new());
        let (is_watched, is_doubtful, outage) = Default::default();
        let mut round = Round { monitor, follower, version: None, pauses, is_watched, outage, is_doubtful };
        loop {
            if let Err(error) = round.follow().await {
                round.fail(&error);
                sleep(round.pauses.after(error.cause.code() == Some(410), round.version.is_none())).await;
            }
        }
    }
}

// === impl Round ===

impl<F> Round<'_, F> {
    /// Lists if needed, then watches until the server ends the watch.
    async fn follow<T: Watched>(&mut self) -> Result<(), KubernetesError>
    where
        F: Follower<T>,
    {
        self.follower.begin().await?;
        if self.is_doubtful && self.version.is_some() {
            self.check_version::<T>().await?;
        }
        let version = match self.version.clone() {
            Some(version) => version,
            None => self.list().await?,
        };
        attempt(self.monitor.listing.watch_text(), self.watch(&version)).await
    }

    /// Watches from a version on until the server ends the watch.
    async fn watch<T: Watched>(&mut self, version: &str) -> Result<(), Cause>
    where
        F: Follower<T>,
    {
        let Monitor { connection, listing, timing, silence, .. } = self.monitor;
        let lasts = self.follower.lasts(timing.watch);
        let request = listing.watch::<T>(version, lasts)?;
        let (answer, _place) = connection.watch(request, timing.answer).await?;
        self.outage.begins(None::<()>);
        if !std::mem::replace(&mut self.is_watched, true) {
            self.follower.show(MonitorEvent::Works);
        }
        let (begun, mut has_line) = (Instant::now(), false);
        let mut lines = WatchLines::new(answer.into_body(), *silence, lasts);
        while let Some(line) = lines.next().await? {
            self.event(line)?;
            has_line = true;
            self.pauses.works();
        }
        // An incomplete last line is not lost: the next watch continues from the last complete one.
        if !has_line && begun.elapsed() < SHORT {
            return Err(Cause::Unreadable("it ended at once".to_owned()));
        }
        if !lines.is_cut() {
            // Not every server sends bookmarks while nothing happens.
            self.follower.show(MonitorEvent::Current);
            self.pauses.works();
        }
        Ok(())
    }

    async fn list<T: Watched>(&mut self) -> Result<String, KubernetesError>
    where
        F: Follower<T>,
    {
        let Self { monitor: Monitor { connection, listing, timing, lists, .. }, follower, .. } = self;
        // The semaphore is never closed.
        let _permit = lists.acquire().await;
        follower.show(MonitorEvent::ListBegins);
        let take = |page: Vec<T>| page.into_iter().for_each(|object| follower.show(MonitorEvent::Seen(object)));
        let version = listing.pages(connection, timing.answer, take).await?;
        self.follower.show(MonitorEvent::ListEnds);
        self.pauses.listed();
        self.version = Some(version.clone());
        Ok(version)
    }

    /// Lists again if the server has not reached the version to continue from: after a restore from a backup it would show
    /// nothing until it has.
    async fn check_version<T: Watched>(&mut self) -> Result<(), KubernetesError> {
        let Monitor { connection, listing, timing, .. } = self.monitor;
        let newest = listing.newest_version::<T>(connection, timing.answer).await?;
        let is_reached = newest.zip(self.version.as_ref()).is_some_and(|(newest, version)| !is_older(&newest, version));
        self.version.take_if(|_| !is_reached);
        self.is_doubtful = false;
        Ok(())
    }

    fn event<T: Watched>(&mut self, line: &[u8]) -> Result<(), Cause>
    where
        F: Follower<T>,
    {
        let event = match parsed(line)? {
            WatchEvent::Error(status) => {
                // After any error it is unknown which events were lost.
                self.version = None;
                return Err(refused(*status, None));
            }
            WatchEvent::Bookmark(bookmark) => {
                self.at(&bookmark.metadata.resource_version)?;
                MonitorEvent::Current
            }
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                self.at(T::resource_version(&object))?;
                MonitorEvent::Seen(object)
            }
            WatchEvent::Deleted(object) => {
                self.at(T::resource_version(&object))?;
                MonitorEvent::Deleted(object)
            }
        };
        self.follower.show(event);
        Ok(())
    }

    /// Stores the version to continue from.
    fn at(&mut self, version: &str) -> Result<(), Cause> {
        if version.is_empty() {
            return Err(Cause::Unreadable("an event without a version".to_owned()));
        }
        // An older state was restored: what the list showed may not exist (G1).
        let is_older = self.version.as_deref().is_some_and(|before| is_older(version, before));
        if is_older && self.monitor.compares_versions {
            return Err(Cause::Unreadable(format!("the version {version} is older than the one before")));
        }
        self.version = Some(version.to_owned());
        Ok(())
    }

    /// Keeps the version if the server may still have it. So a restart of the server does not cost a list from every node
    /// of the cluster.
    fn fail<T>(&mut self, error: &KubernetesError)
    where
        F: Follower<T>,
    {
        let is_unusable = matches!(error.cause, Cause::Silent(_) | Cause::Unreadable(_) | Cause::TooLarge(_));
        if is_unusable || error.cause.code() == Some(410) {
            self.version = None;
        }
        (self.is_watched, self.is_doubtful) = (false, self.monitor.compares_versions);
        let is_first = self.outage.begins(Some(error)).is_some();
        self.follower.show(MonitorEvent::Failed(error, is_first));
    }
}

/// Versions are numbers that grow, unless an older state of the store was restored.
fn is_older(version: &str, than: &str) -> bool {
    let number = |text: &str| text.parse::<u64>().ok();
    number(version).zip(number(than)).is_some_and(|(version, than)| version < than)
}
