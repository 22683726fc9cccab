//! Which pods should be here, and what the kubelet's directories tell of them.

mod auto;
mod combined;
mod dirs;
mod kube_api;
mod kubelet;
mod kubelet_dir;
mod machine;

pub use auto::AutoPodSource;
pub use combined::{CombinedPods, SourceEntry};
pub use dirs::PodDirs;
pub use kube_api::KubeApi;
pub use kubelet::KubeletSource;
pub use kubelet_dir::{KubeletDirPods, OtherSources};

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::{Answer, ObserveError, logs};
use crate::model::{Container, Phase, Pod, PodList, PodRef, PodUid, Sandbox, Seen, running_pods};

/// Who says which pods should be on this node.
pub trait PodSource: Send + Sync {
    /// Its name in documents, as `kube-api`.
    fn name(&self) -> &str;

    /// Lists the pods; asked after the runtime was listed, whose lists are given for the sources that need them. Complete
    /// only if no pod can be missing (I2).
    fn list<'a>(
        &'a self,
        containers: &'a Seen<Vec<Container>>,
        sandboxes: &'a Seen<Vec<Sandbox>>,
    ) -> Answer<'a, Seen<PodList>>;

    /// Asks anew, past every cache, whether a pod still exists; for the moment right before the first removal of what
    /// belongs to a pod that counts as gone (I11). A source that cannot ask has nothing against it.
    fn still_exists<'a>(&'a self, pod: &'a PodRef) -> Answer<'a, Seen<bool>> {
        let _ = pod;
        Box::pin(async { Seen::Seen(false) })
    }

    /// Says whether its pods are a kubelet's: then a running pod has a directory of the kubelet (I11).
    fn has_kubelet(&self) -> bool {
        true
    }

    /// The pods that it knows of by now, told from memory; for the moment right before an image goes, which a pod may name
    /// since the list was made (I6). A source that would have to ask for them tells none.
    fn cached_pods(&self) -> Answer<'_, Vec<Pod>> {
        Box::pin(async { Vec::new() })
    }
}

/// Nobody: no pod is ever gone.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoPods;

/// The runtime itself, for hosts without a kubelet: a pod is here while something of it runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct RuntimePods;

/// The kubelet's record of a pull in progress (`ImagePullIntent`).
#[derive(serde::Deserialize)]
struct PullIntent {
    image: String,
}

/// Far above any record, far below what would hurt.
const LARGEST_RECORD_BYTES: u64 = 1 << 20;

// === impl NoPods ===

impl PodSource for NoPods {
    fn name(&self) -> &'static str {
        "none"
    }

    /// No pod counts as deleted, so the directories decide nothing.
    fn has_kubelet(&self) -> bool {
        false
    }

    fn list<'a>(&'a self, _: &'a Seen<Vec<Container>>, _: &'a Seen<Vec<Sandbox>>) -> Answer<'a, Seen<PodList>> {
        Box::pin(async { Seen::NotSeen("pods.source is none".to_owned()) })
    }
}

// === impl RuntimePods ===

impl PodSource for RuntimePods {
    fn name(&self) -> &'static str {
        "runtime"
    }

    fn has_kubelet(&self) -> bool {
        false
    }

    fn list<'a>(
        &'a self,
        containers: &'a Seen<Vec<Container>>,
        sandboxes: &'a Seen<Vec<Sandbox>>,
    ) -> Answer<'a, Seen<PodList>> {
        Box::pin(async move {
            match (containers, sandboxes) {
                (Seen::NotSeen(cause), _) | (_, Seen::NotSeen(cause)) => Seen::NotSeen(cause.clone()),
                (Seen::Seen(containers), Seen::Seen(sandboxes)) => Seen::Seen(self.alive(containers, sandboxes)),
            }
        })
    }
}

impl RuntimePods {
    /// The pods with a RUNNING container or a READY sandbox.
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

/// The pods that run, as far as the lists show.
fn running_uids<'a>(containers: &'a Seen<Vec<Container>>, sandboxes: &'a Seen<Vec<Sandbox>>) -> HashSet<&'a PodUid> {
    let containers = containers.as_ref().map_or(&[][..], Vec::as_slice);
    let sandboxes = sandboxes.as_ref().map_or(&[][..], Vec::as_slice);
    running_pods(containers, sandboxes).map(|pod| &pod.uid).collect()
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

/// The images that the kubelet is pulling, by the names in its records.
///
/// A record that cannot be read stands for an image that is being pulled, and nobody knows which: then all pulls are
/// unknown, and no image goes. Not so what is no record: the kubelet writes `sha256-…` by way of `….tmp`, before the pull
/// begins, and reads nothing else there. A record that is gone by the time it is opened belongs to a pull that ended.
pub fn pulls(directory: &Path) -> Result<Vec<String>, ObserveError> {
    let mut images = Vec::new();
    for (name, entry) in logs::entries(directory)? {
        if !name.starts_with("sha256-") || name.strip_suffix(".tmp").is_some() {
            continue;
        }
        images.extend(pull(&entry.path())?);
    }
    images.sort();
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
