use std::fs;
use std::io::Write as _;

use nix::mount::{MsFlags, mount};

use super::*;
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
    let known = Known { kubelet_root, measured };
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
            let known = Known { kubelet_root: "/var/lib/kubelet".into(), measured: Vec::new() };
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
            let known = Known { kubelet_root: dir.path().join("none"), measured: Vec::new() };
            let disk = Disk { of: DiskUse::Kubelet, directories: vec![dir.path().to_owned()], used_bytes: 1 << 20 };
            let found = look(&HostFs::default(), vec![disk], &known, Duration::ZERO).remove(0);
            // The root, var and etc, and what is in them: lib, log, passwd.
            assert_eq!((found.other.inodes, found.other.at_least), (6, true), "{found:?}");
        });
    }
}
