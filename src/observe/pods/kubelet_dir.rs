//! The kubelet's directories of pods as a pod source that must be readable.
//!
//! It lists no pods: a pod that has not started has no directory. The directories are a guard in every pass, whatever
//! the pod sources are. As a pod source they also require that this guard works.

use std::path::PathBuf;

use super::{PodSource, dirs};
use crate::host_path::{self, BoundedCalls, Resolved};
use crate::model::{Container, PodList, PodSourceReport, Sandbox, Seen};
use crate::observe::{Answer, ObserveError};

/// The kubelet's directories of pods.
pub struct KubeletDirPods {
    host_root: PathBuf,
    directory: PathBuf,
    others: OtherSources,
    calls: BoundedCalls,
}

/// The pod sources besides this one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum OtherSources {
    /// There is none, so no list is complete.
    None,
    /// There are sources that list pods.
    Some,
}

// === impl KubeletDirPods ===

impl KubeletDirPods {
    /// Creates a source over the directory `pods` of the kubelet's root, which is a path of the host.
    pub fn new(host_root: impl Into<PathBuf>, kubelet_root: impl Into<PathBuf>, others: OtherSources) -> Self {
        let directory = kubelet_root.into().join("pods");
        Self { host_root: host_root.into(), directory, others, calls: BoundedCalls::default() }
    }

    /// Returns the number of directories.
    async fn count(&self) -> Result<usize, ObserveError> {
        let (root, path) = (self.host_root.clone(), self.directory.clone());
        let look = move || match host_path::resolve(&root, &path) {
            Ok(Resolved::Exists(at)) => Ok(dirs::uids(&at)?.len()),
            Ok(Resolved::Missing(_)) => Err(ObserveError::List { path, source: std::io::ErrorKind::NotFound.into() }),
            Err(source) => Err(ObserveError::List { path, source }),
        };
        self.calls.run(&self.directory, look).await?
    }

    fn listed(&self, count: usize) -> PodList {
        let missing = match self.others {
            OtherSources::None => Some("a directory proves presence, never absence".to_owned()),
            OtherSources::Some => None,
        };
        let complete = missing.is_none();
        let name = self.name().to_owned();
        let report = PodSourceReport { name: name.clone(), pods: count as u64, missing, ..PodSourceReport::default() };
        PodList { source: name, complete, sources: vec![report], ..PodList::default() }
    }
}

impl PodSource for KubeletDirPods {
    fn name(&self) -> &'static str {
        "kubelet-dir"
    }

    fn list<'a>(&'a self, _: &'a Seen<Vec<Container>>, _: &'a Seen<Vec<Sandbox>>) -> Answer<'a, Seen<PodList>> {
        Box::pin(async { Seen::from(self.count().await).map(|count| self.listed(count)) })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    async fn ask(source: &KubeletDirPods) -> Seen<PodList> {
        let (containers, sandboxes) = (Seen::Seen(Vec::new()), Seen::Seen(Vec::new()));
        source.list(&containers, &sandboxes).await
    }

    #[tokio::test]
    async fn directories_vouch_beside_others_and_never_alone() {
        let host = tempfile::tempdir().unwrap();
        fs::create_dir_all(host.path().join("kubelet/pods/u1")).unwrap();
        for (beside, complete) in [(OtherSources::Some, true), (OtherSources::None, false)] {
            let list = ask(&KubeletDirPods::new(host.path(), "/kubelet", beside)).await;
            let list = list.as_ref().unwrap();
            assert_eq!((list.complete, list.pods.len(), list.sources[0].pods), (complete, 0, 1), "{beside:?}");
            assert_eq!(list.sources[0].missing.is_none(), complete);
        }
    }

    #[tokio::test]
    async fn a_directory_that_is_not_there_or_not_one_is_not_seen() {
        let host = tempfile::tempdir().unwrap();
        let source = KubeletDirPods::new(host.path(), "/kubelet", OtherSources::Some);
        assert_eq!(ask(&source).await.cause(), Some("cannot list /kubelet/pods: entity not found"));
        fs::create_dir(host.path().join("kubelet")).unwrap();
        fs::write(host.path().join("kubelet/pods"), "").unwrap();
        assert!(ask(&source).await.cause().is_some());
    }
}
