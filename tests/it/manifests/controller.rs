//! The manifests of `kubegc controller`: the collector, the audit, and the pod garbage collector alone.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::PodSpec;
use kubegc::controller::ControllerSettings;
use serde_json::{Value, json};

use super::{container, documents, mounts, object, objects, packaging, rendered, settings, settings_of, toml};

/// Each kustomization, the name of its objects, and where its pod template is.
const INSTALLATIONS: [(&str, &str, &str); 3] = [
    ("controller", "kubegc-controller", "/spec/template/spec"),
    ("overlays/pods-only", "kubegc-controller", "/spec/template/spec"),
    ("overlays/audit-only", "kubegc-audit", "/spec/jobTemplate/spec/template/spec"),
];

fn pod(within: &str, pointer: &str) -> PodSpec {
    let pods: Vec<_> = rendered(within).iter().filter_map(|object| object.pointer(pointer).cloned()).collect();
    let [pod] = &pods[..] else { panic!("{pods:#?}") };
    serde_json::from_value(pod.clone()).unwrap()
}

fn deployment() -> k8s_openapi::api::apps::v1::DeploymentSpec {
    object::<Deployment>("controller", "Deployment").spec.unwrap()
}

/// Returns the rules of the only cluster role.
fn cluster_rules(within: &str) -> Value {
    let roles: Vec<_> = rendered(within).into_iter().filter(|object| object["kind"] == "ClusterRole").collect();
    let [role] = &roles[..] else { panic!("{roles:#?}") };
    role["rules"].clone()
}

/// Different files would change the namespace whenever the other one is applied.
#[test]
fn the_namespace_is_the_same_everywhere() {
    let namespace = |within: &str| documents(&packaging(within).join("namespace.yaml"));
    for within in ["controller", "overlays/audit-only"] {
        assert_eq!(namespace(within), namespace("daemonset"), "{within}");
    }
}

#[test]
fn names_match() {
    for (within, name, _) in INSTALLATIONS {
        for object in rendered(within).iter().filter(|object| object["kind"] != "Namespace") {
            let metadata = &object["metadata"];
            let is_generated = object["kind"] == "ConfigMap";
            let named = metadata["name"].as_str().unwrap();
            // Without the hash. Any other name would change the name of the Lease in the Role.
            let named = if is_generated { named.rsplit_once("-config-").unwrap().0 } else { named };
            assert_eq!(named, name, "{object:#}");
            assert_eq!(metadata["labels"], json!({ "app.kubernetes.io/name": name }), "{object:#}");
            if let Some(role) = object.get("roleRef") {
                let kind = if object["kind"] == "RoleBinding" { "Role" } else { "ClusterRole" };
                assert_eq!((&role["kind"], &role["name"]), (&json!(kind), &json!(name)), "{object:#}");
                let account = json!([{ "kind": "ServiceAccount", "name": name, "namespace": "kubegc-system" }]);
                assert_eq!(object["subjects"], account, "{object:#}");
            }
        }
        let kinds: BTreeSet<_> = rendered(within).iter().map(|object| object["kind"].to_string()).collect();
        assert!(kinds.contains("\"ServiceAccount\"") && kinds.contains("\"ClusterRoleBinding\""), "{kinds:?}");
    }
}

/// A workload adopts pods that its selector matches.
#[test]
fn the_selectors_match_no_pods_of_others() {
    let spec = deployment();
    assert_eq!(spec.selector.match_labels, spec.template.metadata.unwrap().labels);
    let agent = object::<DaemonSet>("daemonset", "DaemonSet").spec.unwrap();
    assert_ne!(spec.selector.match_labels, agent.selector.match_labels);
    let spread = spec.template.spec.unwrap().topology_spread_constraints.unwrap();
    assert_eq!(spread[0].label_selector, Some(spec.selector));
}

/// The level `restricted` of the pod security standards, and more: no volume of the host, a read-only root file system.
#[test]
fn the_pods_have_no_privileges() {
    for (within, name, pointer) in INSTALLATIONS {
        let pod = pod(within, pointer);
        assert_eq!(pod.service_account_name.as_deref(), Some(name));
        let context = pod.security_context.clone().unwrap();
        assert_eq!(context.run_as_non_root, Some(true), "{within}");
        assert!(context.run_as_user > Some(0) && context.run_as_group > Some(0), "{within}");
        assert_eq!(context.seccomp_profile.unwrap().type_, "RuntimeDefault", "{within}");
        assert_eq!((pod.host_network, pod.host_pid, pod.host_ipc), (None, None, None), "{within}");
        let volumes = pod.volumes.as_deref().unwrap_or_default();
        assert!(volumes.iter().all(|volume| volume.config_map.is_some()), "{within}: {volumes:?}");

        let container = container(&pod);
        let context = container.security_context.clone().unwrap();
        let capabilities = context.capabilities.unwrap();
        assert_eq!((capabilities.drop, capabilities.add), (Some(vec!["ALL".to_owned()]), None), "{within}");
        assert_eq!(context.privileged, Some(false), "{within}");
        assert_eq!(context.allow_privilege_escalation, Some(false), "{within}");
        assert_eq!(context.read_only_root_filesystem, Some(true), "{within}");
        let resources = container.resources.clone().unwrap();
        let (requests, limits) = (resources.requests.unwrap(), resources.limits.unwrap());
        assert!(requests.contains_key("cpu") && requests.contains_key("memory"), "{within}");
        assert!(limits.contains_key("memory") && !limits.contains_key("cpu"), "{within}");
    }
}

