//! The kubelet's directory of a pod that is missing: its size, and what keeps it from being removed.
//!
//! An `rm -rf` of such a directory has wiped a volume (kubernetes#60987). So nothing may be mounted beneath it, and it may have only what
//! the kubelet creates, with volumes that are plain directories. The plan and the recheck use the same code.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use procfs::FromRead as _;
use procfs::process::MountInfos;

use crate::host_path::HostFs;
use crate::model::{Leftover, LeftoverKind, PathUsage, PodDirUsage, PodRef, PodUid};
use crate::observe::walk::pod_usage;
use crate::observe::{Observer, OpenDir};

/// How long the directories are measured in a pass. One with 300,000 files takes 0.4 s.
const TIME: Duration = Duration::from_millis(500);
/// What the kubelet creates in the directory of a pod (1.36, `kubelet_getters.go` and `userns_manager.go`). Block devices are missing:
/// they are in use by what the kubelet maps.
const OF_POD: [&str; 6] = ["containers", "etc-hosts", "plugins", "userns", "volumes", "volume-subpaths"];
/// The plugins whose volumes are plain directories on the disk of the kubelet.
const PLAIN_VOLUMES: [&str; 5] = ["configmap", "downward-api", "empty-dir", "projected", "secret"];
/// What their directories begin with.
const PLUGIN: &str = "kubernetes.io~";
/// The mounts of this process, and of the first process of the host.
const MOUNTS: [&str; 2] = ["/proc/thread-self/mountinfo", "/proc/1/mountinfo"];

/// What keeps the directory of a pod from being removed.
#[derive(Debug)]
pub struct Obstacle {
    /// Where it is.
    pub at: PathBuf,
    /// What it is.
    pub what: &'static str,
}

// === impl Observer ===

impl Observer {
    /// Looks at the directories of these pods. One that does not exist any more is left out, and what cannot be read is not known.
    pub(super) async fn pod_directories(&self, uids: Vec<PodUid>) -> Vec<Leftover> {
        let shown = self.places.kubelet_root.join("pods");
        let unread: Vec<_> = uids.iter().map(|uid| leftover(&shown, uid)).collect();
        if unread.is_empty() {
            return unread;
        }
        let look = {
            let shown = shown.clone();
            move |host: &HostFs, at: &Path| {
                let (measured, mounts) = (pod_usage::measure(at, uids, TIME)?, mount_points(host).unwrap_or_default());
                Ok(measured.iter().map(|dir| measured_leftover((host, &mounts), at, &shown, dir)).collect())
            }
        };
        let found = self.measure(shown, TIME, look).await;
        found.as_ref().map_or(unread, |found| found.clone().unwrap_or_default())
    }
}

fn leftover(pods: &Path, uid: &PodUid) -> Leftover {
    let path = pods.join(uid.as_str()).display().to_string();
    let at = PathUsage { path, is_kubelets: true, ..PathUsage::default() };
    let pod = Some(PodRef { uid: uid.clone(), ..PodRef::default() });
    Leftover { kind: LeftoverKind::PodDirectory, at, pod, image: None, modified_at: None, obstacle: None }
}

fn measured_leftover((host, mounts): (&HostFs, &[PathBuf]), pods: &Path, shown: &Path, dir: &PodDirUsage) -> Leftover {
    let mut leftover = leftover(shown, &dir.uid);
    leftover.at.usage = dir.on_kubelet_disk();
    let open = OpenDir::open(pods).and_then(|pods| pods.enter(dir.uid.as_str())).map_err(io::Error::from);
    let obstacle = open.and_then(|open| obstacle(host, mounts, &open));
    leftover.obstacle = obstacle.ok().flatten().map(|found| format!("{}: {}", found.at.display(), found.what));
    leftover
}

/// Returns what keeps the open directory of a pod from being removed; `None` = nothing.
///
/// # Errors
/// The directory cannot be read.
pub fn obstacle(host: &HostFs, mounts: &[PathBuf], pod: &OpenDir) -> io::Result<Option<Obstacle>> {
    let found = |at: PathBuf, what| Ok(Some(Obstacle { at, what }));
    if !host.is_agents() {
        return found(pod.path().to_owned(), "an agent in a container does not see the mounts of the host");
    }
    if let Some(mount) = mounts.iter().find(|mount| mount.starts_with(pod.path())) {
        return found(mount.clone(), "something is mounted there");
    }
    if let Some(name) = pod.names(1, |name| !OF_POD.iter().any(|known| name == *known))?.first() {
        return found(pod.path_of(name), "the kubelet does not create it");
    }
    let Some(volumes) = pod.find(Path::new("volumes"))? else { return Ok(None) };
    match volumes.names(1, |name| !is_plain(name))?.first() {
        Some(name) => found(volumes.path_of(name), "its volumes may be more than plain directories"),
        None => Ok(None),
    }
}

fn is_plain(plugin: &OsStr) -> bool {
    let name = plugin.to_str().and_then(|plugin| plugin.strip_prefix(PLUGIN));
    name.is_some_and(|name| PLAIN_VOLUMES.contains(&name))
}

/// Returns the mount points of the host; none if not all of it is seen.
///
/// # Errors
/// They cannot be read.
pub fn mount_points(host: &HostFs) -> io::Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for file in MOUNTS.into_iter().filter(|_| host.is_agents()) {
        let mounts = MountInfos::from_file(file).map_err(|error| io::Error::other(format!("{file}: {error}")))?;
        all.extend(mounts.0.into_iter().map(|mount| mount.mount_point));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Writes files of 4 KiB beneath the directory of a pod, and looks at it.
    fn looked_at(host: &HostFs, files: &[&str]) -> Leftover {
        let pods = tempfile::tempdir().unwrap();
        for file in files {
            let file = pods.path().join("u1").join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, [7; 4096]).unwrap();
        }
        let measured = pod_usage::measure(pods.path(), vec!["u1".into(), "u2".into()], TIME).unwrap();
        let [dir] = &measured[..] else { panic!("u2 does not exist: {measured:?}") };
        let mounts = mount_points(host).unwrap();
        measured_leftover((host, &mounts), pods.path(), Path::new("/kubelet/pods"), dir)
    }

    #[test]
    fn the_directory_of_a_missing_pod_has_its_size_and_what_keeps_it() {
        let host = HostFs::default();
        let plain = ["etc-hosts", "volumes/kubernetes.io~empty-dir/cache/a", "volumes/kubernetes.io~secret/token/b"];
        let found = looked_at(&host, &plain);
        assert_eq!((found.at.path.as_str(), found.obstacle), ("/kubelet/pods/u1", None));
        assert!((12 << 10..64 << 10).contains(&found.at.usage.bytes), "{:?}", found.at);
        for (more, what) in [
            ("volumes/kubernetes.io~csi/disk/vol_data.json", "its volumes may be more than plain directories"),
            ("volumes/other/disk/data", "its volumes may be more than plain directories"),
            ("volumeDevices/kubernetes.io~csi/disk", "the kubelet does not create it"),
            ("data", "the kubelet does not create it"),
        ] {
            let found = looked_at(&host, &[&plain[..], &[more]].concat());
            assert!(found.obstacle.as_deref().is_some_and(|obstacle| obstacle.ends_with(what)), "{more}: {found:?}");
        }
        let in_container = looked_at(&HostFs::new("/host"), &plain).obstacle.unwrap();
        assert!(in_container.ends_with("does not see the mounts of the host"), "{in_container}");
    }
}
