//! Logs that outlive their pod, in each command.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::{Host, node};

const ARCHIVE: &str = "--set=logs.archive=keep 24h,node 1MiB";
const WEB: &str = "default_web_u-web/app";

/// A node with the log of the pod `web` of two rotations.
fn host() -> Host {
    let host = Host::with(node());
    for (name, lines) in [("0.log.20261121-100000", ["one", "two"]), ("0.log", ["three", "four"])] {
        let lines = lines.map(|line| format!("2026-11-21T10:00:00Z stdout F {line}\n")).concat();
        fs::write(logs(&host).join(name), lines).unwrap();
    }
    host
}

fn logs(host: &Host) -> PathBuf {
    host.sim.log_roots().pods.join(WEB)
}

fn archived(host: &Host) -> PathBuf {
    host.sim.log_roots().pods.parent().unwrap().join("kubegc/archive").join(WEB)
}

/// Removes the logs of the pod, as the kubelet does.
fn delete(host: &Host) {
    fs::remove_dir_all(logs(host)).unwrap();
}

#[test]
fn logs_are_printed_after_their_pod_is_deleted() {
    let host = host();
    host.run(&["collect", "--dry-run", ARCHIVE]);
    assert!(!archived(&host).exists(), "a dry run makes no directory");
    host.run(&["collect", ARCHIVE]);
    let lines = "one\ntwo\nthree\nfour\n";
    assert_eq!(host.run(&["logs", "default/web"]), lines, "each line once");
    delete(&host);
    assert_eq!(host.run(&["logs", "default/web"]), lines);
    assert_eq!(host.run(&["logs", "default/web", "-f"]), lines, "nothing follows");
    assert!(host.run(&["logs"]).contains("web"));
    assert!(!host.run(&["collect", ARCHIVE]).contains("log file"), "it is within the limits");
    let over = "--set=logs.archive=node 10B";
    let plan = host.run(&["plan", "--kind=log-file", over]);
    assert!(plan.contains("over logs.archive (node 10B)") && plan.contains("default/web/app"), "{plan}");
    let path = archived(&host).join("0.log.20261121-100000");
    assert!(host.run(&["collect", over]).contains("log files"));
    assert!(!archived(&host).exists() && !archived(&host).parent().unwrap().exists());
    let history = host.run(&["history", path.to_str().unwrap(), "-o=json"]);
    let entries: Vec<Value> = history.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let outcomes: Vec<_> = entries.iter().map(|entry| (&entry["reason"], &entry["outcome"])).collect();
    assert_eq!(outcomes, [(&"over_archive_limit".into(), &"removed".into())], "{history}");
}

/// A log shipper with a hostPath is enough to make as many.
#[test]
fn a_directory_with_too_many_files_holds_up_nothing() {
    let host = host();
    host.run(&["collect", ARCHIVE]);
    delete(&host);
    let many = host.sim.log_roots().pods.join("default_many_u-many/app");
    fs::create_dir_all(&many).unwrap();
    (0..=10_000).for_each(|name| fs::write(many.join(format!("{name}.log")), "line").unwrap());
    let done = host.shell.command(&["collect", "--set=logs.archive=node 1B"]).output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(said.contains("default_many_u-many/app is kept: it has more than 10,000 entries"), "{said}");
    assert!(!archived(&host).exists(), "what is over a limit goes: {}", String::from_utf8_lossy(&done.stdout));
    assert_eq!(fs::read_dir(&many).unwrap().count(), 10_001);
}

/// Without a kubelet kubegc itself removes a dead container with its logs.
#[test]
fn the_pass_that_removes_a_container_keeps_its_logs() {
    let node = node().id("s-batch").pod("default", "batch", "u-batch");
    let host = Host::with(node.exited("app", "r.example/web:2").exited("app", "r.example/web:2"));
    let log = host.sim.log_roots().pods.join("default_batch_u-batch/app/0.log");
    fs::write(&log, "2026-11-21T10:00:00Z stdout F done\n").unwrap();
    let done = host.run(&["collect", ARCHIVE]);
    assert!(!log.exists(), "{done}");
    let printed = host.run(&["logs", "default/batch", "--all"]);
    assert!(printed.starts_with("done\n"), "{printed}");
}

#[test]
fn an_archive_that_cannot_be_used_is_said() {
    let host = host();
    fs::write(archived(&host).ancestors().nth(3).unwrap(), "a file").unwrap();
    let done = host.shell.command(&["collect", ARCHIVE]).output().unwrap();
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(!done.status.success() && text.contains("kubegc is kept: it is not a directory"), "{text}");
}

