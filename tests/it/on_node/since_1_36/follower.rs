//! Follows the pods of a node while a scenario runs: restart counts never fall, and the logs of previous instances are
//! readable. Each container that restarts writes its name first.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ::kubegc::cri::generated as pb;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::api::{Api, ListParams, LogParams, WatchEvent, WatchParams};
use pb::runtime_service_client::RuntimeServiceClient;
use tokio::task::JoinHandle;
use tokio_stream::StreamExt as _;
use tonic::transport::Channel;

use crate::rig::NodeRig;

/// The label with the pod uid of runtime objects.
const POD_UID: &str = "io.kubernetes.pod.uid";

/// How often all logs of previous instances are read.
const EVERY: Duration = Duration::from_millis(250);

/// How often in a row a log must be unreadable while its status is that of the runtime.
const TRIES: usize = 3;

/// Follows the pods until [`Follower::end`].
pub struct Follower {
    seen: Arc<Mutex<Seen>>,
    ends: Arc<AtomicBool>,
    counts: JoinHandle<()>,
    logs: JoinHandle<()>,
}

/// When the log of the previous instance of a container is to be readable. Not in the moment after an exit: then the newest
/// dead instance has the limit, and the one before it is removed, as by the kubelet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Readable {
    /// While the container runs or waits: a limit of 1 keeps that instance.
    WhileRunning,
    /// While the container waits to run again: that instance is the newest one then, which no limit removes.
    WhileWaiting,
}

/// Reads the logs of previous instances.
struct Reader {
    pods: Api<Pod>,
    runtime: RuntimeServiceClient<Channel>,
    readable: Readable,
}

#[derive(Default)]
struct Seen {
    /// The restart counts, by pod uid and container name.
    counts: BTreeMap<(String, String), i32>,
    faults: BTreeSet<String>,
    read: usize,
}

// === impl Follower ===

impl Follower {
    /// Starts to follow the pods of the namespace `default`.
    pub fn follow(node: &NodeRig, readable: Readable) -> Self {
        let (seen, ends) = (Arc::<Mutex<Seen>>::default(), Arc::<AtomicBool>::default());
        let counts = tokio::spawn(follow_counts(node.pods(), Arc::clone(&seen)));
        let reader = Reader { pods: node.pods(), runtime: node.runtime(), readable };
        let logs = tokio::spawn(reader.read(Arc::clone(&seen), Arc::clone(&ends)));
        Self { seen, ends, counts, logs }
    }

    /// Reads all logs once more, and stops. No restart count has fallen, and so many logs or more of previous instances were
    /// read.
    pub async fn end(mut self, at_least: usize) {
        self.ends.store(true, Ordering::Relaxed);
        (&mut self.logs).await.unwrap();
        assert!(!self.counts.is_finished(), "the pods were followed to the end");
        let seen = self.seen.lock().unwrap();
        println!("{} logs of previous instances were read; restarts: {:?}", seen.read, seen.counts.values());
        assert_eq!(seen.faults, BTreeSet::new());
        assert!(seen.read >= at_least, "{} logs of previous instances were read", seen.read);
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.counts.abort();
        self.logs.abort();
    }
}

/// Compares the restart counts of every state that the API reports, without end.
async fn follow_counts(pods: Api<Pod>, seen: Arc<Mutex<Seen>>) {
    let mut version = "0".to_owned();
    loop {
        let mut watch = pin!(pods.watch(&WatchParams::default(), &version).await.unwrap());
        while let Some(event) = watch.next().await {
            match event.unwrap() {
                WatchEvent::Added(pod) | WatchEvent::Modified(pod) | WatchEvent::Deleted(pod) => {
                    seen.lock().unwrap().compare(&pod);
                    version = pod.metadata.resource_version.unwrap_or(version);
                }
                WatchEvent::Bookmark(bookmark) => version = bookmark.metadata.resource_version,
                WatchEvent::Error(status) => panic!("the watch of pods failed: {status:?}"),
            }
        }
    }
}

// === impl Reader ===

