//! What the kubelet leaves over, in each command.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use kubegc::model::PullRecord;
use serde_json::Value;

use super::{Host, node};

const LOGS: &str = "kubelet/pods/u-again/containers/app";
const UNUSED: [&str; 2] = ["--set=images.all_unused=true", "--set=images.min_age=0s"];

/// A node with a pod whose container was restarted twice. The runtime lost the first instance. The others have the two newest
/// termination logs.
fn host() -> Host {
    let mounted = |name: &str| format!("/var/lib/kubelet/pods/u-again/containers/app/{name}");
    let node = node().id("s-again").pod("default", "again", "u-again").lost("app", 1);
    let node = node.exited("app", "r.example/web:2").mounting_path(&mounted("00000005"));
    let host = Host::with(node.running("app", "r.example/web:2").mounting_path(&mounted("00000006")));
    for (hours, name) in (1..).zip(["00000006", "00000005", "00000004", "00000003", "00000002"]) {
        write(&host, &format!("{LOGS}/{name}"), "ended", hours);
    }
    host
}

/// Writes a file that was last written so many hours ago.
fn write(host: &Host, path: &str, text: &str, hours: u64) -> PathBuf {
    let path = host.sim.dir().join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    let at = SystemTime::now() - Duration::from_hours(hours);
    fs::File::options().write(true).open(&path).unwrap().set_modified(at).unwrap();
    path
}

#[test]
fn termination_logs_that_are_left_over_are_shown_and_removed() {
    let host = host();
    let plan = host.run(&["plan", "--kind=leftover"]);
    for name in ["00000002", "00000003"] {
        assert!(plan.contains(&format!("leftover  {name}  default/again/app: termination log")), "{plan}");
    }
    assert!(plan.contains("container gone") && plan.contains("To remove: 2 leftovers. 0 kept."), "{plan}");
    let why = host.run(&["why", "default/again"]);
    assert!(why.contains("of pod default/again\n  size 4.0KiB\n  remove: the runtime has newer instances"), "{why}");
    let why = host.run(&["why", &format!("leftover/{}", host.sim.dir().join(LOGS).join("00000002").display())]);
    assert!(why.contains("setting: leftovers.remove"), "{why}");
    let kept = host.run(&["plan", "--kind=leftover", "--set=leftovers.remove="]);
    assert!(kept.contains("2 leftovers   shown only (leftovers.remove without \"termination_log\")"), "{kept}");
    let done = host.run(&["collect"]);
    assert!(done.contains("1 sandbox and 2 leftovers"), "{done}");
    let left = fs::read_dir(host.sim.dir().join(LOGS)).unwrap().map(|log| log.unwrap().file_name());
    assert_eq!(
        left.collect::<std::collections::BTreeSet<_>>(),
        ["00000004", "00000005", "00000006"].map(Into::into).into()
    );
    let table = host.run(&["history", "--kind=leftover"]);
    assert!(
        table.contains("2 files in this hour") && table.lines().count() == 2,
        "one row for a pod and hour: {table}"
    );
    let history: Value = serde_json::from_str(host.run(&["history", "00000002", "-o=json"]).trim()).unwrap();
    assert_eq!(
        (&history["kind"], &history["reason"], &history["outcome"]),
        (&"leftover".into(), &"instance_gone".into(), &"removed".into())
    );
}

/// What takes most says what to set, and the plan has the same size.
#[test]
fn a_directory_of_a_deleted_pod_has_its_size_and_a_next_step() {
    let host = host();
    let cache = "kubelet/pods/u-gone/volumes/kubernetes.io~empty-dir/cache/data";
    write(&host, cache, &"7".repeat(3 << 20), 1);
    let mut snapshot: Value = serde_json::from_str(&host.run(&["snapshot", "--pod-source=runtime"])).unwrap();
    snapshot["pods"]["seen"]["source"] = "kube-api+kubelet".into();
    snapshot["memory"]["orphaned_since"] = serde_json::json!({ "u-gone": "2026-01-01T00:00:00Z" });
    host.shell.write("node.json", &snapshot.to_string());
    let text = host.run(&["disk", "--snapshot=node.json"]);
    let step = "directory of a pod that is gone (1): set leftovers.remove = [\"termination_log\", \"pod_directory\"]";
    assert!(text.contains(&format!("  3.0MiB  {step}")), "{text}");
    let wide = host.run(&["plan", "-o=wide", "--snapshot=node.json", "--set=leftovers.remove=pod_directory"]);
    let row = wide.lines().find(|line| line.contains("u-gone")).unwrap_or_default();
    assert!(row.contains("3.0MiB") && row.contains("pod deleted"), "{wide}");
    snapshot["leftovers"]["seen"]
        .as_array_mut()
        .unwrap()
        .iter_mut()
        .for_each(|one| one["obstacle"] = "/p is mounted".into());
    host.shell.write("node.json", &snapshot.to_string());
    let kept = host.run(&["plan", "-o=wide", "--snapshot=node.json", "--set=leftovers.remove=pod_directory"]);
    assert!(kept.contains("has more than the kubelet creates: /p is mounted"), "{kept}");
}

/// Also with a configuration of a version that removed them (I21).
#[test]
fn the_record_of_a_removed_image_stays() {
    let host = host();
    let images = host.sim.state().images();
    let record = |image: &str| {
        let text = format!(
            r#"{{"kind":"ImagePulledRecord","apiVersion":"kubelet.config.k8s.io/v1beta1","imageRef":"{image}"}}"#
        );
        write(&host, &format!("kubelet/image_manager/pulled/{}", PullRecord::file_name(image)), &text, 1)
    };
    let records: Vec<_> = images.iter().map(|image| record(&image.id)).collect();
    let removes_records = "--set=leftovers.remove=pull_record,termination_log";
    host.run(&[&["collect", removes_records], &UNUSED[..]].concat());
    let plan = host.run(&["plan", "--kind=leftover", removes_records]);
    assert!(plan.contains("2 leftovers   record protects an image"), "{plan}");
    host.run(&["collect", removes_records]);
    assert!(host.sim.state().images().len() < images.len() && records.iter().all(|record| record.exists()));
    let why = host.run(&["why", &format!("leftover/{}", records[0].display())]);
    assert!(records.len() == 5 && !why.contains("image gone"), "{why}");
}
