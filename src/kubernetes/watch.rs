//! The pods of one node, kept up to date by list and watch.
//!
//! A task lists all pods, then follows the changes from that very moment on. Whatever goes wrong shows in what it tells:
//! pods are never forgotten because a server was silent, and a list is never passed off as new. Bookmarks are what tells
//! peace from silence; a watch without either for long is dropped and the pods are listed anew.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use jiff::Timestamp;
use kube::client::Body;
use kube::core::params::WatchParams;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout_at};

use super::api_types::{ApiPod, NodeInfo, Object, Status};
use super::connection::{ask, piece, refused, unreadable};
use super::list::{all_pods, on, pods_at};
use super::node::Doubt;
use super::{Clock, Connection, KubernetesError, Timing, node};
use crate::model::{Pod, Seen, is_object_name};

const WATCH_PODS: &str = "watch the pods of all namespaces";
/// Far above any event: the API takes objects of some 3 MiB at most.
const LONGEST_LINE_BYTES: usize = 16 << 20;
/// The first watch after trouble: as soon as it ends in order, or tells something, all is well again.
const PROBE: Duration = Duration::from_secs(5);
/// A watch that ends sooner, without a word, was not what was asked for.
const SHORT: Duration = Duration::from_secs(1);

/// A node's pods, followed by a task that ends with this.
pub struct PodWatch {
    state: watch::Receiver<State>,
    started: Instant,
    clock: Clock,
    timing: Timing,
    task: JoinHandle<()>,
}

/// What is known of a node's pods.
#[derive(Clone, Debug, PartialEq)]
pub struct Heard {
    /// The pods, by namespace and name.
    pub pods: Vec<Pod>,
    /// When the server was last heard.
    pub as_of: Timestamp,
    /// Why pods may be missing, for people; `None` = none is.
    pub missing: Option<String>,
    /// The machine of the Node object of this name.
    pub node: NodeInfo,
}

#[derive(Default)]
struct State {
    pods: BTreeMap<(String, String), Pod>,
    /// When the server last told anything; `None` = the pods were never listed.
    heard: Option<(Instant, Timestamp)>,
    /// Why the last attempt failed.
    trouble: Option<String>,
    /// Why the lists may be those of no node.
    doubt: Doubt,
    /// The machine of the Node object.
    node: NodeInfo,
    /// An attempt was made, whatever its end.
    tried: bool,
}

/// The task.
struct Watcher {
    connection: Arc<Connection>,
    node: String,
    clock: Clock,
    timing: Timing,
    state: watch::Sender<State>,
    /// From where to go on; `None` = the pods must be listed.
    version: Option<String>,
    pause: Duration,
}

/// One line of a watch.
#[derive(serde::Deserialize)]
struct Head {
    #[serde(rename = "type")]
    kind: Kind,
}

#[derive(Clone, Copy, serde::Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum Kind {
    Added,
    Modified,
    Deleted,
    Bookmark,
    Error,
}

/// The object of a line, by what the head says it is.
#[derive(serde::Deserialize)]
struct Line<T> {
    object: T,
}

// === impl PodWatch ===

impl PodWatch {
    /// Begins to follow the pods of `node`. Must be called within a tokio runtime, where the task lives.
    pub fn start(connection: Arc<Connection>, node: &str, clock: Clock, timing: Timing) -> Self {
        let (sender, state) = watch::channel(State::default());
        let watcher = Watcher {
            connection,
            node: node.to_owned(),
            clock,
            pause: timing.least_pause,
            timing: timing.clone(),
            state: sender,
            version: None,
        };
        Self { state, started: Instant::now(), clock, timing, task: tokio::spawn(watcher.run()) }
    }

    /// Tells what is known. The first question waits for the first list, or until it is clear that there is none yet.
    pub async fn tell(&self) -> Seen<Heard> {
        let mut state = self.state.clone();
        // An error means that the task has ended or the time is up; what is known is told all the same.
        let _ = timeout_at(self.started + self.timing.first_list, state.wait_for(|state| state.tried)).await;
        let state = state.borrow();
        let Some((at, as_of)) = state.heard else {
            let none = || format!("no answer from the API server within {} s", self.timing.first_list.as_secs());
            return Seen::NotSeen(state.trouble.clone().or(state.doubt.clone()).unwrap_or_else(none));
        };
        let missing = state.trouble.clone().or(state.doubt.clone()).or_else(|| self.silence(at, as_of));
        let pods = state.pods.values().cloned().collect();
        Seen::Seen(Heard { pods, as_of, missing, node: state.node.clone() })
    }

