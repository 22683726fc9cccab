//! Inputs after reports of people who operate clusters (`tests/data/cases`), and what is right for each.

mod discovery;
pub mod fake_api;
mod files;
mod fleet_images;
mod hosts;
mod runtimes;
mod shared_uid;
mod tls;

use kubegc::model::Snapshot;
use kubegc::plan::{KeepReason, Kind, Plan, Policy, Scope, decide};

use crate::shell::Shell;

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/cases");

fn data(name: &str) -> String {
    std::fs::read_to_string(format!("{DATA}/{name}")).unwrap()
}

fn plan(name: &str) -> Plan {
    let snapshot: Snapshot = serde_json::from_str(&data(name)).unwrap();
    decide(&snapshot, &Policy::default(), Scope::All)
}

fn kept(plan: &Plan, kind: Kind) -> Vec<(&str, &KeepReason)> {
    let of_kind = plan.kept.iter().filter(|kept| kept.kind == kind);
    of_kind.map(|kept| (&kept.id[..4], &kept.reason)).collect()
}

fn removed(plan: &Plan, kind: Kind) -> Vec<String> {
    let of_kind = plan.actions.iter().filter(|action| action.target.kind() == kind);
    of_kind.map(|action| action.target.id()[..4].to_owned()).collect()
}

/// containerd lists a container that runs as UNKNOWN and created in 1970, if its status file is empty.
#[test]
fn an_unknown_container_of_unknown_age_is_kept() {
    let plan = plan("N6a-unknown-container-created-zero.json");
    assert!(kept(&plan, Kind::Container).contains(&("ffda", &KeepReason::MaybeRunning {})), "{:#?}", plan.kept);
    assert!(!removed(&plan, Kind::Container).contains(&"ffda".to_owned()));
}

#[test]
fn the_sandbox_of_the_highest_attempt_is_the_newest() {
    let plan = plan("N6b-sandbox-created-zero.json");
    let sandboxes = kept(&plan, Kind::Sandbox);
    assert_eq!(sandboxes.iter().map(|(id, _)| *id).collect::<Vec<_>>(), ["b258"], "{:#?}", plan.kept);
    assert_eq!(removed(&plan, Kind::Sandbox), ["9f6b"]);
}

/// The kubelet would reject both.
#[test]
fn n10_numbers_invalid_for_the_kubelet_are_reported() {
    let file = format!("{DATA}/N10-kubelet-numbers.yaml");
    let text = Shell::new().run(&["config", "check", "--kubelet-config", &file]);
    assert!(text.starts_with("exit Some(2)\n"), "{text}");
    for field in ["imageMinimumGCAge", "imageGCHighThresholdPercent"] {
        assert!(text.contains(field) && text.contains("N10-kubelet-numbers.yaml"), "{text}");
    }
}

#[test]
fn n2_the_drop_in_files_of_a_kubelet_count() {
    let file = format!("{DATA}/N2-eks/config.json");
    let text =
        Shell::new().run(&["config", "show", "--kubelet-config", &file, "--set", "runtime.endpoint=/run/x.sock"]);
    let is_set = |key: &str, value: &str| text.lines().any(|line| line.starts_with(&format!("{key} = {value} ")));
    for (key, value) in [("high_threshold_percent", "75"), ("low_threshold_percent", "60"), ("max_age", "\"7d\"")] {
        assert!(is_set(key, value), "{key}\n{text}");
    }
}

