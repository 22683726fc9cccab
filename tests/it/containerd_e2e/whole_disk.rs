//! A node whose disk is full of what is not the runtime's.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;

use serde_json::Value as Json;

use crate::rig::{Rig, Version};

const MIB: usize = 1 << 20;

#[tokio::test]
async fn the_account_names_what_fills_a_disk() {
    let rig = Rig::start_with_leftovers(Version::V2, 2048).await;
    rig.pod("shop", "build-7", "uid-build").await;
    let disk = rig.dir().join("containerd");
    for (path, mib) in [
        ("kubelet/pods/uid-build/volumes/kubernetes.io~empty-dir/cache/data", 90),
        ("kubelet/pods/uid-gone/volumes/kubernetes.io~empty-dir/old/data", 40),
        ("kubelet/plugins/leaking/data", 10),
        ("host/var/lib/systemd/coredump/core.1", 41),
        ("host/var/log/journal/1/system.journal", 8),
        ("host/var/log/journal/1/user.journal", 7),
    ] {
        write(&disk.join(path), mib);
    }
    let runtime = disk.join("root");
    write(&runtime.join("io.containerd.runtime.v2.task/k8s.io/gone/log.json"), 20);
    write(&runtime.join("io.containerd.snapshotter.v1.overlayfs/snapshots/99999/fs/data"), 20);
    let held = write(&disk.join("host/tmp/held"), 12);
    fs::remove_file(disk.join("host/tmp/held")).unwrap();
    let roots = rig.roots_on_its_disk();
    let roots = roots.each_ref().map(String::as_str);
    let disk_of = |last: &str| rig.kubegc(&[&["disk", "--set=pods.source=runtime", last], &roots[..]].concat());
    let account = disk_of("-o=json").ok().json();
    drop(held);
    let named = |name: &str| named(&account, name);
    assert_eq!(named("empty-dir \"cache\""), ("pod_volumes".to_owned(), "shop/build-7".to_owned(), 90));
    assert_eq!(named("directory of a pod that is gone"), ("leftovers".to_owned(), "uid uid-gone".to_owned(), 40));
    let at = |path: &str| disk.join(path).display().to_string();
    assert_eq!(named(&at("host/var/lib/systemd/coredump/core.1")), ("other_files".to_owned(), String::new(), 41));
    assert_eq!(named(&at("host/var/log/journal/1/system.journal")).2, 8);
    assert_eq!(named(&at("kubelet/plugins/leaking/data")), ("kubelet_files".to_owned(), String::new(), 10));
    let (category, process, mib) = named(&format!("{} (deleted)", at("host/tmp/held")));
    assert_eq!(
        (category.as_str(), process.contains(&format!("(pid {})", std::process::id())), mib),
        ("deleted_files", true, 12)
    );
    let log = runtime.join("io.containerd.runtime.v2.task/k8s.io/gone/log.json").display().to_string();
    assert_eq!(named(&log), ("unknown_to_runtime".to_owned(), String::new(), 20));
    let rows = account["categories"].as_array().unwrap();
    let unknown = rows.iter().find(|row| row["category"] == "unknown_to_runtime").unwrap()["bytes"].as_u64().unwrap();
    assert!((40..48).contains(&(unknown / MIB as u64)), "the log, the unknown directory, databases: {account:#}");
    all_is_explained(&account);
    let largest = || disk_of("--top=1").stdout.lines().last().unwrap().to_owned();
    let advice = "The largest that kubegc does not remove: ";
    assert_eq!(largest(), format!("{advice}empty-dir \"cache\" of shop/build-7, 90.0MiB."));
    rig.stop();
    assert_eq!(largest(), format!("{advice}empty-dir \"cache\" of uid uid-build, 90.0MiB."));
}

/// Returns the category, the holder and the MiB of a large thing.
fn named(account: &Json, name: &str) -> (String, String, u64) {
    let row = account["largest"].as_array().unwrap().iter().find(|row| row["name"] == name);
    let row = row.unwrap_or_else(|| panic!("{name}: {account:#}"));
    let text = |field: &str| row[field].as_str().unwrap().to_owned();
    (text("category"), text("held_by"), row["bytes"].as_u64().unwrap() / MIB as u64)
}

/// The rows add up to the used space, and no more than a hundredth of it is not found.
fn all_is_explained(account: &Json) {
    let rows = account["categories"].as_array().unwrap();
    let bytes = |row: &Json| row["bytes"].as_u64().unwrap();
    let used = account["used_bytes"].as_u64().unwrap();
    assert_eq!(rows.iter().map(bytes).sum::<u64>(), used, "{rows:#?}");
    let rest = bytes(rows.iter().find(|row| row["category"] == "not_of_the_runtime").unwrap());
    assert!(rest * 100 <= used, "{rest} of {used} bytes: {rows:#?}");
}

/// Writes a file of so many MiB.
fn write(path: &Path, mib: usize) -> File {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut file = File::create(path).unwrap();
    file.write_all(&vec![7; mib * MIB]).unwrap();
    file.sync_all().unwrap();
    file
}
