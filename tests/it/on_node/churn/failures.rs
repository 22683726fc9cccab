//! Failures that pods report: in their statuses, as they change, and in the events about them.
//!
//! The text of a failure has no names, IDs and numbers, so that failures of two nodes can be compared. Behavior of the
//! shape itself, such as exiting with an error, is no failure.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::{Arc, Mutex};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ContainerStatus, Event, Pod};
use kube::api::{Api, ListParams, WatchEvent, WatchParams};
use tokio::task::JoinHandle;
use tokio_stream::StreamExt as _;

/// Watches the pods of a node until [`Failures::end`].
pub struct Failures {
    pods: Api<Pod>,
    events: Api<Event>,
    seen: Arc<Mutex<Seen>>,
    task: JoinHandle<()>,
}

/// One example for each kind.
pub type Found = BTreeMap<String, String>;

#[derive(Default)]
struct Seen {
    found: Found,
    /// The containers that ran, by pod uid and container name.
    ran: BTreeMap<(String, String), BTreeSet<String>>,
    pods: BTreeSet<String>,
    /// When the deletion of a pod was requested, by uid.
    ending: BTreeMap<String, Timestamp>,
}

// === impl Failures ===

impl Failures {
    /// Starts to watch.
    pub fn follow(pods: Api<Pod>, events: Api<Event>) -> Self {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let task = tokio::spawn(follow(pods.clone(), Arc::clone(&seen)));
        Self { pods, events, seen, task }
    }

    /// Stops, and returns all failures and the number of pods.
    pub async fn end(self) -> (Found, usize) {
        assert!(!self.task.is_finished(), "the pods were followed to the end");
        self.task.abort();
        for pod in self.pods.list(&ListParams::default()).await.unwrap() {
            self.seen.lock().unwrap().pod(&pod);
        }
        let events = self.events.list(&ListParams::default()).await.unwrap();
        let mut seen = self.seen.lock().unwrap();
        for event in events.items.iter().filter(|event| event.type_.as_deref() == Some("Warning")) {
            seen.event(event);
        }
        (std::mem::take(&mut seen.found), seen.pods.len())
    }
}

/// Records every state that the API reports, without end.
async fn follow(pods: Api<Pod>, seen: Arc<Mutex<Seen>>) {
    let mut version = "0".to_owned();
    loop {
        let watch = pods.watch(&WatchParams::default(), &version).await.unwrap();
        let mut watch = pin!(watch);
        while let Some(event) = watch.next().await {
            let event = event.unwrap();
            if let WatchEvent::Deleted(pod) = &event {
                seen.lock().unwrap().ends(pod);
            }
            match event {
                WatchEvent::Added(pod) | WatchEvent::Modified(pod) | WatchEvent::Deleted(pod) => {
                    seen.lock().unwrap().pod(&pod);
                    version = pod.metadata.resource_version.unwrap_or(version);
                }
                WatchEvent::Bookmark(bookmark) => version = bookmark.metadata.resource_version,
                WatchEvent::Error(status) => panic!("the watch of pods failed: {status:?}"),
            }
        }
    }
}

// === impl Seen ===

impl Seen {
    fn pod(&mut self, pod: &Pod) {
        if pod.metadata.deletion_timestamp.is_some() {
            self.ends(pod);
        }
        let Some(status) = &pod.status else { return };
        let uid = uid(pod);
        self.pods.insert(uid.clone());
        let shape = shape(pod);
        if let Some(reason) = &status.reason {
            self.found(format!("{shape}: {reason}"), pod, status.message.as_deref());
        }
        for container in status.container_statuses.iter().chain(&status.init_container_statuses).flatten() {
            self.container(pod, &uid, container);
        }
    }

    fn ends(&mut self, pod: &Pod) {
        self.ending.entry(uid(pod)).or_insert_with(Timestamp::now);
    }

