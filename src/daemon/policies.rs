//! Follows the NodeDiskPolicies of the cluster, and writes those that apply to this node beside the store.
//!
//! The service applies them from memory. Commands read that file, as they read the file of a pause, and so does the service after a restart:
//! a policy counts without a restart, for commands on the node too, and while the API server cannot be reached. There is one watch, of the policies. The labels of the node are read if a policy selects by labels, and which
//! nodes have an image if only `keepLastCopy` keeps that.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize as _;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep_until};

use super::clock::now;
pub use super::cycle::pauses::ReceivedPolicies;
use super::cycle::pauses::replace_file;
use super::node::credential_candidates;
use crate::config::Settings;
use crate::fleet::{
    AppliedPolicy, FleetPart, KnownCopies, NodeDiskPolicySpec, NodePolicies, copy_label, is_kept_before,
};
use crate::host_path::BoundedCalls;
use crate::kubernetes::{
    ApiResource, Connection, FleetObject, Follower, KubernetesError, LabeledObject, Monitor, MonitorEvent, Timing,
    labeled_node_disks, read_object,
};
use crate::model::ImageId;

/// How often the labels of the node are read while a policy selects by labels.
const LABELS_INTERVAL: Duration = Duration::from_mins(5);
/// How long a watch lasts. A connection that broke without notice is found after it.
const WATCH: Duration = Duration::from_mins(2);
/// How often the agent asks for last copies, if an image waits for the answer.
const COPIES_INTERVAL: Duration = Duration::from_secs(10);
/// The same after a question without an answer.
const COPIES_RETRY: Duration = Duration::from_mins(1);
/// The wait before another attempt to read the labels or to write the file.
const RETRY: Duration = Duration::from_secs(5);

type Policies = BTreeMap<String, AppliedPolicy>;
type ListedPolicy = FleetObject<NodeDiskPolicySpec>;

/// Takes the policies as the API server shows them. Before the first complete list nothing is known, and the file stays.
struct PolicyFollower {
    listed: Policies,
    is_listing: bool,
    known: watch::Sender<Option<Policies>>,
    is_failing: bool,
}

/// What applies the policies to one node.
struct PolicyWriter {
    connection: Arc<Connection>,
    node: String,
    file: PathBuf,
    calls: BoundedCalls,
    written: Option<NodePolicies>,
    received: ReceivedPolicies,
    /// Whether the last question about copies had no answer.
    is_failing: bool,
}

/// Follows the policies until the future is dropped, if the settings say so. `waiting` are the images that would be removed if another node
/// kept them.
pub async fn follow(settings: &Settings, received: &ReceivedPolicies, waiting: impl Fn() -> Vec<ImageId>) {
    if !settings.fleet.contains(&FleetPart::Policies) {
        return;
    }
    let connection = Arc::new(Connection::new(credential_candidates(settings)));
    let (sender, known) = watch::channel(None);
    let follower = PolicyFollower { listed: Policies::new(), is_listing: false, known: sender, is_failing: false };
    let lists = Arc::new(Semaphore::new(1));
    let policies = ApiResource::node_disk_policies();
    let timing = Timing { watch: WATCH, ..Timing::default() };
    let monitor = Monitor::new(Arc::clone(&connection), &policies, timing, lists);
    let (node, file) = (settings.node.clone(), settings.state.policies_file());
    let (calls, received) = (BoundedCalls::default(), received.clone());
    let writer = PolicyWriter { connection, node, file, calls, written: None, received, is_failing: false };
    tokio::join!(monitor.run(follower), writer.run(known, waiting));
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
            MonitorEvent::Current => {}
            MonitorEvent::Works => self.is_failing = false,
            MonitorEvent::Failed(error) => self.failed(error),
        }
    }
}

impl PolicyFollower {
    fn change(&mut self, listed: ListedPolicy, change: impl FnOnce(&mut Policies, String, AppliedPolicy)) {
        let FleetObject { name, uid, generation, part, .. } = listed;
        let policy = match part {
            Ok(spec) => AppliedPolicy { spec, ..AppliedPolicy::default() },
            Err((fault, fields)) => AppliedPolicy::unreadable(fault, &fields),
        };
        let policy = AppliedPolicy { uid, generation, ..policy };
        if self.is_listing {
            return change(&mut self.listed, name, policy);
        }
        self.known.send_modify(|known| change(known.get_or_insert_default(), name, policy));
    }

    fn failed(&mut self, error: &KubernetesError) {
        if !std::mem::replace(&mut self.is_failing, true) {
            tracing::warn!(%error, "cannot follow the NodeDiskPolicies; those that were known still apply");
        }
    }
}

// === impl PolicyWriter ===

impl PolicyWriter {
    async fn run(mut self, mut known: watch::Receiver<Option<Policies>>, waiting: impl Fn() -> Vec<ImageId>) {
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
                () = self.look_for_copies(&waiting, wait) => {}
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
        let mut applied = NodePolicies::of(policies, &self.node, &labels);
        applied.copies = self.written.as_ref().map(|written| written.copies.clone()).unwrap_or_default();
        self.received.set(&applied);
        if self.written.as_ref().is_some_and(|written| written.has_same_policies(&applied)) {
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
        let nodes = ApiResource::nodes();
        let node = read_object(&self.connection, &nodes, "", &self.node, Timing::default().answer).await?;
        Ok(node.and_then(|node| LabeledObject::deserialize(node).ok()).unwrap_or_default().labels)
    }

    /// Asks for so long which other nodes keep the images that wait for it. A policy that changes meanwhile does not wait for an answer.
    async fn look_for_copies(&mut self, waiting: impl Fn() -> Vec<ImageId>, lasts: Duration) {
        let end = Instant::now() + lasts;
        loop {
            let interval = if self.is_failing { COPIES_RETRY } else { COPIES_INTERVAL };
            sleep_until(end.min(Instant::now() + interval)).await;
            if Instant::now() >= end {
                return;
            }
            let Some(mut applied) = self.written.clone().filter(|written| written.last_copies().is_some()) else {
                continue;
            };
            let asked = self.ask(&mut applied.copies, &waiting()).await;
            let was_failing = std::mem::replace(&mut self.is_failing, asked.is_err());
            if let Err(error) = asked.map_err(|error| error.to_string())
                && !was_failing
            {
                tracing::warn!(error, "it is not known which other nodes keep an image; this node keeps it");
            }
            if self.written.as_ref() != Some(&applied) {
                // If it fails, the images stay, and the next answer is written.
                let _ = self.write(applied).await;
            }
        }
    }

    async fn ask(&self, copies: &mut KnownCopies, waiting: &[ImageId]) -> Result<(), KubernetesError> {
        copies.limit_to(waiting);
        for image in copies.due(waiting, now()) {
            let holders = match copy_label(&image) {
                Some(label) => labeled_node_disks(&self.connection, &label, Timing::default().answer).await?,
                None => Vec::new(),
            };
            let shown = holders.iter().filter_map(|holder| Some((holder.name.as_str(), holder.part.as_ref().ok()?)));
            copies.note(image, is_kept_before(&self.node, shown, now()), now());
        }
        Ok(())
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
