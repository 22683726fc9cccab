//! Tests of the fields that are kept of a pod.

use serde_json::{Value, json};

use crate::kubernetes::objects::node_pods::NodeApiPod;
use crate::model::{Phase, Pod};
use crate::testing::fake_api::pod;

fn kept(value: &Value) -> Result<Pod, String> {
    serde_json::from_value::<NodeApiPod>(value.clone()).map_err(|error| error.to_string())?.into_pod()
}

#[test]
fn images_of_containers_and_volumes_are_kept_once() {
    let mut value = pod("a");
    value["spec"] = json!({
        "containers": [{"image": "app"}, {"image": "shared"}, {"image": ""}, {"name": "none"}],
        "initContainers": [{"image": "init"}, {"image": "shared"}],
        "ephemeralContainers": [{"image": "debug", "targetContainerName": "app"}],
        "volumes": [
            {"name": "data", "image": {"reference": "volume", "pullPolicy": "Always"}},
            {"name": "none", "image": {}},
            {"name": "config", "configMap": {"name": "image"}},
        ],
    });
    assert_eq!(kept(&value).unwrap().images, ["app", "debug", "init", "shared", "volume"]);
}

#[test]
fn what_go_leaves_empty_is_empty() {
    let value = json!({
        "metadata": {"uid": "u", "namespace": "n", "name": "a", "annotations": null, "deletionTimestamp": null},
        "spec": {"containers": null, "initContainers": null, "volumes": null},
        "status": {},
    });
    let pod = kept(&value).unwrap();
    assert_eq!((pod.images.len(), pod.phase, pod.deleting), (0, Phase::Unknown, false));
}

#[test]
fn phases_are_read_and_new_ones_are_unknown() {
    for (text, phase) in [
        ("Pending", Phase::Pending),
        ("Running", Phase::Running),
        ("Succeeded", Phase::Succeeded),
        ("Failed", Phase::Failed),
        ("Unknown", Phase::Unknown),
        ("Paused", Phase::Unknown),
    ] {
        let mut value = pod("a");
        value["status"]["phase"] = json!(text);
        assert_eq!(kept(&value).unwrap().phase, phase, "{text}");
    }
}

#[test]
fn only_a_mirror_pod_uses_its_static_pod_uid() {
    for (annotations, uid) in [
        (json!({"kubernetes.io/config.hash": "h", "kubernetes.io/config.mirror": "h"}), "h"),
        (json!({"kubernetes.io/config.mirror": "m"}), "m"),
        (json!({"kubernetes.io/config.hash": "h"}), "uid-a"),
        (json!({"kubernetes.io/config.hash": "", "kubernetes.io/config.mirror": ""}), "uid-a"),
        (json!({"kubernetes.io/config.source": "api"}), "uid-a"),
    ] {
        let mut value = pod("a");
        value["metadata"]["annotations"] = annotations.clone();
        assert_eq!(kept(&value).unwrap().uid.as_str(), uid, "{annotations}");
    }
}

#[test]
fn a_pod_without_uid_or_name_is_none() {
    for field in ["uid", "namespace", "name"] {
        let mut value = pod("a");
        value["metadata"][field] = json!("");
        assert!(kept(&value).is_err(), "{field}");
        value["metadata"].as_object_mut().unwrap().remove(field);
        assert!(kept(&value).is_err(), "{field}");
    }
}

#[test]
fn labels_annotations_and_the_controlling_owner_are_kept() {
    let mut value = pod("a");
    let metadata = value["metadata"].as_object_mut().unwrap();
    metadata.insert("labels".to_owned(), json!({"app": "web"}));
    metadata.insert(
        "annotations".to_owned(),
        json!({"team": "shop", "kubectl.kubernetes.io/last-applied-configuration": "x".repeat(99_999)}),
    );
    metadata.insert(
        "ownerReferences".to_owned(),
        json!([{"kind": "Node", "name": "n", "uid": "1"}, {"kind": "ReplicaSet", "name": "web-1", "uid": "2", "controller": true}]),
    );
    let details = *kept(&value).unwrap().details.unwrap();
    let one = |key: &str, text: &str| Some([(key.to_owned(), text.to_owned())].into());
    assert_eq!((details.labels, details.annotations), (one("app", "web"), one("team", "shop")));
    assert_eq!((details.owner_kind.as_deref(), details.owner_name.as_deref()), (Some("ReplicaSet"), Some("web-1")));
    value["metadata"]["annotations"] = json!({"long": "x".repeat(99_999)});
    assert_eq!(kept(&value).unwrap().details.unwrap().annotations, None, "too long to keep");
}
