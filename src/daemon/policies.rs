//! Follows the NodeDiskPolicies of the cluster, and writes those that apply to this node beside the store.
//!
//! The service applies them from memory. Commands read that file, as they read the file of a pause, and so does the service after a restart:
//! a policy counts without a restart, for commands on the node too, and while the API server cannot be reached. There is one watch, of the policies. The labels of the node are read if a policy selects by labels.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use tokio::time::sleep;

pub use super::cycle::pauses::ReceivedPolicies;
use super::cycle::pauses::replace_file;
use super::node::credential_candidates;
use crate::config::Settings;
use crate::fleet::{AppliedPolicy, FleetPart, NodeDiskPolicySpec, NodePolicies};
use crate::host_path::BoundedCalls;
use crate::kubernetes::{
    ApiResource, Connection, FleetSpec, Follower, Head, KubernetesError, Monitor, MonitorEvent, Timing, read_node,
};

/// How often the labels of the node are read while a policy selects by labels.
const LABELS_INTERVAL: Duration = Duration::from_mins(5);
/// How long a watch lasts. A connection that broke without notice is found after it.
const WATCH: Duration = Duration::from_mins(2);
/// The wait before another attempt to read the labels or to write the file.
const RETRY: Duration = Duration::from_secs(5);

type Policies = BTreeMap<String, AppliedPolicy>;
type ListedPolicy = FleetSpec<NodeDiskPolicySpec>;

/// Takes the policies as the API server shows them. Before the first complete list nothing is known, and the file stays.
struct PolicyFollower {
    listed: Policies,
    is_listing: bool,
    known: watch::Sender<Option<Policies>>,
}

/// What applies the policies to one node.
struct PolicyWriter {
    connection: Arc<Connection>,
    node: String,
    file: PathBuf,
    calls: BoundedCalls,
    written: Option<NodePolicies>,
    received: ReceivedPolicies,
}

/// Follows the policies until the future is dropped, if the settings say so.
pub async fn follow(settings: &Settings, received: &ReceivedPolicies) {
    if !settings.fleet.contains(&FleetPart::Policies) {
        return;
    }
    let connection = Arc::new(Connection::new(credential_candidates(settings)));
    let (sender, known) = watch::channel(None);
    let follower = PolicyFollower { listed: Policies::new(), is_listing: false, known: sender };
    let lists = Arc::new(Semaphore::new(1));
    let policies = ApiResource::node_disk_policies();
    let timing = Timing { watch: WATCH, ..Timing::default() };
    let monitor = Monitor::new(Arc::clone(&connection), &policies, timing, lists);
    let (node, file) = (settings.node.clone(), settings.state.policies_file());
    let (calls, received) = (BoundedCalls::default(), received.clone());
    let writer = PolicyWriter { connection, node, file, calls, written: None, received };
    tokio::join!(monitor.run(follower), writer.run(known));
}

// === impl PolicyFollower ===

impl Follower<ListedPolicy> for PolicyFollower {
    fn show(&mut self, event: MonitorEvent<'_, ListedPolicy>) {
        match event {
            MonitorEvent::ListBegins => (self.listed, self.is_listing) = (Policies::new(), true),
            MonitorEvent::Seen(policy) => self.change(policy, |policies, name, seen| drop(policies.insert(name, seen))),
            MonitorEvent::Deleted(policy) => self.change(policy, |policies, name, _| drop(policies.remove(&name))),
            MonitorEvent::ListEnds => {
                self.is_listing = false;
                self.known.send_replace(Some(std::mem::take(&mut self.listed)));
            }
            MonitorEvent::Failed(error, true) => {
                tracing::warn!(%error, "cannot follow the NodeDiskPolicies; those that were known still apply");
            }
            MonitorEvent::Current | MonitorEvent::Works | MonitorEvent::Failed(_, false) => {}
        }
    }
}

impl PolicyFollower {
    fn change(&mut self, listed: ListedPolicy, change: impl FnOnce(&mut Policies, String, AppliedPolicy)) {
        let Head { name, uid, generation, .. } = listed.metadata;
        let policy = match listed.spec.0 {
            Ok(spec) => AppliedPolicy { spec, ..AppliedPolicy::default() },
            Err((fault, fields)) => AppliedPolicy::unreadable(format!("spec: {fault}"), &fields),
        };
        let policy = AppliedPolicy { uid, generation: generation.unwrap_or_default(), ..policy };
        if self.is_listing {
            return change(&mut self.listed, name, policy);
        }
        self.known.send_modify(|known| change(known.get_or_insert_default(), name, policy));
    }
}

// === impl PolicyWriter ===

impl PolicyWriter {
    async fn run(mut self, mut known: watch::Receiver<Option<Policies>>) {
        loop {
            let policies = known.borrow_and_update().clone();
            let wait = match policies {
                Some(policies) => self.apply(&policies).await,
                None => LABELS_INTERVAL,
            };
            tokio::select! {
                changed = known.changed() => if changed.is_err() {
                    return std::future::pending().await; // the monitor has ended
                },
                () = sleep(wait) => {}
            }
        }
    }

    /// Applies the policies, and returns when to do it again if they do not change.
    async fn apply(&mut self, policies: &Policies) -> Duration {
        let mut labels = BTreeMap::new();
        let selects = policies.values().any(|policy| policy.spec.node_selector.is_some());
        if selects {
            labels = match self.labels().await {
                Ok(labels) => labels,
                Err(error) => {
                    tracing::warn!(%error, "cannot apply the NodeDiskPolicies; those that were known still apply");
                    return RETRY;
                }
            };
        }
        let applied = NodePolicies::of(policies, &self.node, &labels);
        self.received.set(&applied);
        if self.written.as_ref() == Some(&applied) {
            return LABELS_INTERVAL;
        }
        for (policy, fault) in &applied.faults {
            tracing::warn!(policy, fault, "invalid NodeDiskPolicy; ignoring the field");
        }
        if self.write(applied).await.is_err() {
            return RETRY;
        }
        let applied = self.written.as_ref().map(|written| written.policies.keys().collect::<Vec<_>>());
        tracing::info!(policies = ?applied.unwrap_or_default(), "NodeDiskPolicies that apply to this node");
        LABELS_INTERVAL
    }

    async fn labels(&self) -> Result<BTreeMap<String, String>, KubernetesError> {
        let node = read_node(&self.connection, &self.node, Timing::default().answer).await?;
        Ok(node.map(|node| node.metadata.labels).unwrap_or_default())
    }

    /// Applies policies: they count at once, also if the file cannot be written.
    async fn write(&mut self, applied: NodePolicies) -> io::Result<()> {
        self.received.set(&applied);
        let text = serde_json::to_string(&applied)?;
        let file = self.file.clone();
        let written = self.calls.run(&self.file, move || replace_file(&file, &text)).await;
        let written = written.unwrap_or_else(|error| Err(io::Error::other(error)));
        match &written {
            Ok(()) => self.written = Some(applied),
            Err(error) => {
                tracing::error!(path = %self.file.display(), %error, "cannot write the policies that apply to the node");
            }
        }
        written
    }
}