impl Reader {
    /// Reads all logs again and again until the end.
    async fn read(mut self, seen: Arc<Mutex<Seen>>, ends: Arc<AtomicBool>) {
        loop {
            let is_last = ends.load(Ordering::Relaxed);
            for pod in self.pods.list(&ListParams::default()).await.unwrap() {
                for (container, instance) in previous(&pod, self.readable) {
                    let fault = self.unreadable(pod.metadata.name.as_deref().unwrap(), &container, &instance).await;
                    let mut seen = seen.lock().unwrap();
                    seen.read += usize::from(fault.is_none());
                    seen.faults.extend(fault);
                }
            }
            if is_last {
                return;
            }
            tokio::time::sleep(EVERY).await;
        }
    }

    /// Returns why the log of the previous instance of a container is unreadable. Right after a restart the status still
    /// has the instance before that one, which kubegc may have removed already.
    async fn unreadable(&mut self, name: &str, container: &str, instance: &str) -> Option<String> {
        let which = LogParams { container: Some(container.to_owned()), previous: true, ..LogParams::default() };
        let mut tries = 0;
        loop {
            // The kubelet may report an error in the text.
            let log = self.pods.logs(name, &which).await;
            if log.as_ref().is_ok_and(|log| log.lines().next() == Some(container)) {
                return None;
            }
            let pod = self.pods.get_opt(name).await.unwrap()?;
            if previous(&pod, self.readable).get(container).is_none_or(|now| now != instance) {
                return None;
            }
            tries += usize::from(self.is_current(&pod, container).await);
            if tries == TRIES {
                return Some(format!("the log of {name}/{container}, {instance}: {log:?}"));
            }
            tokio::time::sleep(EVERY).await;
        }
    }

    /// Says whether the status of a container is that of its newest instance in the runtime.
    async fn is_current(&mut self, pod: &Pod, container: &str) -> bool {
        let status = statuses(pod).find(|status| status.name == container).unwrap();
        let runs = status.state.as_ref().is_some_and(|state| state.running.is_some());
        let all = self.runtime.list_containers(pb::ListContainersRequest::default()).await.unwrap().into_inner();
        let uid = pod.metadata.uid.as_ref();
        let mut ours = all.containers;
        ours.retain(|it| it.labels.get(POD_UID) == uid && it.metadata.as_ref().unwrap().name == container);
        let newest = ours.iter().max_by_key(|it| it.metadata.as_ref().unwrap().attempt);
        newest.is_some_and(|newest| {
            let attempt = newest.metadata.as_ref().unwrap().attempt;
            let is_running = newest.state() == pb::ContainerState::ContainerRunning;
            i64::from(attempt) == i64::from(status.restart_count) && is_running == runs
        })
    }
}

// === impl Seen ===

impl Seen {
    fn compare(&mut self, pod: &Pod) {
        let (uid, name) = (pod.metadata.uid.as_ref().unwrap(), pod.metadata.name.as_ref().unwrap());
        for status in statuses(pod) {
            let count = self.counts.entry((uid.clone(), status.name.clone())).or_default();
            if status.restart_count < *count {
                let counts = format!("the restart count fell from {count} to {}", status.restart_count);
                self.faults.insert(format!("{name}/{}: {counts}", status.name));
            }
            *count = status.restart_count;
        }
    }
}

fn statuses(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    let lists = pod.status.iter().flat_map(|status| {
        [&status.init_container_statuses, &status.container_statuses, &status.ephemeral_container_statuses]
    });
    lists.flatten().flatten()
}

/// Returns the containers with a previous instance, and which instance that is. After `RestartAllContainers` there is none: the
/// kubelet has removed it.
fn previous(pod: &Pod, readable: Readable) -> BTreeMap<String, String> {
    let is_ending = pod.metadata.deletion_timestamp.is_some();
    let found = statuses(pod).filter(|status| {
        let state = status.state.as_ref();
        let waits = state.is_some_and(|state| state.waiting.is_some());
        let runs = state.is_some_and(|state| state.running.is_some());
        !is_ending && status.restart_count > 0 && (waits || runs && readable == Readable::WhileRunning)
    });
    let last = found.map(|status| (status, status.last_state.as_ref().and_then(|state| state.terminated.as_ref())));
    let last =
        last.filter(|(_, last)| last.is_none_or(|last| last.reason.as_deref() != Some("RestartingAllContainers")));
    let instance = |status: &ContainerStatus, id| format!("instance {} {id}", status.restart_count - 1);
    last.map(|(status, last)| {
        let id = last.and_then(|last| last.container_id.as_deref()).unwrap_or_default();
        (status.name.clone(), instance(status, id))
    })
    .collect()
}
