//! The pod sources, and the kubelet's directories of pods.
//!
//! The pods of the last complete list protect their images until there is another complete list. With `pods.source =
//! none` there will be none, so nothing is remembered.
//!
//! [`PodList::confirms`](crate::model::PodList) says what a live lookup needs: the uid, or namespace and name. `plan`
//! is pure and cannot query the source.

mod combined;
mod dirs;
mod kube_api;
mod kubelet;
mod select;

pub use combined::{CombinedPods, SourceEntry};
pub use dirs::PodDirs;
pub use kube_api::KubeApi;
pub use kubelet::KubeletSource;
pub use select::PodSourceOptions;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use async_trait::async_trait;
use jiff::Timestamp;

use super::{ObserveError, log_files as logs};
use crate::model::{Container, Phase, Pod, PodList, PodRef, PodUid, Sandbox, Seen, Workload, running_pods};

/// A source of the pods that should be on this node.
#[async_trait]
pub trait PodSource: Send + Sync {
    /// Returns its name in documents, such as `kube-api`.
    fn name(&self) -> &str;

    /// Lists the pods. It runs after the runtime was listed, and gets those lists for the sources that need them. The
    /// result is complete only if no pod can be missing (I2).
    async fn list(&self, containers: &Seen<Vec<Container>>, sandboxes: &Seen<Vec<Sandbox>>) -> Seen<PodList>;

    /// Looks up live, past every cache, whether a pod still exists. It runs right before the first removal of an object
    /// whose pod counts as deleted (I11). A source without a lookup does not object.
    async fn still_exists(&self, pod: &PodRef) -> Seen<bool> {
        let _ = pod;
        Seen::Seen(false)
    }

    /// Returns whether its pods come from a kubelet. Then each running pod has a directory of the kubelet (I11).
    fn has_kubelet(&self) -> bool {
        true
    }

    /// Lists the workloads of the cluster, for the images in their templates.
    async fn workloads(&self) -> Seen<Vec<Workload>> {
        Seen::NotSeen(format!("the pod source {} has no workloads", self.name()))
    }

    /// Returns the pods that the source has in memory. It runs right before an image is removed, because a pod may have
    /// named that image since the list was made (I6). A source that needs a request for them returns none.
    async fn cached_pods(&self) -> Vec<Pod> {
        Vec::new()
    }
}

/// No pod source: no pod ever counts as deleted.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoPods;

/// The runtime itself, for hosts without a kubelet: a pod exists while its sandbox or one of its containers runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct RuntimePods;

/// The kubelet's record of a pull in progress (`ImagePullIntent`).
#[derive(serde::Deserialize)]
struct PullIntent {
    image: String,
}

/// Far larger than any record, and small enough for memory.
pub(super) const LARGEST_RECORD_BYTES: u64 = 1 << 20;

// === impl NoPods ===

#[async_trait]
impl PodSource for NoPods {
    fn name(&self) -> &'static str {
        "none"
    }

    /// No pod counts as deleted, so the directories decide nothing.
    fn has_kubelet(&self) -> bool {
        false
    }

    async fn list(&self, _: &Seen<Vec<Container>>, _: &Seen<Vec<Sandbox>>) -> Seen<PodList> {
        Seen::NotSeen("pods.source is none".to_owned())
    }
}

// === impl RuntimePods ===

#[async_trait]
impl PodSource for RuntimePods {
    fn name(&self) -> &'static str {
        "runtime"
    }

    fn has_kubelet(&self) -> bool {
        false
    }

    async fn list(&self, containers: &Seen<Vec<Container>>, sandboxes: &Seen<Vec<Sandbox>>) -> Seen<PodList> {
        let both = containers.result().and_then(|containers| Ok((containers, sandboxes.result()?)));
        both.map(|(containers, sandboxes)| self.alive(containers, sandboxes)).into()
    }
}

impl RuntimePods {
    /// Returns the pods with a RUNNING container or a READY sandbox.
    fn alive(self, containers: &[Container], sandboxes: &[Sandbox]) -> PodList {
        let running = running_pods(containers, sandboxes).filter(|pod| !pod.uid.is_empty());
        let by_uid: BTreeMap<&PodUid, &PodRef> = running.map(|pod| (&pod.uid, pod)).collect();
        PodList {
            source: self.name().to_owned(),
            complete: true,
            pods: by_uid.into_values().map(pod).collect(),
            ..PodList::default()
        }
    }
}

/// Returns the pods that run according to the lists, of those that are available.
fn known_running<'a>(
    containers: &'a Seen<Vec<Container>>,
    sandboxes: &'a Seen<Vec<Sandbox>>,
) -> impl Iterator<Item = &'a PodRef> {
    let containers = containers.as_ref().map_or(&[][..], Vec::as_slice);
    let sandboxes = sandboxes.as_ref().map_or(&[][..], Vec::as_slice);
    running_pods(containers, sandboxes)
}

fn pod(of: &PodRef) -> Pod {
    Pod {
        uid: of.uid.clone(),
        namespace: of.namespace.clone(),
        name: of.name.clone(),
        phase: Phase::Running,
        ..Pod::default()
    }
}

/// Returns the images that the kubelet is pulling, by the names in its records, and since when: it writes a record once, before
/// the pull.
///
/// A record that cannot be read stands for an unknown image that is being pulled. Then all pulls are unknown, and no
/// image is removed. Files that are not records are ignored: the kubelet writes `sha256-…` by way of `….tmp` before the
/// pull begins, and reads nothing else there. A record that no longer exists when it is opened belongs to a pull that
/// ended.
pub fn pulls(directory: &Path) -> Result<BTreeMap<String, Option<Timestamp>>, ObserveError> {
    let mut images = BTreeMap::new();
    for (name, entry) in logs::entries(directory)? {
        if !name.starts_with("sha256-") || name.strip_suffix(".tmp").is_some() {
            continue;
        }
        let since = entry.metadata().and_then(|record| record.modified()).ok();
        images.extend(pull(&entry.path())?.map(|image| (image, since.and_then(|at| at.try_into().ok()))));
    }
    Ok(images)
}

fn pull(path: &Path) -> Result<Option<String>, ObserveError> {
    let unreadable = |cause: String| ObserveError::ReadPull { path: path.to_owned(), cause };
    let mut text = Vec::new();
    match File::open(path).and_then(|file| file.take(LARGEST_RECORD_BYTES).read_to_end(&mut text)) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(error.to_string())),
    }
    let intent: PullIntent = serde_json::from_slice(&text).map_err(|error| unreadable(error.to_string()))?;
    if intent.image.is_empty() {
        return Err(unreadable("it names none".to_owned()));
    }
    Ok(Some(intent.image))
}

#[cfg(test)]
mod tests;
