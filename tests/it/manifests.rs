//! The manifests for a cluster: every file is valid for the API, listed in its kustomization, and matches the agent.

mod agents;
mod chart;
mod controller;
mod kustomize;
mod presets;
mod requirements;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::batch::v1::CronJob;
use k8s_openapi::api::core::v1::{ConfigMap, Container, Namespace, PodSpec, ResourceQuota, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kubegc::config::{Environment, Settings, Typed, load};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use agents::AGENTS;
pub use chart::{ALL, chart_text, helm_script};
pub use kustomize::{copy, kubectl, rendered};

/// The directories with kustomizations, beneath `packaging`.
const KUSTOMIZATIONS: [&str; 17] = [
    "controller",
    "daemonset",
    "overlays/audit-only",
    "overlays/collect",
    "overlays/crio",
    "overlays/fleet",
    "overlays/k0s",
    "overlays/k3s",
    "overlays/kubelet",
    "overlays/log-archive",
    "overlays/microk8s",
    "overlays/namespaces",
    "overlays/openshift",
    "overlays/pods-only",
    "overlays/rke2",
    "overlays/selinux",
    "overlays/workloads",
];

/// The parts that several kustomizations can use.
const COMPONENTS: [&str; 6] = [
    "components/collect",
    "components/fleet",
    "components/log-archive",
    "components/namespaces",
    "components/selinux",
    "components/workloads",
];

/// Returns a directory of manifests.
pub fn packaging(within: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging").join(within)
}

/// Returns the YAML documents of a file.
pub fn documents(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_saphyr::from_multiple(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns all objects that a kustomization lists itself, in order.
pub fn objects(within: &str) -> Vec<Value> {
    let files = listed(within, "resources").into_iter().filter(|name| packaging(within).join(name).is_file());
    files.flat_map(|name| documents(&packaging(within).join(name))).collect()
}

/// Returns the only object of a kind that a kustomization lists.
pub fn object<T: DeserializeOwned>(within: &str, kind: &str) -> T {
    let mut found = objects(within).into_iter().filter(|object| object["kind"] == kind);
    let object = found.next().unwrap_or_else(|| panic!("no {kind} in {within}"));
    assert!(found.next().is_none(), "more than one {kind} in {within}");
    serde_json::from_value(object).unwrap()
}

#[test]
fn every_kustomization_is_tested() {
    let subdirectories = |within: &str| -> Vec<String> {
        let entries = std::fs::read_dir(packaging(within)).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    let beneath = |parent: &String| -> Vec<String> {
        subdirectories(parent).iter().map(|name| format!("{parent}/{name}")).collect()
    };
    let (parents, alone): (Vec<_>, Vec<_>) = subdirectories("")
        .into_iter()
        .filter(|name| !["chart", "deb", "envtest", "monitoring", "release-signers", "rpm"].contains(&name.as_str()))
        .partition(|name| ["components", "overlays"].contains(&name.as_str()));
    let found: BTreeSet<_> = alone.into_iter().chain(parents.iter().flat_map(beneath)).collect();
    assert_eq!(found, KUSTOMIZATIONS.into_iter().chain(COMPONENTS).map(str::to_owned).collect());
}

#[test]
fn the_api_accepts_every_field() {
    for kustomization in KUSTOMIZATIONS {
        for object in rendered(kustomization) {
            assert_eq!(understood(&object), object);
        }
    }
}

#[test]
fn every_file_is_listed_in_its_kustomization() {
    for kustomization in KUSTOMIZATIONS.into_iter().chain(COMPONENTS) {
        let files = std::fs::read_dir(packaging(kustomization)).unwrap();
        let mut files: BTreeSet<_> = files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        assert!(files.remove("kustomization.yaml"), "{kustomization}");
        let listed = ["resources", "patches", "components"].into_iter().flat_map(|list| listed(kustomization, list));
        let (directories, mut named): (BTreeSet<_>, BTreeSet<_>) =
            listed.partition(|name| packaging(kustomization).join(name).is_dir());
        named.extend(generated_from(kustomization));
        assert_eq!(named, files, "{kustomization}");
        for directory in directories {
            assert!(packaging(kustomization).join(directory).join("kustomization.yaml").exists(), "{kustomization}");
        }
    }
}

#[test]
fn the_agent_has_two_capabilities_and_no_other() {
    let pod = pod();
    let context = container(&pod).security_context.clone().unwrap();
    let capabilities = context.capabilities.unwrap();
    assert_eq!(capabilities.drop, Some(vec!["ALL".to_owned()]));
    assert_eq!(capabilities.add, Some(vec!["DAC_OVERRIDE".to_owned(), "FOWNER".to_owned()]));
    let unit = std::fs::read_to_string(packaging("../systemd/kubegc.service")).unwrap();
    assert!(unit.contains("\nCapabilityBoundingSet=CAP_DAC_OVERRIDE CAP_FOWNER\n"), "the unit has the same");
    assert_eq!(context.privileged, Some(false));
    assert_eq!(context.allow_privilege_escalation, Some(false));
    assert_eq!(context.read_only_root_filesystem, Some(true));
    assert_eq!((pod.host_network, pod.host_pid, pod.host_ipc), (None, None, None));
}

#[test]
fn the_agent_runs_on_every_node_with_a_kubelet() {
    let pod = pod();
    assert_eq!(pod.priority_class_name.as_deref(), Some("system-node-critical"));
    let tolerations = pod.tolerations.as_deref().unwrap_or_default();
    assert!(tolerations.iter().any(|one| one.operator.as_deref() == Some("Exists") && one.key.is_none()));
    let env = container(&pod).env.as_deref().unwrap_or_default();
    let field =
        env.iter().find(|variable| variable.name == "NODE_NAME").and_then(|variable| variable.value_from.clone());
    assert_eq!(field.unwrap().field_ref.unwrap().field_path, "spec.nodeName");
}

#[test]
fn the_image_is_of_this_version() {
    for within in ["controller", "daemonset", "overlays/audit-only"] {
        let kustomization = documents(&packaging(within).join("kustomization.yaml")).remove(0);
        let image = &kustomization["images"][0];
        assert_eq!(image["newTag"], env!("CARGO_PKG_VERSION"), "{within}");
        assert_eq!(image["name"].as_str(), container(&pod()).image.as_deref(), "{within}");
        let script = std::fs::read_to_string(packaging("../scripts/image.sh")).unwrap();
        assert!(script.contains(&format!("name={}:$version", image["name"].as_str().unwrap())), "{within}");
    }
}

/// Returns the template of the agent's pods.
fn pod() -> PodSpec {
    object::<DaemonSet>("daemonset", "DaemonSet").spec.unwrap().template.spec.unwrap()
}

fn container(pod: &PodSpec) -> &Container {
    let [container] = &pod.containers[..] else { panic!("{} containers", pod.containers.len()) };
    container
}

fn mounts(container: &Container) -> &[k8s_openapi::api::core::v1::VolumeMount] {
    container.volume_mounts.as_deref().unwrap_or_default()
}

/// Returns the settings file of a kustomization.
pub fn toml(within: &str) -> String {
    let maps: Vec<_> = rendered(within).into_iter().filter(|object| object["kind"] == "ConfigMap").collect();
    let [map] = &maps[..] else { panic!("{maps:#?}") };
    map["data"]["kubegc.toml"].as_str().unwrap().to_owned()
}

fn settings(within: &str) -> Settings {
    settings_of(&toml(within))
}

fn settings_of(toml: &str) -> Settings {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kubegc.toml");
    std::fs::write(&path, toml).unwrap();
    let typed = Typed { config: Some(path), ..Typed::default() };
    load(&typed, &Environment::default()).unwrap_or_else(|error| panic!("{error} in {toml}")).settings
}

fn listed(within: &str, list: &str) -> Vec<String> {
    let kustomization = documents(&packaging(within).join("kustomization.yaml")).remove(0);
    let entries = kustomization[list].as_array().cloned().unwrap_or_default();
    // A patch within the kustomization is no file.
    let name = |entry: &Value| entry.as_str().or(entry["path"].as_str()).map(str::to_owned);
    entries.iter().filter_map(name).collect()
}

/// Returns the files from which a kustomization generates ConfigMaps.
fn generated_from(within: &str) -> Vec<String> {
    let kustomization = documents(&packaging(within).join("kustomization.yaml")).remove(0);
    let generators = kustomization["configMapGenerator"].as_array().cloned().unwrap_or_default();
    let files = generators.iter().flat_map(|generator| generator["files"].as_array().unwrap());
    files.map(|file| file.as_str().unwrap().to_owned()).collect()
}

/// Returns an object after conversion to the API's types, which drops unknown fields.
fn understood(object: &Value) -> Value {
    fn through<T: DeserializeOwned + Serialize>(object: &Value) -> Value {
        let typed: T = serde_json::from_value(object.clone()).unwrap_or_else(|error| panic!("{error}: {object:#}"));
        serde_json::to_value(typed).unwrap()
    }
    match object["kind"].as_str().unwrap() {
        "Namespace" => through::<Namespace>(object),
        "ServiceAccount" => through::<ServiceAccount>(object),
        "CustomResourceDefinition" => through::<CustomResourceDefinition>(object),
        "ClusterRole" => through::<ClusterRole>(object),
        "ClusterRoleBinding" => through::<ClusterRoleBinding>(object),
        "Role" => through::<Role>(object),
        "RoleBinding" => through::<RoleBinding>(object),
        "ConfigMap" => through::<ConfigMap>(object),
        "ResourceQuota" => through::<ResourceQuota>(object),
        "Service" => through::<Service>(object),
        "ValidatingAdmissionPolicy" => through::<ValidatingAdmissionPolicy>(object),
        "ValidatingAdmissionPolicyBinding" => through::<ValidatingAdmissionPolicyBinding>(object),
        "DaemonSet" => through::<DaemonSet>(object),
        "Deployment" => through::<Deployment>(object),
        "CronJob" => through::<CronJob>(object),
        "NetworkPolicy" => through::<NetworkPolicy>(object),
        // k8s-openapi does not have it. A test compares it with the pods.
        "SecurityContextConstraints" => object.clone(),
        other => panic!("{other}"),
    }
}