#[test]
fn the_replicas_share_the_lease_that_the_role_permits() {
    let spec = deployment();
    assert_eq!(spec.replicas, Some(2));
    let update = spec.strategy.unwrap().rolling_update.unwrap();
    let numbers = [update.max_surge, update.max_unavailable].map(|number| serde_json::to_value(number).unwrap());
    assert_eq!(numbers, [json!(0), json!(1)], "one of two remains");
    let pod = spec.template.spec.unwrap();
    assert_eq!(pod.priority_class_name.as_deref(), Some("system-cluster-critical"));
    assert!(container(&pod).args.as_ref().unwrap().contains(&"--leader-elect".to_owned()));

    let lease = settings("controller").controller.lease;
    let role = objects("controller").into_iter().find(|object| object["kind"] == "Role").unwrap();
    assert_eq!(role["metadata"]["namespace"], lease.namespace);
    let leases =
        |verbs: Value| json!({ "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": verbs });
    let mut named = leases(json!(["get", "update"]));
    named["resourceNames"] = json!([lease.name]);
    assert_eq!(role["rules"], json!([leases(json!(["create"])), named]));
}

/// After a signal, calls in flight have two answer time-outs, and the return of the lease two calls of 2 s.
#[test]
fn the_grace_period_is_longer_than_a_shutdown() {
    let answer = settings("controller").controller.calls.answer;
    let grace = deployment().template.spec.unwrap().termination_grace_period_seconds.unwrap();
    assert!(Duration::from_secs(grace.unsigned_abs()) > answer * 2 + Duration::from_secs(4), "{grace}");
}

/// Settings that are commented out have no blank after the mark.
#[test]
fn comments_of_the_settings_show_the_defaults() {
    let pod = pod("controller", "/spec/template/spec");
    let [mount] = mounts(container(&pod)) else { panic!("more or fewer than one mount") };
    assert_eq!((&*mount.mount_path, mount.read_only), ("/etc/kubegc", Some(true)));
    assert_eq!(settings("controller").controller, ControllerSettings::default());

    let toml = toml("controller");
    let is_setting = |line: &&str| line.starts_with('#') && !line.starts_with("# ");
    assert!(toml.lines().filter(is_setting).count() >= 7, "{toml}");
    let uncommented: Vec<_> =
        toml.lines().map(|line| if is_setting(&line) { line.trim_start_matches('#') } else { line }).collect();
    assert_eq!(settings_of(&uncommented.join("\n")), settings("controller"));
}

#[test]
fn the_program_knows_the_arguments() {
    for (within, _, pointer) in INSTALLATIONS {
        let args = container(&pod(within, pointer)).args.clone().unwrap();
        // An unknown argument before --help is an error.
        let ran = Command::new(env!("CARGO_BIN_EXE_kubegc")).args(&args).arg("--help").output().unwrap();
        assert!(ran.status.success(), "{args:?}: {}", String::from_utf8_lossy(&ran.stderr));
    }
}

#[test]
fn the_audit_cannot_write() {
    let rules = json!([{ "apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"] }]);
    assert_eq!(cluster_rules("overlays/audit-only"), rules);
    assert!(rendered("overlays/audit-only").iter().all(|object| object["kind"] != "Role"));
}

/// The rules for all resources are replaced, and nothing else but the arguments is.
#[test]
fn pods_only_permits_changes_of_pods_alone() {
    let rule = |resource: &str, verbs: &[&str]| json!({ "apiGroups": [""], "resources": [resource], "verbs": verbs });
    let rules = json!([
        rule("pods", &["list", "watch", "delete"]),
        rule("pods/status", &["patch"]),
        rule("nodes", &["get", "list", "watch"]),
    ]);
    assert_eq!(cluster_rules("overlays/pods-only"), rules);

    let mut whole = rendered("controller");
    for object in &mut whole {
        if object["kind"] == "ClusterRole" {
            object["rules"] = rules.clone();
        }
        if object["kind"] == "Deployment" {
            let args = object.pointer_mut("/spec/template/spec/containers/0/args").unwrap();
            args.as_array_mut().unwrap().push(json!("--pods-only"));
        }
    }
    assert_eq!(rendered("overlays/pods-only"), whole);
}
