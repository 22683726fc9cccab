//! Keeps the pods of one node up to date by list and watch.
//!
//! A task lists all pods, then follows the changes from that resource version on. Every failure is visible in the
//! result. Pods are never dropped because a server is silent, and an old list never counts as current. Bookmarks show
//! that a server without events still works. A watch without events and bookmarks for too long is dropped, and the pods
//! are listed again.
//!
//! The watcher of the crate `kube` cannot be used here: it hides bookmarks and orderly ends of a watch, and on a quiet
//! node these are the only proof that the list is current.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use jiff::Timestamp;
use kube::client::Body;
use kube::core::WatchEvent;
use kube::core::params::WatchParams;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout_at};

use super::api_types::{ApiPod, NodeInfo};
use super::clients::Clients;
use super::connection::{invalid_request, refused, unreadable};
use super::list::{all_pods, on, pods_at};
use super::node::NodeProblem;
use super::pauses::Pauses;
use super::watch_lines::WatchLines;
use super::{Clock, Connection, KubernetesError, Timing, node};
use crate::model::{Pod, Seen, is_object_name};

const WATCH_PODS: &str = "watch the pods of all namespaces";
/// The length of the first watch after a failure. The failure is over when this watch ends in order or sends anything.
const PROBE: Duration = Duration::from_secs(5);
/// A watch that ends sooner without a complete line counts as a failure.
const SHORT: Duration = Duration::from_secs(1);

/// The watch of a node's pods. Dropping it stops its task.
pub struct PodWatch {
    state: watch::Receiver<State>,
    started: Instant,
    clock: Clock,
    timing: Timing,
    task: JoinHandle<()>,
}

/// The known pods of a node.
#[derive(Clone, Debug, PartialEq)]
pub struct KnownPods {
    /// The pods, by namespace and name.
    pub pods: Vec<Pod>,
    /// When the server last sent anything.
    pub as_of: Timestamp,
    /// Why pods may be missing, as text for users; `None` = the list is complete.
    pub missing: Option<String>,
    /// The machine of the Node object with this name.
    pub node: NodeInfo,
}

#[derive(Default)]
struct State {
    pods: BTreeMap<(String, String), Pod>,
    /// When the server last sent anything; `None` = the pods were never listed.
    last_contact: Option<(Instant, Timestamp)>,
    /// Why the last attempt failed.
    trouble: Option<String>,
    /// Why the lists may belong to no existing node.
    node_problem: NodeProblem,
    /// The machine of the Node object.
    node: NodeInfo,
    /// At least one attempt was made, whatever its result.
    tried: bool,
}

/// The state of the task.
struct Watcher {
    connection: Arc<Connection>,
    node: String,
    clock: Clock,
    timing: Timing,
    state: watch::Sender<State>,
    /// The resource version to continue from; `None` = the pods must be listed.
    version: Option<String>,
    pauses: Pauses,
}

// === impl PodWatch ===

impl PodWatch {
    /// Starts to follow the pods of `node`. Must be called within a tokio runtime, which runs the task.
    pub fn start(connection: Arc<Connection>, node: &str, clock: Clock, timing: Timing) -> Self {
        let (sender, state) = watch::channel(State::default());
        let watcher = Watcher {
            connection,
            node: node.to_owned(),
            clock,
            pauses: Pauses::new(&timing),
            timing: timing.clone(),
            state: sender,
            version: None,
        };
        Self { state, started: Instant::now(), clock, timing, task: tokio::spawn(watcher.run()) }
    }

    /// Returns the known pods. The first call waits for the first attempt to list them.
    pub async fn pods(&self) -> Seen<KnownPods> {
        let mut state = self.state.clone();
        // An error means that the task has ended or that the time is up. The known pods are returned in both cases.
        let _ = timeout_at(self.started + self.timing.first_list, state.wait_for(|state| state.tried)).await;
        let state = state.borrow();
        let Some((at, as_of)) = state.last_contact else {
            let none = || format!("no answer from the API server within {} s", self.timing.first_list.as_secs());
            return Seen::NotSeen(state.trouble.clone().or(state.node_problem.clone()).unwrap_or_else(none));
        };
        let missing = state.trouble.clone().or(state.node_problem.clone()).or_else(|| self.silence(at, as_of));
        let pods = state.pods.values().cloned().collect();
        Seen::Seen(KnownPods { pods, as_of, missing, node: state.node.clone() })
    }