    fn container(&mut self, pod: &Pod, uid: &str, status: &ContainerStatus) {
        let (shape, name) = (shape(pod), &status.name);
        let crashes = is_crashing(pod, name);
        let state = status.state.clone().unwrap_or_default();
        let is_ending = pod.metadata.deletion_timestamp.is_some();
        if let Some(waiting) = state.waiting.as_ref().filter(|_| !is_ending) {
            let reason = waiting.reason.as_deref().unwrap_or_default();
            let is_usual = matches!(reason, "" | "ContainerCreating" | "PodInitializing");
            if !(is_usual || crashes && reason == "CrashLoopBackOff") {
                self.found(format!("{shape}/{name} waits: {reason}"), pod, waiting.message.as_deref());
            }
        }
        if let Some(ended) = state.terminated.as_ref().filter(|_| !is_ending) {
            let reason = ended.reason.as_deref().unwrap_or_default();
            let (is_to_fail, is_to_run) = (crashes || shape == "Fails", name == "app" && !crashes);
            if is_to_run || reason != if is_to_fail { "Error" } else { "Completed" } {
                let what = format!("{shape}/{name} ended: {reason} {}", ended.exit_code);
                self.found(what, pod, ended.message.as_deref());
            }
        }
        let id = status.container_id.clone().filter(|id| !id.is_empty());
        let ran = self.ran.entry((uid.to_owned(), name.clone())).or_default();
        ran.extend(id);
        if !crashes && (ran.len() > 1 || status.restart_count > 0) {
            self.found(format!("{shape}/{name} ran again"), pod, None);
        }
    }

    fn event(&mut self, event: &Event) {
        let (reason, message) =
            (event.reason.as_deref().unwrap_or_default(), event.message.as_deref().unwrap_or_default());
        if event.involved_object.kind.as_deref() != Some("Pod") || reason == "BackOff" {
            return; // a back-off is checked in the status
        }
        if is_of_starting(reason) && self.was_ending(event) {
            return;
        }
        let pod = event.involved_object.name.clone().unwrap_or_default();
        self.found.entry(format!("event {reason}: {}", plain(message))).or_insert_with(|| format!("{pod}: {message}"));
    }

    /// Says whether the deletion of the pod was requested before the event.
    fn was_ending(&self, event: &Event) -> bool {
        let asked = event.involved_object.uid.as_ref().and_then(|uid| self.ending.get(uid));
        // Events have a resolution of one second.
        let shown = event.last_timestamp.as_ref().map(|at| at.0 + SignedDuration::from_secs(1));
        asked.zip(shown).is_some_and(|(asked, shown)| shown >= *asked)
    }

    fn found(&mut self, what: String, pod: &Pod, message: Option<&str>) {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        self.found.entry(what).or_insert_with(|| format!("{name}: {}", message.unwrap_or_default()));
    }
}

/// Says whether an event is normal for a pod that is deleted while it starts: the sandbox of a container is removed
/// before the container runs, or a hook runs in a container that has already exited. The text of such an event varies.
fn is_of_starting(reason: &str) -> bool {
    matches!(reason, "Failed" | "FailedPreStopHook" | "FailedCreatePodSandBox" | "FailedMount")
}

fn uid(pod: &Pod) -> String {
    pod.metadata.uid.clone().unwrap_or_default()
}

fn shape(pod: &Pod) -> String {
    pod.metadata.labels.as_ref().and_then(|labels| labels.get("shape")).cloned().unwrap_or_default()
}

fn is_crashing(pod: &Pod, container: &str) -> bool {
    container == "app" && shape(pod).ends_with("Crashes")
}

/// Removes from a message what differs between pods: words with digits, and long words.
fn plain(message: &str) -> String {
    let same = message.split_whitespace().map(|word| {
        let differs = word.len() > 30 || word.chars().any(|letter| letter.is_ascii_digit());
        if differs { "…" } else { word }
    });
    same.collect::<Vec<_>>().join(" ").chars().take(120).collect()
}
