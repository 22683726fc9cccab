//! The node of the screens with a full disk: what `disk` and `plan` say of its snapshot.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::Host;

const GIB: u64 = 1 << 30;
/// A pod that the API server deleted while the kubelet was down.
const GONE: &str = "0f1e2d3c-4b5a-4697-8877-665544332211";

/// Returns what the commands of a person on call print, on terminals of 80 and 120 columns.
pub(super) fn screens() -> String {
    let mut page = String::new();
    for columns in [80, 120] {
        let host = Host::new();
        host.shell.write("full.json", &full(&host).to_string());
        for command in [
            &["disk", "--snapshot", "full.json", "--top", "4"][..],
            &["plan", "--snapshot", "full.json", "--kind", "leftover"],
        ] {
            let text = host.on_terminal(columns, command).replace(&host.sim.dir().display().to_string(), "DIR");
            let text = text.lines().map(super::without_times).collect::<Vec<_>>().join("\n");
            write!(page, "\n## `kubegc {}`, {columns} columns\n\n```\n{text}\n```\n", command.join(" ")).unwrap();
        }
    }
    page
}

/// Returns the snapshot of the node with a disk of its own, on which little is free.
fn full(host: &Host) -> Value {
    let mut node: Value = serde_json::from_str(&host.shell.run(&["snapshot", "--pod-source=runtime"])).unwrap();
    let usage = |gib: u64| json!({ "bytes": gib * GIB, "inodes": 1000 });
    let volume = |gib: u64| json!({ "plugin": "empty-dir", "name": "cache", "bytes": gib * GIB, "inodes": 1000 });
    let dir = |uid: &str, gib: u64| json!({ "uid": uid, "volumes": [volume(gib)], "other": usage(0) });
    let file = |path: &str, gib: u64| json!({ "path": path, "bytes": gib * GIB, "inodes": 1 });
    let disk = json!({ "mountpoint": "/var/lib/containerd", "capacity_bytes": 100 * GIB, "available_bytes": 3 * GIB,
                       "free_bytes": 3 * GIB, "inodes": 6_000_000, "inodes_free": 4_000_000 });
    node["image_filesystem"] = json!({ "seen": disk.clone() });
    node["disks"] = json!([{ "holds": ["images", "logs", "kubelet"], "file_system": disk }]);
    let web = node["pods"]["seen"]["pods"][0]["uid"].as_str().unwrap().to_owned();
    node["pod_dirs"] = json!({ "seen": [web, GONE] });
    node["pod_usage"] = json!({ "seen": [dir(&web, 31), dir(GONE, 12)] });
    node["pods"]["seen"]["source"] = "kube-api+kubelet".into();
    node["memory"]["orphaned_since"] = json!({ GONE: "2026-01-01T00:00:00Z" });
    let at = format!("/var/lib/kubelet/pods/{GONE}");
    let orphan = |more: Value| {
        let mut orphan = json!({ "kind": "pod_directory", "path": at, "is_kubelets": true, "bytes": 12 * GIB, "inodes": 1000,
                                 "pod": { "uid": GONE } });
        orphan.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        orphan
    };
    node["leftovers"] = json!({ "seen": [orphan(json!({}))] });
    node["disk_contents"] = json!([{ "disk": "images", "other": usage(20), "deleted": usage(6),
        "largest": [file("/var/lib/systemd/coredump/core.db", 18)],
        "largest_deleted": [{ "path": "/tmp/spool", "process": "python3", "pid": 4711, "bytes": 6 * GIB }] }]);
    node
}
