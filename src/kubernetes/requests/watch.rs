//! Keeps the pods of one node up to date by list and watch.
//!
//! Every failure is visible in the result. Pods are never dropped because a server is silent, and an old list never counts
//! as current. Bookmarks, and watches that end in order, show that a server without events still works: an API server of
//! version 1.20 sends no bookmark before the first event. So the watch is one of its own, of a minute.
//!
//! A watch lasts one minute. An API server 1.20 sends no bookmark before the first event, so an idle watch and a
//! broken one look the same. A watch that ends in order proves that the server responds.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use super::pauses::LONGEST;
use crate::kubernetes::monitor::{Follower, Monitor, MonitorEvent};
use crate::kubernetes::objects::api_node::{self as node, NodeInfo, NodeProblem};
use crate::kubernetes::objects::node_pods::NodePod;
use crate::kubernetes::{Cause, Clock, Connection, KubernetesError, Timing};
use crate::model::{Pod, Seen, is_object_name};

/// The length of the first watch after a failure. The failure is over when this watch ends in order or sends anything.
const PROBE: Duration = Duration::from_secs(5);
/// How long the first call waits for the first list.
const FIRST_LIST: Duration = Duration::from_secs(10);

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

/// By namespace and name.
type Pods = BTreeMap<(String, String), Pod>;

#[derive(Default)]
struct State {
    pods: Pods,
    /// When the server last sent anything; `None` = the pods were never listed.
    last_contact: Option<(Instant, Timestamp)>,
    /// Why the last attempt failed.
    fault: Option<String>,
    /// Why the lists may belong to no existing node.
    node_problem: NodeProblem,
    /// The machine of the Node object.
    node: NodeInfo,
    /// At least one attempt was made, whatever its result.
    tried: bool,
}

/// Puts what the monitor shows into the state.
struct Watcher {
    connection: Arc<Connection>,
    node: String,
    clock: Clock,
    timing: Timing,
    state: watch::Sender<State>,
    /// The pods of a list that has not ended.
    listed: Option<Pods>,
    /// The connection may be the cause of the last failure.
    renews: bool,
    /// The first failure after a success, to be logged.
    unlogged: Option<String>,
}

// === impl PodWatch ===

impl PodWatch {
    /// Starts to follow the pods of `node`. Must be called within a tokio runtime, which runs the task.
    pub fn start(connection: Arc<Connection>, node: &str, clock: Clock, timing: Timing) -> Self {
        let (sender, state) = watch::channel(State::default());
        let watcher = Watcher {
            connection: Arc::clone(&connection),
            node: node.to_owned(),
            clock,
            timing: timing.clone(),
            state: sender,
            listed: None,
            renews: false,
            unlogged: None,
        };
        let monitor = Monitor::of_node(connection, node, timing.clone());
        let task = tokio::spawn(monitor.run::<NodePod>(watcher));
        Self { state, started: Instant::now(), clock, timing, task }
    }

    /// Returns the known pods. The first call waits for the first attempt to list them.
    pub async fn pods(&self) -> Seen<KnownPods> {
        let mut state = self.state.clone();
        // An error means that the task has ended or that the time is up. The known pods are returned in both cases.
        let _ = timeout_at(self.started + FIRST_LIST, state.wait_for(|state| state.tried)).await;
        let state = state.borrow();
        let problem = state.fault.clone().or(state.node_problem.clone());
        let Some((at, as_of)) = state.last_contact else {
            let none = || format!("no answer from the API server within {} s", FIRST_LIST.as_secs());
            return Seen::NotSeen(problem.unwrap_or_else(none));
        };
        let missing = problem.or_else(|| self.silence(at, as_of));
        let pods = state.pods.values().cloned().collect();
        Seen::Seen(KnownPods { pods, as_of, missing, node: state.node.clone() })
    }

