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
    assert!(kept.contains("2 leftovers   shown only (leftovers.remove)"), "{kept}");
    let done = host.run(&["collect"]);
    assert!(done.contains("1 sandbox and 2 leftovers"), "{done}");
    let left = fs::read_dir(host.sim.dir().join(LOGS)).unwrap().map(|log| log.unwrap().file_name());
    assert_eq!(
        left.collect::<std::collections::BTreeSet<_>>(),
        ["00000004", "00000005", "00000006"].map(Into::into).into()
    );
    let history: Value = serde_json::from_str(host.run(&["history", "00000002", "-o=json"]).trim()).unwrap();
    assert_eq!(
        (&history["kind"], &history["reason"], &history["outcome"]),
        (&"leftover".into(), &"instance_gone".into(), &"removed".into())
    );
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