#[test]
fn a_limit_on_the_logs_of_pods_counts_archived_files() {
    let host = host();
    fs::write(logs(&host).join("0.log.20261121-090000.gz"), vec![7; 100 << 10]).unwrap();
    let settings = [ARCHIVE, "--set=logs.limits=pod 50KiB"];
    let done = host.run(&[&["collect"], &settings[..]].concat());
    assert!(
        done.contains("0.log.20261121-090000.gz  default/web/app    removed  100.0KiB  over logs.limits"),
        "{done}"
    );
    for dir in [logs(&host), archived(&host)] {
        assert!(!dir.join("0.log.20261121-090000.gz").exists() && dir.join("0.log").exists(), "the bytes are freed");
    }
    let history = host.run(&["history", "0.log.20261121-090000.gz", "-o=json"]);
    assert_eq!(history.lines().count(), 1, "{history}");
}

/// What a pass knew of a pod is beside its logs: no command needs the runtime or the API server for it.
#[test]
fn the_end_of_a_deleted_pod_is_shown_with_its_logs() {
    let node = node().id("s-report").pod("default", "report", "u-report").exited("app", "r.example/web:2");
    let host = Host::with(node);
    let at = host.sim.log_roots().pods.join("default_report_u-report");
    fs::write(at.join("app/0.log"), "2026-11-21T10:00:00Z stderr F done\n").unwrap();
    host.run(&["collect", ARCHIVE, "--set=containers.min_age=24h"]);
    fs::remove_dir_all(&at).unwrap();
    let list = host.run(&["logs", ARCHIVE]);
    let row = list.lines().find(|line| line.contains("default/report")).unwrap();
    assert!(list.contains("KEPT FOR") && row.contains("0 (Completed)") && row.ends_with("23h"), "{list}");
    let dir = host.sim.dir().join("exported");
    let export = ["logs", "default/report", "--export", dir.to_str().unwrap()];
    let exported = host.run(&export);
    assert!(exported.starts_with("1 file copied"), "{exported}");
    let document: Value =
        serde_json::from_slice(&fs::read(dir.join("default_report_u-report/pod.json")).unwrap()).unwrap();
    let app = &document["containers"][0];
    assert_eq!(
        (&app["name"], &app["exit_code"], &app["reason"]),
        (&"app".into(), &0.into(), &"Completed".into()),
        "{document}"
    );
    assert_eq!(
        (&document["pod"]["name"], document["pod"].get("details")),
        (&"report".into(), None),
        "no rule asks for labels"
    );
    let exported = format!("--set=logs.pods_root={}", dir.display());
    assert_eq!(host.run(&["logs", "default/report", &exported]), "done\n");
}

#[test]
fn each_container_is_listed_with_its_newest_instance() {
    let host = host();
    host.run(&["collect", ARCHIVE]);
    for container in ["app", "init", "proxy"] {
        let files = archived(&host).with_file_name(container);
        fs::create_dir_all(&files).unwrap();
        fs::write(files.join("0.log"), "2026-11-21T10:00:00Z stdout F one\n").unwrap();
    }
    let instances =
        [("app", 0, 10), ("app", 1, 11), ("init", 0, 20), ("init", 1, 21), ("proxy", 0, 30), ("proxy", 1, 31)];
    let instances =
        instances.map(|(name, attempt, code)| json!({ "name": name, "attempt": attempt, "exit_code": code }));
    let pod = json!({ "uid": "u-web", "namespace": "default", "name": "web" });
    let document = json!({ "pod": pod, "containers": instances }).to_string();
    fs::write(archived(&host).with_file_name("pod.json"), document).unwrap();
    let list = host.run(&["logs", ARCHIVE]);
    let codes =
        list.lines().filter(|line| line.contains("default/web")).map(|line| line.split_whitespace().last().unwrap());
    assert_eq!(codes.collect::<Vec<_>>(), ["11", "21", "31"], "{list}");
}

/// A pod with a hostPath can write to the log root, and not to the archive.
#[test]
fn a_document_below_the_log_root_counts_for_nothing() {
    let host = host();
    host.run(&["collect", ARCHIVE]);
    let document = fs::read_to_string(archived(&host).with_file_name("pod.json")).unwrap();
    let document = document.replace("\"exit_code\": null", "\"exit_code\": 77");
    assert!(document.contains("77"));
    fs::write(logs(&host).with_file_name("pod.json"), &document).unwrap();
    let list = host.run(&["logs", ARCHIVE]);
    assert!(!list.contains("77") && list.contains("web"), "{list}");
    fs::write(archived(&host).with_file_name("pod.json"), &document).unwrap();
    assert!(host.run(&["logs", ARCHIVE]).contains("77"));
}