    /// Returns why the last contact is too old. The wall clock counts too: the monotonic clock stops while a machine
    /// sleeps.
    fn silence(&self, at: Instant, as_of: Timestamp) -> Option<String> {
        let by_wall = Duration::try_from((self.clock)().duration_since(as_of)).unwrap_or_default();
        let silent = at.elapsed().max(by_wall);
        (silent > self.timing.max_silence).then(|| format!("the API server was last heard {} s ago", silent.as_secs()))
    }
}

impl Drop for PodWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

// === impl Watcher ===

impl Watcher {
    async fn run(mut self) {
        loop {
            if let Err(error) = self.round().await {
                let is_news = self.record_failure(&error).await;
                let pause = self.pauses.after(error.code() == Some(410), self.version.is_none());
                // The versions of all nodes expire at the same time.
                sleep(pause.max(self.timing.least_pause)).await;
                // The log line follows the back-off, so that a shutdown does not log the connections that it closes.
                if is_news {
                    tracing::warn!(cause = %error, "pods are not known");
                }
            }
        }
    }

    /// Lists the pods if needed, then watches until the server ends the watch.
    async fn round(&mut self) -> Result<(), KubernetesError> {
        let (node_problem, node) = node::check(&self.connection, &self.node, self.timing.answer).await?;
        let is_known = node_problem.is_none();
        self.set_node_problem(node_problem);
        self.state.send_modify(|state| state.node = node);
        if !is_object_name(&self.node) {
            let cause = "the node has no name that the API takes; set --node-name";
            return Err(invalid_request(WATCH_PODS, cause.to_owned()));
        }
        let version = match self.version.clone() {
            Some(version) => version,
            None => self.list().await?,
        };
        let lasts = self.lasts(is_known);
        let request = self.request(&version, lasts)?;
        let body = self.connection.open(Clients::watches, WATCH_PODS, request, self.timing.answer).await?.into_body();
        self.follow(body, lasts).await
    }

    /// Returns how long the next watch lasts. Its orderly end also proves contact, and without events it is the only
    /// proof. So a watch is short after a failure, and never longer than a third of `max_silence`. It is also shorter
    /// while the Node does not exist, so that a later registration is noticed soon.
    fn lasts(&self, is_known: bool) -> Duration {
        let wanted = match (self.state.borrow().trouble.is_some(), is_known) {
            (true, _) => PROBE,
            (false, true) => self.timing.watch,
            (false, false) => self.timing.longest_pause,
        };
        wanted.min(self.timing.max_silence / 3)
    }

    fn request(&self, version: &str, lasts: Duration) -> Result<Request<Vec<u8>>, KubernetesError> {
        let seconds = u32::try_from(lasts.as_secs()).unwrap_or(u32::MAX).clamp(1, 290);
        let params = WatchParams::default().fields(&on(&self.node)).timeout(seconds);
        all_pods().watch(&params, version).map_err(|error| invalid_request(WATCH_PODS, error.to_string()))
    }

    async fn list(&mut self) -> Result<String, KubernetesError> {
        let listed = pods_at(&self.connection, &all_pods(), &on(&self.node), self.timing.answer).await?;
        self.version = Some(listed.version.clone());
        self.pauses.listed();
        self.apply(|pods| *pods = listed.items.into_iter().map(|pod| (key(&pod), pod)).collect());
        Ok(listed.version)
    }

