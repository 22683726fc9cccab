//! Measures the kubelet's directories of pods: their volumes on this disk, and the rest.
//!
//! The layout is `pods/UID/volumes/kubernetes.io~PLUGIN/NAME` (kubelet 1.36, `pkg/kubelet/kubelet_getters.go`). Each pod has its
//! part of the time, so that one with millions of files does not hide the others.

use std::collections::HashMap;
use std::ffi::{CStr, OsStr};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Duration;

use rustix::fs::CWD;
use tokio::time::Instant;

use super::{Walk, in_background, names, open_directory, turn};
use crate::model::{DirUsage, PodDirUsage, PodUid, VolumeUsage};

/// The directory of the volumes of a pod.
const VOLUMES: &CStr = c"volumes";
/// What the directories of volume plugins begin with.
const PLUGIN: &str = "kubernetes.io~";

/// Measures the directories of these pods beneath a directory, within a time.
///
/// # Errors
/// The directory cannot be read.
pub(in crate::observe) fn measure(pods: &Path, uids: Vec<PodUid>, time: Duration) -> io::Result<Vec<PodDirUsage>> {
    in_background(|| {
        let root = open_directory(CWD, pods)?;
        let end = Instant::now() + time;
        let all = uids.len();
        let measured =
            uids.into_iter().zip((1..=all).rev()).filter_map(|(uid, left)| pod(&root, pods, uid, turn(end, left)));
        Ok(measured.collect())
    })
}

/// Adds the volumes that images declare: `containers/ID/volumes` beneath the directory of containerd's CRI plugin (2.1,
/// `internal/cri/server/helpers.go`). `pods` has the pod of each container.
///
/// # Errors
/// The directory cannot be read.
pub(super) fn with_image_volumes(
    mut usage: Vec<PodDirUsage>,
    containers: &Path,
    pods: &HashMap<String, PodUid>,
    time: Duration,
) -> io::Result<Vec<PodDirUsage>> {
    let until = Instant::now() + time;
    let measured = in_background(|| {
        let root = open_directory(CWD, containers)?;
        let mut walk = Walk::new(containers, until)?;
        let names = names(&root).into_iter().filter_map(|name| Some((pods.get(&text(&name))?, name)));
        let of_container = |(uid, name): (&PodUid, Box<CStr>)| {
            let container = open_directory(root.as_fd(), &*name).ok()?;
            let volumes = open_directory(container.as_fd(), VOLUMES).ok()?;
            Some((uid.clone(), sizes(&mut walk, &volumes)))
        };
        Ok(names.filter_map(of_container).collect::<Vec<_>>())
    })?;
    let mut of_pods: HashMap<_, Vec<_>> = HashMap::new();
    for (uid, sizes) in measured {
        let volume = |(name, usage)| VolumeUsage { plugin: "image".to_owned(), name, of_image: true, usage };
        of_pods.entry(uid).or_default().extend(sizes.into_iter().map(volume));
    }
    for pod in &mut usage {
        pod.volumes.extend(of_pods.remove(&pod.uid).into_iter().flatten());
    }
    let others = of_pods.into_iter();
    usage.extend(others.map(|(uid, volumes)| PodDirUsage { uid, volumes, other: DirUsage::default() }));
    Ok(usage)
}

/// Measures the directory of a pod; `None` = it does not exist any more.
fn pod(root: &OwnedFd, pods: &Path, uid: PodUid, until: Instant) -> Option<PodDirUsage> {
    let directory = open_directory(root.as_fd(), uid.as_str()).ok()?;
    let mut walk = Walk::new(&pods.join(uid.as_str()), until).ok()?;
    let (mut volumes, mut other) = (Vec::new(), DirUsage::default());
    for name in names(&directory) {
        match open_directory(directory.as_fd(), &*name) {
            Ok(found) if *name == *VOLUMES => volumes = self::volumes(&mut walk, &found),
            _ => other = other.and(size(&mut walk, directory.as_fd(), &name)),
        }
    }
    Some(PodDirUsage { uid, volumes, other })
}

fn volumes(walk: &mut Walk, directory: &OwnedFd) -> Vec<VolumeUsage> {
    let mut volumes = Vec::new();
    for plugin in names(directory) {
        let Ok(found) = open_directory(directory.as_fd(), &*plugin) else { continue };
        let plugin = text(&plugin);
        let plugin = plugin.strip_prefix(PLUGIN).unwrap_or(&plugin).to_owned();
        let sizes = sizes(walk, &found).into_iter();
        volumes.extend(sizes.map(|(name, usage)| VolumeUsage { plugin: plugin.clone(), name, of_image: false, usage }));
    }
    volumes
}

