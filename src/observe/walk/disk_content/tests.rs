use std::fs;
use std::io::Write as _;

use nix::mount::{MsFlags, mount};

use super::*;
use crate::model::DirUsage;
use crate::testing::frozen_disk::apart;

/// Creates a file of so many KiB.
fn write(root: &Path, path: &str, kib: usize) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, vec![7; kib << 10]).unwrap();
}

/// Looks at a disk of a host with usual directories, of which this many KiB are used.
fn looked(root: &Path, used_kib: u64, host: &HostFs) -> DiskContent {
    let kubelet_root = root.join("var/lib/kubelet");
    let measured = vec![kubelet_root.join("pods"), root.join("var/log/pods"), root.join("var/lib/containerd")];
    let directories = vec![root.join("none"), kubelet_root.join("pods")];
    let disk = Disk { of: DiskUse::Kubelet, directories, used_bytes: used_kib << 10 };
    let known = Known { kubelet_root, measured, ..Known::default() };
    look(host, vec![disk], &known, Duration::from_mins(10)).remove(0)
}

/// Mounts a file system of its own with a kubelet, pods, a runtime, and files of others.
fn disk() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    mount(Some("tmpfs"), dir.path(), Some("tmpfs"), MsFlags::empty(), None::<&str>).unwrap();
    for (path, kib) in [
        ("var/lib/kubelet/pods/u1/volumes/kubernetes.io~empty-dir/cache/file", 900),
        ("var/lib/kubelet/plugins/csi/file", 80),
        ("var/lib/kubelet/config.yaml", 4),
        ("var/log/pods/shop_web_u1/app/0.log", 900),
        ("var/lib/containerd/blob", 900),
        ("var/lib/coredump/core.1", 400),
        ("var/log/journal/a", 60),
        ("var/log/journal/b", 60),
        ("etc/passwd", 4),
    ] {
        write(dir.path(), path, kib);
    }
    dir
}

/// A file of a task, and what a snapshotter left that is not in use, are found. The store is measured, and what is in it has no names.
#[test]
fn the_directory_of_the_runtime_is_measured_with_and_without_its_store() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("containerd");
    for (path, kib) in [
        ("io.containerd.runtime.v2.task/k8s.io/c1/log.json", 400),
        ("io.containerd.snapshotter.v1.native/snapshots/1/file", 300),
        ("io.containerd.snapshotter.v1.overlayfs/snapshots/7/fs/file", 900),
        ("io.containerd.content.v1.content/blob", 500),
    ] {
        write(&root, path, kib);
    }
    let store = ["io.containerd.snapshotter.v1.overlayfs/snapshots", "io.containerd.content.v1.content", "none"];
    let store = store.map(|path| root.join(path)).to_vec();
    let known = Known { measured: vec![root.clone()], runtime: Some(root.clone()), store, ..Known::default() };
    let looked = |of, time| {
        let (host, mut found) = (HostFs::default(), DiskContent::of(of));
        let disk = Disk { of, directories: vec![root.clone()], used_bytes: 20_000 << 10 };
        let look = Look::new(&host, &disk, &known, Instant::now() + time).unwrap();
        look.runtime(&mut found).unwrap();
        look.runtime_store(&mut found).unwrap();
        found
    };
    let found = looked(DiskUse::Images, Duration::from_mins(10));
    let kib = |usage: DirUsage| (usage.bytes >> 10) / 100 * 100;
    assert_eq!((kib(found.runtime), kib(found.runtime_store)), (700, 1400), "{found:?}");
    let mut rows: Vec<_> = found.largest.iter().map(|row| (row.usage.bytes >> 10, row.path.as_str())).collect();
    rows.sort_unstable();
    let named = |path: &str| root.join(path).display().to_string();
    let task = named("io.containerd.runtime.v2.task/k8s.io/c1/log.json");
    assert_eq!(rows, [(300, &*named("io.containerd.snapshotter.v1.native/snapshots/1/file")), (400, &*task)]);
    assert!(found.largest.iter().all(|row| row.is_runtimes));
    assert!(looked(DiskUse::Images, Duration::ZERO).runtime_store.at_least);
    assert_eq!(looked(DiskUse::Logs, Duration::from_mins(10)), DiskContent::of(DiskUse::Logs), "not its disk");
}

