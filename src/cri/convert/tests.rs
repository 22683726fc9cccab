//! Tests of the conversion with missing and unusual values.

use super::*;

fn raw_labels(entries: &[(&str, &str)]) -> Vec<Bytes> {
    let label = |(key, value): &(&str, &str)| pb::LeanLabel { key: (*key).into(), value: (*value).into() };
    entries.iter().map(|entry| label(entry).encode_to_vec().into()).collect()
}

fn metadata(uid: &str) -> pb::PodSandboxMetadata {
    pb::PodSandboxMetadata { name: "web-0".into(), uid: uid.into(), namespace: "default".into(), attempt: 0 }
}

#[test]
fn a_container_state_by_its_number() {
    use ContainerState::{Created, Exited, Running, Unknown};
    for (number, state) in [(0, Created), (1, Running), (2, Exited), (3, Unknown), (4, Unknown), (-1, Unknown)] {
        assert_eq!(container_state(number), state, "state {number}");
    }
}

#[test]
fn a_sandbox_state_outside_the_cri_reads_as_ready() {
    for (number, state) in [(0, SandboxState::Ready), (1, SandboxState::NotReady), (2, SandboxState::Ready)] {
        assert_eq!(sandbox_state(number), state, "state {number}");
    }
}

#[test]
fn the_pod_of_a_container_is_in_its_labels() {
    type Labels = &'static [(&'static str, &'static str)];
    let rows: [(&str, Labels, Option<&str>); 7] = [
        ("no labels", &[], None),
        ("labels of somebody else", &[("app", "web"), ("io.kubernetes.container.name", "c")], None),
        ("a name and no uid", &[(POD_NAME, "web-0")], None),
        ("an empty uid", &[(POD_UID, ""), (POD_NAME, "web-0")], None),
        ("a uid alone", &[(POD_UID, "u1")], Some("u1//")),
        (
            "all three among others",
            &[("app", "web"), (POD_NAME, "web-0"), (POD_NAMESPACE, "default"), (POD_UID, "u1")],
            Some("u1/default/web-0"),
        ),
        ("a value that only looks like the key", &[("note", POD_UID)], None),
    ];
    for (row, labels, pod) in rows {
        let read = pod_of_labels(picked(&raw_labels(labels), POD_LABELS));
        let read = read.map(|pod| format!("{}/{}/{}", pod.uid, pod.namespace, pod.name));
        assert_eq!(read.as_deref(), pod, "{row}");
    }
}

#[test]
fn a_sandbox_pod_needs_both_metadata_and_label() {
    let rows = [
        ("both", Some(metadata("u1")), vec![(POD_UID, "u1")], Some("u1")),
        ("metadata alone, as crictl makes it", Some(metadata("u1")), vec![("app", "web")], None),
        ("metadata and the pod's other labels", Some(metadata("u1")), vec![(POD_NAME, "web-0")], None),
        ("label alone", None, vec![(POD_UID, "u1")], None),
        ("an empty uid in the metadata", Some(metadata("")), vec![(POD_UID, "u1")], None),
        (
            "two uids: the metadata's counts, as for the kubelet",
            Some(metadata("u1")),
            vec![(POD_UID, "u2")],
            Some("u1"),
        ),
    ];
    for (row, metadata, labels, uid) in rows {
        let pod = pod_of_metadata(metadata, &raw_labels(&labels));
        assert_eq!(pod.as_ref().map(|pod| pod.uid.as_str()), uid, "{row}");
    }
}

#[test]
fn a_static_pod_is_recognized_by_its_config_source() {
    for (row, annotations, expected) in [
        ("a manifest file", vec![("kubernetes.io/config.source", "file")], true),
        ("a manifest address", vec![("a", "b"), ("kubernetes.io/config.source", "http")], true),
        ("the API server", vec![("kubernetes.io/config.source", "api")], false),
        ("without the annotation", vec![("kubernetes.io/config.hash", "file")], false),
        ("named in another annotation's text", vec![("note", "kubernetes.io/config.source=file")], false),
    ] {
        let from = pb::LeanSandbox { annotations: raw_labels(&annotations), ..Default::default() };
        assert_eq!(sandbox(from).is_static, expected, "{row}");
    }
}