/// Measures each entry of a directory.
fn sizes(walk: &mut Walk, directory: &OwnedFd) -> Vec<(String, DirUsage)> {
    let names = names(directory).into_iter();
    names.map(|name| (text(&name), size(walk, directory.as_fd(), &name))).collect()
}

fn size(walk: &mut Walk, at: BorrowedFd, name: &CStr) -> DirUsage {
    walk.measure(at, name).unwrap_or_default()
}

fn text(name: &CStr) -> String {
    OsStr::from_bytes(name.to_bytes()).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const TIME: Duration = Duration::from_mins(10);

    /// Writes a file of so many KiB beneath a directory of pods.
    fn write(root: &Path, path: &str, kib: usize) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, vec![7; kib << 10]).unwrap();
    }

    #[test]
    fn a_volume_that_an_image_declares_is_that_of_the_containers_pod() {
        let root = tempfile::tempdir().unwrap();
        for (container, kib) in [("c1", 400), ("c2", 80), ("of-no-pod", 900)] {
            write(root.path(), &format!("{container}/volumes/v/data"), kib);
        }
        write(root.path(), "c3/status", 4);
        let known = PodDirUsage { uid: "u1".into(), ..PodDirUsage::default() };
        let pods = [("c1", "u1"), ("c2", "u2"), ("c3", "u3")].map(|(id, uid)| (id.to_owned(), uid.into())).into();
        let usage = with_image_volumes(vec![known], root.path(), &pods, TIME).unwrap();
        let row = |pod: &PodDirUsage| {
            let [volume] = &*pod.volumes else { panic!("{pod:?}") };
            let kib = volume.usage.bytes >> 10;
            (pod.uid.to_string(), volume.name.clone(), volume.of_image, (kib / 10) * 10)
        };
        let expected = [("u1", 400), ("u2", 80)].map(|(uid, kib)| (uid.to_owned(), "v".to_owned(), true, kib));
        assert_eq!(usage.iter().map(row).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn volumes_have_their_plugin_and_name_and_the_rest_is_one_sum() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "u1/volumes/kubernetes.io~empty-dir/cache/big", 400);
        write(root.path(), "u1/volumes/kubernetes.io~empty-dir/cache/sub/small", 40);
        write(root.path(), "u1/containers/app/0123", 8);
        write(root.path(), "u1/etc-hosts", 4);
        write(root.path(), "u2/etc-hosts", 4);
        let uids = ["u1", "gone", "u2"].map(PodUid::from).into();
        let measured = measure(root.path(), uids, TIME).unwrap();
        assert_eq!(measured.iter().map(|pod| pod.uid.as_str()).collect::<Vec<_>>(), ["u1", "u2"]);
        let [volume] = &*measured[0].volumes else { panic!("{measured:?}") };
        assert_eq!((volume.plugin.as_str(), volume.name.as_str(), volume.usage.inodes), ("empty-dir", "cache", 4));
        let kib = |usage: DirUsage| usage.bytes >> 10;
        assert!((440..500).contains(&kib(volume.usage)) && (12..40).contains(&kib(measured[0].other)), "{measured:?}");
        assert!(!volume.usage.at_least && measured[1].volumes.is_empty());
    }

    #[test]
    fn without_time_each_pod_has_at_least_what_was_seen() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "u1/volumes/kubernetes.io~empty-dir/cache/big", 400);
        let measured = measure(root.path(), vec!["u1".into()], Duration::ZERO).unwrap();
        let usage = measured[0].volumes[0].usage;
        assert!(usage.at_least && usage.inodes == 1, "{usage:?}");
    }

    #[test]
    fn a_link_in_place_of_a_directory_is_not_followed() {
        let (root, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        write(other.path(), "volumes/kubernetes.io~empty-dir/cache/big", 400);
        std::os::unix::fs::symlink(other.path(), root.path().join("u1")).unwrap();
        fs::create_dir(root.path().join("u2")).unwrap();
        std::os::unix::fs::symlink(other.path().join("volumes"), root.path().join("u2/volumes")).unwrap();
        let measured = measure(root.path(), vec!["u1".into(), "u2".into()], TIME).unwrap();
        assert_eq!(measured.iter().map(|pod| pod.uid.as_str()).collect::<Vec<_>>(), ["u2"]);
        assert_eq!(measured[0].volumes, []);
    }
}