mod as_root {
    use super::*;

    #[test]
    fn the_largest_files_and_directories_are_named_without_those_that_others_measure() {
        apart(|| {
            let dir = disk();
            let found = looked(dir.path(), 20_000, &HostFs::default());
            assert_eq!(
                (found.missing.len(), found.kubelet.bytes >> 10, found.other.bytes >> 10),
                (0, 84, 524),
                "{found:?}"
            );
            let named = |path: &str| dir.path().join(path).display().to_string();
            let rows = found.largest.iter().map(|row| (row.path.clone(), row.usage.bytes >> 10, row.is_kubelets));
            // The journal's directory is named, because no file of it is large enough.
            let expected = [(named("var/lib/coredump/core.1"), 400, false), (named("var/log/journal"), 120, false)];
            assert_eq!(rows.collect::<Vec<_>>(), expected, "from {} KiB", 20_000 / SHARE);
        });
    }

    #[test]
    fn deleted_files_that_are_open_are_found() {
        apart(|| {
            let dir = disk();
            let held = tempfile::Builder::new().suffix(" (deleted)").tempfile_in(dir.path()).unwrap();
            let (mut file, path) = held.into_parts();
            let name = path.to_path_buf();
            file.write_all(&vec![7; 300 << 10]).unwrap();
            assert_eq!(looked(dir.path(), 1000, &HostFs::default()).deleted.inodes, 0, "only its name says so");
            path.close().unwrap();
            let again = file.try_clone().unwrap();
            let found = looked(dir.path(), 1000, &HostFs::default());
            drop((file, again));
            assert_eq!((found.deleted.bytes >> 10, found.deleted.inodes), (300, 1));
            let [one] = &*found.largest_deleted else { panic!("{found:?}") };
            assert_eq!(
                (one.path.as_str(), one.pid),
                (name.to_str().unwrap(), i32::try_from(std::process::id()).unwrap())
            );
        });
    }

    /// In a container, only directories of the host's disk are mounted, and its processes cannot be seen.
    #[test]
    fn a_disk_of_which_only_directories_are_mounted_says_so() {
        apart(|| {
            let dir = disk();
            let seen = tempfile::tempdir().unwrap();
            let pods = seen.path().join("var/lib/kubelet/pods");
            fs::create_dir_all(&pods).unwrap();
            let from = dir.path().join("var/lib/kubelet/pods");
            mount(Some(&from), &pods, None::<&str>, MsFlags::MS_BIND, None::<&str>).unwrap();
            let known = Known { kubelet_root: "/var/lib/kubelet".into(), ..Known::default() };
            let disk =
                Disk { of: DiskUse::Kubelet, directories: vec!["/var/lib/kubelet/pods".into()], used_bytes: 1 << 20 };
            let found = look(&HostFs::new(seen.path()), vec![disk], &known, Duration::from_mins(10)).remove(0);
            assert_eq!((found.kubelet.bytes, found.other.bytes, found.largest.len()), (0, 0, 0), "{found:?}");
            assert_eq!(found.missing.len(), 2, "{:?}", found.missing);
        });
    }

    /// A full directory does not hide the others, however short the time is.
    #[test]
    fn each_directory_has_its_part_of_the_time() {
        apart(|| {
            let dir = disk();
            let known = Known { kubelet_root: dir.path().join("none"), ..Known::default() };
            let disk = Disk { of: DiskUse::Kubelet, directories: vec![dir.path().to_owned()], used_bytes: 1 << 20 };
            let found = look(&HostFs::default(), vec![disk], &known, Duration::ZERO).remove(0);
            // The root, var and etc, and what is in them: lib, log, passwd.
            assert_eq!((found.other.inodes, found.other.at_least), (6, true), "{found:?}");
        });
    }
}
