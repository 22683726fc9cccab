//! Tests the parts of a plan and their texts.

pub(super) mod node;

use serde_json::{Value, json};

use super::*;
use crate::model::{PodList, Seen, Snapshot};

#[test]
fn a_plan_says_what_it_knows_of_pods() {
    let list: PodList = serde_json::from_value(json!({
        "source": "kubelet", "complete": true, "pods": [{ "uid": "a" }, { "uid": "b" }],
        "sources": [{ "name": "kubelet", "pods": 2 }],
    }))
    .unwrap();
    let known = PodKnowledge::from(&list);
    assert_eq!((known.source.as_str(), known.complete, known.pods, known.sources), ("kubelet", true, 2, list.sources));
}

#[test]
fn targets_have_the_names_that_people_know() {
    let target = |json: Value| -> Target { serde_json::from_value(json).unwrap() };
    let container = target(json!({ "action": "remove_container", "id": "c", "name": "app", "state": "exited" }));
    let image = json!({ "action": "remove_image", "id": "sha256:1", "tags": ["web:1", "web:2"], "size_bytes": 1 });
    let sandbox = target(json!({ "action": "remove_sandbox", "id": "s" }));
    assert_eq!([container, target(image), sandbox].each_ref().map(Target::name), [Some("app"), Some("web:1"), None]);
    let words = ["container", "sandbox", "log_dir", "log_file", "log_link", "leftover", "image"];
    assert_eq!(Kind::ALL.map(Kind::as_str), words);
    assert_eq!(json!(Kind::ALL), json!(words));
    assert_eq!(Scope::Images.to_string(), "images");
}

#[test]
fn errors_of_unavailable_data_differ_from_other_errors() {
    let unknown = |others| PlanError::ImageVolumesUnknown {
        container: "c".into(),
        pod: None,
        cause: "no answer".to_owned(),
        others,
    };
    let unavailable = PlanError::NotSeen { source: "pods".to_owned(), cause: "refused".to_owned() };
    let full = PlanError::FreeDiskSpaceFailed { target_bytes: 3, estimated_bytes: 2, used_percent: 99, began_by: None };
    assert_eq!([&unavailable, &unknown(0), &full].map(PlanError::is_unobserved), [true, true, false]);
    assert!(!unknown(0).to_string().contains("more") && unknown(1).to_string().contains("and of 1 more"));
}

#[test]
fn a_kept_objects_empty_name_is_omitted() {
    let kept = |slot: &str| node::node().pod("web").exited(slot, "c", 9).plan().kept.remove(0).name;
    assert_eq!((kept("web/app"), kept("web/")), (Some("app".to_owned()), None));
}

#[test]
fn a_plan_shows_why_pod_directories_are_unavailable() {
    let no_dirs = |snapshot: &mut Snapshot| snapshot.pod_dirs = Seen::NotSeen("permission denied".to_owned());
    let dirs_unavailable = |node: node::Node| node.plan().pods.map(|pods| pods.dirs_unavailable);
    assert_eq!(dirs_unavailable(node::node()), Seen::Seen(None));
    assert_eq!(dirs_unavailable(node::node().but(no_dirs)), Seen::Seen(Some("permission denied".to_owned())));
    assert_eq!(dirs_unavailable(node::node().without_pod_list()), Seen::NotSeen("no answer".to_owned()));
}

#[test]
fn an_existing_pod_is_shown_with_its_source() {
    let kept = node::node().pod("web").dir("default_web_web").plan().kept;
    assert_eq!(kept[0].reason, KeepReason::PodPresent { source: "test".to_owned() });
}

#[test]
fn pressure_evicts_terminated_pods_and_removes_unused_images() {
    let policy = Policy::default().under_pressure(Pressure::Requested {});
    assert!(policy.evicts_terminated_pods());
    assert_eq!(policy.of_terminated_pod(), RemoveReason::PodTerminal { pressure: true });
    assert_eq!(policy.all_unused(), Some(RemoveReason::Unused { pressure: true }));
    let of_disk = Pressure::FreeBytes { mountpoint: "/d".into(), free_bytes: 1, limit_bytes: 2 };
    assert_eq!(Policy::default().under_pressure(of_disk).all_unused(), None, "only until it has none");
    assert_eq!(policy.guards, Policy::default().guards, "the guards apply all the same");
}

/// A setting that removes the same objects without pressure is the reason with pressure too.
#[test]
fn an_enabled_setting_is_the_reason_under_pressure_too() {
    let mut policy = Policy::default();
    assert_eq!((policy.evicts_terminated_pods(), policy.all_unused()), (false, None));
    (policy.containers.evict_terminated_pods, policy.images.all_unused) = (true, true);
    for policy in [policy.under_pressure(Pressure::Requested {}), policy] {
        assert_eq!(policy.of_terminated_pod(), RemoveReason::PodTerminal { pressure: false });
        assert_eq!(policy.all_unused(), Some(RemoveReason::Unused { pressure: false }));
    }
}