    /// Returns why the last contact is too old. The wall clock counts too: the monotonic clock stops while a machine
    /// sleeps.
    fn silence(&self, at: Instant, as_of: Timestamp) -> Option<String> {
        let by_wall = Duration::try_from((self.clock)().duration_since(as_of)).unwrap_or_default();
        let silent = at.elapsed().max(by_wall);
        (silent > self.timing.max_silence).then(|| format!("the API server last answered {} s ago", silent.as_secs()))
    }
}

impl Drop for PodWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

// === impl Watcher ===

impl Follower<NodePod> for Watcher {
    /// Checks that the Node exists.
    async fn begin(&mut self) -> Result<(), KubernetesError> {
        // The log line follows the back-off, so that a shutdown does not log the connections that it closes.
        if let Some(cause) = self.unlogged.take() {
            tracing::warn!(cause, "the list of pods is unavailable");
        }
        if std::mem::take(&mut self.renews) {
            self.connection.renew().await;
        }
        let (problem, node) = node::check(&self.connection, &self.node, self.timing.answer).await?;
        self.set_node(problem, node);
        if !is_object_name(&self.node) {
            let cause = "the node has no name that the API takes; set --node-name";
            return Err(Cause::InvalidRequest(cause.to_owned()).of("watch the pods of all namespaces"));
        }
        Ok(())
    }

    /// The orderly end of a watch proves contact too, and without events it is the only proof. So a watch is short after a
    /// failure, and never longer than a third of `max_silence`. It is also shorter while the Node does not exist, so that a
    /// later registration is noticed soon.
    fn lasts(&self, longest: Duration) -> Duration {
        let state = self.state.borrow();
        let wanted = match (state.fault.is_some(), state.node_problem.is_none()) {
            (true, _) => PROBE,
            (false, true) => longest,
            (false, false) => LONGEST,
        };
        wanted.min(self.timing.max_silence / 3)
    }

    fn show(&mut self, event: MonitorEvent<'_, NodePod>) {
        match (event, &mut self.listed) {
            (MonitorEvent::ListBegins, listed) => *listed = Some(Pods::new()),
            (MonitorEvent::Seen(NodePod { pod, .. }), Some(listed)) => drop(listed.insert(key(&pod), pod)),
            (MonitorEvent::ListEnds, listed) => {
                let listed = listed.take().unwrap_or_default();
                self.apply(|pods| *pods = listed);
            }
            (MonitorEvent::Seen(NodePod { pod, .. }), None) => self.apply(|pods| drop(pods.insert(key(&pod), pod))),
            (MonitorEvent::Deleted(NodePod { pod, .. }), _) => {
                let key = key(&pod);
                self.apply(|pods| pods.retain(|at, known| *at != key || known.uid != pod.uid));
            }
            (MonitorEvent::Current, _) => self.apply(|_| {}),
            (MonitorEvent::Works, _) => {}
            (MonitorEvent::Failed(error, _), _) => self.fail(error),
        }
    }
}

impl Watcher {
    /// Applies a change and records the contact. All earlier failures are over.
    fn apply(&self, change: impl FnOnce(&mut Pods)) {
        let now = (Instant::now(), (self.clock)());
        self.state.send_modify(|state| {
            change(&mut state.pods);
            if state.fault.take().is_some() || state.last_contact.is_none() {
                tracing::info!(node = self.node, pods = state.pods.len(), "the list of pods is available");
            }
            (state.last_contact, state.tried) = (Some(now), true);
        });
    }

    fn set_node(&self, problem: NodeProblem, node: NodeInfo) {
        self.state.send_modify(|state| {
            if let Some(cause) = problem.as_ref().filter(|_| state.node_problem != problem) {
                tracing::warn!(cause, "the node is unavailable");
            }
            (state.node_problem, state.node) = (problem, node);
        });
    }

    fn fail(&mut self, error: &KubernetesError) {
        self.renews = error.cause.is_of_connection();
        let cause = error.to_string();
        self.state.send_modify(|state| {
            if state.fault.replace(cause.clone()).is_none() {
                self.unlogged = Some(cause);
            }
            state.tried = true;
        });
    }
}

fn key(pod: &Pod) -> (String, String) {
    (pod.namespace.clone(), pod.name.clone())
}