    /// Applies the events of a watch until the server ends it.
    async fn follow(&mut self, body: Body, lasts: Duration) -> Result<(), KubernetesError> {
        let (begun, mut has_line) = (Instant::now(), false);
        let mut lines = WatchLines::new(WATCH_PODS, body, self.timing.max_silence / 2, lasts);
        while let Some(line) = lines.next().await? {
            self.line(line)?;
            has_line = true;
            self.pauses.works();
        }
        // An incomplete last line is not lost: the next watch continues from the last complete one.
        if !has_line && begun.elapsed() < SHORT {
            return Err(unreadable(WATCH_PODS, "it ended at once".to_owned()));
        }
        if !lines.is_cut() {
            // The server had no more events up to now. Not every server sends bookmarks while nothing happens.
            self.apply(|_| {});
            self.pauses.works();
        }
        Ok(())
    }

    fn line(&mut self, line: &[u8]) -> Result<(), KubernetesError> {
        match serde_json::from_slice(line).map_err(|error| unreadable(WATCH_PODS, error.to_string()))? {
            WatchEvent::Error(status) => {
                // After any error it is unknown which events were lost.
                self.version = None;
                return Err(refused(WATCH_PODS, *status, None));
            }
            WatchEvent::Bookmark(bookmark) => {
                self.at(bookmark.metadata.resource_version)?;
                self.apply(|_| {});
            }
            WatchEvent::Added(pod) | WatchEvent::Modified(pod) => {
                let pod = self.pod(pod)?;
                self.apply(|pods| drop(pods.insert(key(&pod), pod)));
            }
            WatchEvent::Deleted(pod) => {
                let pod = self.pod(pod)?;
                let key = key(&pod);
                self.apply(|pods| pods.retain(|at, known| *at != key || known.uid != pod.uid));
            }
        }
        Ok(())
    }

    /// Returns the pod of an event, and stores its resource version.
    fn pod(&mut self, pod: ApiPod) -> Result<Pod, KubernetesError> {
        let version = pod.metadata.resource_version.clone();
        let pod = pod.into_pod().map_err(|cause| unreadable(WATCH_PODS, cause))?;
        self.at(version)?;
        Ok(pod)
    }

    /// Stores the resource version to continue from.
    fn at(&mut self, version: String) -> Result<(), KubernetesError> {
        if version.is_empty() {
            return Err(unreadable(WATCH_PODS, "an event without a version".to_owned()));
        }
        self.version = Some(version);
        Ok(())
    }

    /// Applies a change and records the contact. All earlier failures are over.
    fn apply(&self, change: impl FnOnce(&mut BTreeMap<(String, String), Pod>)) {
        let now = (Instant::now(), (self.clock)());
        self.state.send_modify(|state| {
            change(&mut state.pods);
            if state.trouble.take().is_some() || state.last_contact.is_none() {
                tracing::info!(node = self.node, pods = state.pods.len(), "pods are known");
            }
            (state.last_contact, state.tried) = (Some(now), true);
        });
    }

    fn set_node_problem(&self, node_problem: NodeProblem) {
        self.state.send_modify(|state| {
            if state.node_problem != node_problem
                && let Some(cause) = &node_problem
            {
                tracing::warn!(cause, "the node is not known");
            }
            state.node_problem = node_problem;
        });
    }

    /// Records a failure and returns whether all was well before. Keeps the resource version if the server may still
    /// have it. So a restart of the server does not cost a list from every node of the cluster.
    async fn record_failure(&mut self, error: &KubernetesError) -> bool {
        let resumable = match error {
            KubernetesError::Silent { .. } | KubernetesError::Unreadable { .. } | KubernetesError::TooLarge { .. } => {
                false
            }
            error => error.code() != Some(410),
        };
        if !resumable {
            self.version = None;
        }
        if error.is_of_connection() {
            self.connection.renew().await;
        }
        let mut is_news = true;
        self.state.send_modify(|state| {
            is_news = state.trouble.replace(error.to_string()).is_none();
            state.tried = true;
        });
        is_news
    }
}

fn key(pod: &Pod) -> (String, String) {
    (pod.namespace.clone(), pod.name.clone())
}