    /// Why what was heard is too old. The wall clock counts too: the other one stands still while a machine sleeps.
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
            let resumed = self.version.is_some();
            if let Err(error) = self.round().await {
                let is_news = self.failed(&error).await;
                if resumed && error.code() == Some(410) {
                    // The server is well and has only forgotten so much: there is nothing to spare it from.
                    self.pause = self.timing.least_pause;
                }
                sleep(self.pause).await;
                // Told late, so that a process that is ending does not tell of connections that end with it.
                if is_news {
                    tracing::warn!(cause = %error, "pods are not known");
                }
                self.pause = (self.pause * 2).min(self.timing.longest_pause);
            }
        }
    }

    /// Lists if it must, then watches until the server ends that.
    async fn round(&mut self) -> Result<(), KubernetesError> {
        let (doubt, node) = node::check(&self.connection, &self.node, self.timing.answer).await?;
        let is_known = doubt.is_none();
        self.doubt(doubt);
        self.state.send_modify(|state| state.node = node);
        if !is_object_name(&self.node) {
            return Err(ask(WATCH_PODS, "the node has no name that the API takes; set --node-name".to_owned()));
        }
        let version = match self.version.clone() {
            Some(version) => version,
            None => self.list().await?,
        };
        let request = self.request(&version, self.lasts(is_known))?;
        let body = self.connection.open(WATCH_PODS, request, self.timing.answer).await?.into_body();
        self.follow(body).await
    }

    /// How long the next watch is to last. Its end in order is a word too, and where nothing happens the only one; so it is
    /// short after trouble, and never so long that the silence before it would count. A node that registers later is to
    /// be noticed soon.
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
        all_pods().watch(&params, version).map_err(|error| ask(WATCH_PODS, error.to_string()))
    }

    async fn list(&mut self) -> Result<String, KubernetesError> {
        let listed = pods_at(&self.connection, &all_pods(), &on(&self.node), self.timing.answer).await?;
        self.version = Some(listed.version.clone());
        self.heard(|pods| *pods = listed.pods.into_iter().map(|pod| (key(&pod), pod)).collect());
        Ok(listed.version)
    }

    /// Takes in what a watch tells until the server ends it.
    async fn follow(&mut self, mut body: Body) -> Result<(), KubernetesError> {
        let limit = self.timing.max_silence / 2;
        let (begun, mut dead, mut line) = (Instant::now(), Instant::now() + limit, Vec::new());
        let mut told = false;
        loop {
            let next = timeout_at(dead, piece(WATCH_PODS, &mut body)).await;
            let Some(piece) = next.map_err(|_| KubernetesError::Silent { seconds: limit.as_secs() })?? else { break };
            for part in piece.as_ref().split_inclusive(|byte| *byte == b'\n') {
                line.extend_from_slice(part);
                if line.len() > LONGEST_LINE_BYTES {
                    return Err(unreadable(WATCH_PODS, "an endless event".to_owned()));
                }
                if line.ends_with(b"\n") {
                    self.line(&line)?;
                    line.clear();
                    (told, dead, self.pause) = (true, Instant::now() + limit, self.timing.least_pause);
                }
            }
        }
        // A last line that is not whole will be told again: the next watch goes on from the last whole one.
        if !told && begun.elapsed() < SHORT {
            return Err(unreadable(WATCH_PODS, "it ended at once".to_owned()));
        }
        if line.is_empty() {
            // The server had nothing more to tell up to now. Not every one sends bookmarks where nothing happens.
            self.heard(|_| {});
            self.pause = self.timing.least_pause;
        }
        Ok(())
    }

    fn line(&mut self, line: &[u8]) -> Result<(), KubernetesError> {
        let kind = read::<Head>(line)?.kind;
        match kind {
            Kind::Error => {
                let status: Line<Status> = read(line)?;
                // Whatever it is, nobody knows what was lost.
                self.version = None;
                return Err(refused(WATCH_PODS, status.object));
            }
            Kind::Bookmark => {
                let object: Line<Object> = read(line)?;
                self.at(object.object.metadata.resource_version)?;
                self.heard(|_| {});
            }
            Kind::Added | Kind::Modified | Kind::Deleted => {
                let pod: Line<ApiPod> = read(line)?;
                let version = pod.object.metadata.resource_version.clone();
                let pod = pod.object.into_pod().map_err(|cause| unreadable(WATCH_PODS, cause))?;
                self.at(version)?;
                self.heard(|pods| change(pods, kind, pod));
            }
        }
        Ok(())
    }

    /// Remembers from where to go on.
    fn at(&mut self, version: String) -> Result<(), KubernetesError> {
        if version.is_empty() {
            return Err(unreadable(WATCH_PODS, "an event without a version".to_owned()));
        }
        self.version = Some(version);
        Ok(())
    }

    /// The server spoke: all that was wrong is over.
    fn heard(&self, change: impl FnOnce(&mut BTreeMap<(String, String), Pod>)) {
        let now = (Instant::now(), (self.clock)());
        self.state.send_modify(|state| {
            change(&mut state.pods);
            if state.trouble.take().is_some() || state.heard.is_none() {
                tracing::info!(node = self.node, pods = state.pods.len(), "pods are known");
            }
            (state.heard, state.tried) = (Some(now), true);
        });
    }

    fn doubt(&self, doubt: Doubt) {
        self.state.send_modify(|state| {
            if state.doubt != doubt
                && let Some(cause) = &doubt
            {
                tracing::warn!(cause, "the node is not known");
            }
            state.doubt = doubt;
        });
    }

    /// Notes a failure, and from where to go on after it: what the server still has can be followed from the last
    /// version, so that its restart does not cost a list from every node of the cluster.
    /// Says whether all was well before.
    async fn failed(&mut self, error: &KubernetesError) -> bool {
        let resumable = match error {
            KubernetesError::Silent { .. } | KubernetesError::Unreadable { .. } => false,
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

fn read<T: serde::de::DeserializeOwned>(line: &[u8]) -> Result<T, KubernetesError> {
    serde_json::from_slice(line).map_err(|error| unreadable(WATCH_PODS, error.to_string()))
}

fn change(pods: &mut BTreeMap<(String, String), Pod>, kind: Kind, pod: Pod) {
    let key = key(&pod);
    if !matches!(kind, Kind::Deleted) {
        pods.insert(key, pod);
    } else if pods.get(&key).is_some_and(|known| known.uid == pod.uid) {
        pods.remove(&key);
    }
}

fn key(pod: &Pod) -> (String, String) {
    (pod.namespace.clone(), pod.name.clone())
}