#[test]
fn a_container_image_is_its_id_else_its_reference() {
    for (row, id, reference, read) in [
        ("both", "sha256:aa", "docker.io/a@sha256:01", Some("sha256:aa")),
        ("an older runtime", "", "docker.io/a@sha256:01", Some("docker.io/a@sha256:01")),
        ("neither", "", "", None),
    ] {
        let from = pb::LeanContainer { image_id: id.into(), image_ref: reference.into(), ..Default::default() };
        assert_eq!(container(from).image_id.as_deref(), read, "{row}");
    }
}

#[test]
fn the_sandbox_image_comes_from_the_verbose_status() {
    for (row, key, text, image) in [
        (
            "containerd 1.x",
            "config",
            r#"{"containerd":{"snapshotter":"overlayfs"},"sandboxImage":"k8s/pause:3.6"}"#,
            Some("k8s/pause:3.6"),
        ),
        ("containerd 2.x", "config", r#"{"containerd":{"defaultRuntimeName":"runc"}}"#, None),
        ("an empty name", "config", r#"{"sandboxImage":""}"#, None),
        ("elsewhere", "golang", r#"{"sandboxImage":"k8s/pause:3.6"}"#, None),
    ] {
        let info = [(key.to_owned(), text.to_owned())].into();
        assert_eq!(sandbox_image(&info).unwrap().as_deref(), image, "{row}");
    }
    for (row, text) in [("not a name", r#"{"sandboxImage":7}"#), ("not JSON", "[plugins]")] {
        let info = [("config".to_owned(), text.to_owned())].into();
        assert!(sandbox_image(&info).is_err(), "{row}: what cannot be read does not name none");
    }
}

#[test]
fn an_image_configuration_comes_from_the_verbose_status() {
    let read = |text: &str| image_details(&[("info".to_owned(), text.to_owned())].into());
    let label = |key: &str, value: &str| Some([(key.to_owned(), value.to_owned())].into());
    let long = "x".repeat(MAX_TEXT);
    let too_long = format!(r#"{{"imageSpec":{{"config":{{"Labels":{{"a":"{long}"}}}}}}}}"#);
    for (row, text, created, labels, layers) in [
        (
            "containerd",
            r#"{"chainID":"sha256:0","imageSpec":{"created":"2026-11-01T00:00:00Z","config":{"Labels":{"a":"b"}},"rootfs":{"type":"layers","diff_ids":["sha256:1"]}}}"#,
            Some("2026-11-01T00:00:00Z"),
            label("a", "b"),
            Some(vec!["sha256:1".to_owned()]),
        ),
        ("CRI-O", r#"{"labels":{"x":"y"},"imageSpec":{"config":{"Labels":{"x":"y"}}}}"#, None, label("x", "y"), None),
        ("no labels", r#"{"imageSpec":{"config":{"Labels":null}}}"#, None, Some([].into()), None),
        ("no configuration", r#"{"chainID":"sha256:0"}"#, None, None, None),
        ("a time that is none", r#"{"imageSpec":{"created":"yesterday"}}"#, None, None, None),
        ("too many labels", &too_long, None, None, None),
    ] {
        let created_at = created.map(|at| at.parse().unwrap());
        assert_eq!(read(text).unwrap(), ImageDetails { created_at, labels, layers }, "{row}");
    }
    for (row, text) in
        [("no JSON", "[plugins]"), ("a label that is no text", r#"{"imageSpec":{"config":{"Labels":{"a":1}}}}"#)]
    {
        assert!(read(text).is_err(), "{row}");
    }
    assert_eq!(image_details(&[].into()).unwrap(), ImageDetails::default(), "an old runtime");
}