#[test]
fn the_drop_in_directory_of_a_kubelet_without_a_file_counts() {
    let directory = format!("{DATA}/t5/k3s-kubelet.conf.d");
    let show = ["config", "show", "--kubelet-config-dir", &directory];
    let text = Shell::new().run(&show);
    let is_set = |key: &str, value: &str| text.lines().any(|line| line.starts_with(&format!("{key} = {value} ")));
    for (key, value) in [
        ("high_threshold_percent", "72"),
        ("low_threshold_percent", "51"),
        ("endpoint", "\"unix:///run/k3s/containerd/containerd.sock\""),
    ] {
        assert!(is_set(key, value), "{key}\n{text}");
    }
    let without = Shell::new().with("empty/README", "").run(&["config", "check", "--kubelet-config-dir", "empty"]);
    insta::assert_snapshot!(without, @r"
    warning: empty: no file in it ends with .conf, so it sets nothing
    the configuration is sound, with 1 warning
    ");
}

/// A control plane for tenants writes out each default, of which 0 is none for the kubelet.
#[test]
fn written_defaults_of_a_kubelet_mean_what_they_mean_there() {
    let show = |name: &str, verb: &str| {
        let file = format!("{DATA}/t5/kubelet/{name}.yaml");
        Shell::new().run(&["config", verb, "--kubelet-config", &file, "--set", "runtime.endpoint=/run/x.sock"])
    };
    let is_set = |text: &str, line: &str| text.lines().any(|it| it.starts_with(&format!("{line} ")));
    let kamaji = show("kamaji", "show");
    assert!(is_set(&kamaji, "min_age = \"2m\"") && is_set(&kamaji, "max_age = \"0s\""), "{kamaji}");
    let warned = show("kamaji", "check");
    assert!(warned.contains("warning: ") && warned.contains("imageGCHighThresholdPercent = 100"), "{warned}");
    let logs = show("plog", "show");
    assert!(is_set(&logs, "pods_root = \"/data/var/log/pods\""), "{logs}");
    let zeros = show("zeros", "show");
    assert!(is_set(&zeros, "pods_root = \"/var/log/pods\"") && is_set(&zeros, "min_age = \"2m\""), "{zeros}");
}

#[test]
fn n3_repeated_keys_are_read_as_by_the_kubelet() {
    let file = format!("{DATA}/N3-kubelet-duplicate-key.yaml");
    let text = Shell::new().run(&["config", "check", "--kubelet-config", &file]);
    assert!(text.starts_with("warning: ") && text.contains("of repeated keys the last counts"), "{text}");
    assert!(text.ends_with("the configuration is sound, with 1 warning\n"), "{text}");
}

#[test]
fn x2_only_the_old_static_pod_directory_is_removed() {
    let plan = plan("X2-static-pod-log-dirs.json");
    assert_eq!(removed(&plan, Kind::LogDir).len(), 1, "{:#?}", plan.actions);
}

/// Each cause is the refused connection, so the file was read to its end.
#[test]
fn c3_kubeconfig_data_in_any_form_are_read() {
    for name in
        ["C3a-kubeconfig-literal-block.yaml", "C3b-kubeconfig-binary-block.yaml", "C3d-kubeconfig-one-line.yaml"]
    {
        // No server listens on port 1.
        let kubeconfig = data(name).replace("127.0.0.1:6443", "127.0.0.1:1");
        let text =
            Shell::new().with("kubeconfig", &kubeconfig).run(&["controller", "plan", "--kubeconfig", "kubeconfig"]);
        assert!(text.starts_with("exit Some(3)\n") && text.contains("refused"), "{name}: {text}");
    }
}

#[test]
fn c5b_both_objects_of_a_uid_are_judged() {
    let file = format!("{DATA}/C5b-crd-shares-uid-of-aggregated-object.json");
    let text = Shell::new().run(&["controller", "plan", "-o", "json", "--snapshot", &file]);
    let plan: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(plan["kept"][0]["reason"], "shares_uid", "{text}");
    assert_eq!(plan["findings"][0]["kind"], "shared_uid", "{text}");
}

#[test]
fn c5c_a_project_is_its_namespace() {
    let file = format!("{DATA}/C5c-project-is-the-namespace.json");
    let text = Shell::new().run(&["controller", "plan", "--snapshot", &file]);
    assert!(text.contains("delete  Namespace  team-a") && !text.contains("Project"), "{text}");
}
