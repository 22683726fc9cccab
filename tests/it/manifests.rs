//! The manifests for a cluster: every file is valid for the API, listed in its kustomization, and matches the agent.

mod controller;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::batch::v1::CronJob;
use k8s_openapi::api::core::v1::{ConfigMap, Container, Namespace, PodSpec, ServiceAccount, Volume};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kubegc::config::{Environment, Settings, Typed, load};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The directories with kustomizations, beneath `packaging`.
const KUSTOMIZATIONS: [&str; 6] =
    ["controller", "daemonset", "overlays/audit-only", "overlays/kubelet", "overlays/pods-only", "overlays/selinux"];

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

/// Returns the objects that a kustomization applies: its own, those of its base, and its patches on top.
pub fn rendered(within: &str) -> Vec<Value> {
    let read = |name: String| {
        if packaging(within).join(&name).is_dir() {
            return rendered(&format!("{within}/{name}"));
        }
        documents(&packaging(within).join(name))
    };
    let mut objects: Vec<_> = listed(within, "resources").into_iter().flat_map(read).collect();
    for patch in listed(within, "patches").into_iter().flat_map(|name| documents(&packaging(within).join(name))) {
        let is_target = |object: &&mut Value| {
            object["kind"] == patch["kind"] && object["metadata"]["name"] == patch["metadata"]["name"]
        };
        merge(objects.iter_mut().find(is_target).unwrap_or_else(|| panic!("no target of {patch:#}")), &patch);
    }
    objects
}

#[test]
fn every_kustomization_is_tested() {
    let subdirectories = |within: &str| -> Vec<String> {
        let entries = std::fs::read_dir(packaging(within)).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    let overlays = subdirectories("overlays").into_iter().map(|name| format!("overlays/{name}"));
    let found: BTreeSet<_> = subdirectories("").into_iter().filter(|name| name != "overlays").chain(overlays).collect();
    assert_eq!(found, KUSTOMIZATIONS.map(str::to_owned).into());
}

#[test]
fn the_api_accepts_every_field() {
    for kustomization in KUSTOMIZATIONS {
        for object in objects(kustomization) {
            assert_eq!(understood(&object), object);
        }
        for patch in listed(kustomization, "patches") {
            let written = documents(&packaging(kustomization).join(patch)).remove(0);
            assert!(contains(&understood(&written), &written), "{written:#}");
        }
    }
}

#[test]
fn every_file_is_listed_in_its_kustomization() {
    for kustomization in KUSTOMIZATIONS {
        let files = std::fs::read_dir(packaging(kustomization)).unwrap();
        let mut files: BTreeSet<_> = files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        assert!(files.remove("kustomization.yaml"), "{kustomization}");
        let listed = [listed(kustomization, "resources"), listed(kustomization, "patches")].concat();
        let (directories, named): (BTreeSet<_>, BTreeSet<_>) =
            listed.into_iter().partition(|name| packaging(kustomization).join(name).is_dir());
        assert_eq!(named, files, "{kustomization}");
        for directory in directories {
            assert!(packaging(kustomization).join(directory).join("kustomization.yaml").exists(), "{kustomization}");
        }
    }
}

#[test]
fn host_paths_are_mounted_where_the_agent_expects_them() {
    let pod = pod();
    let container = container(&pod);
    let settings = settings("daemonset");
    assert_eq!(settings.host_root, Path::new("/host"));
    for (path, may_write) in [
        (settings.policy.logs.pods_root.as_path(), true),
        (&settings.policy.logs.containers_root, true),
        (&settings.kubelet_root, false),
        (Path::new("/run/containerd"), false),
        (Path::new("/var/lib/containerd"), false),
    ] {
        let volume = volume_of(&pod, &format!("/host{}", path.display()));
        assert_eq!(volume.host_path.as_ref().map(|host| Path::new(&host.path)), Some(path), "{volume:?}");
        let mount = mounts(container).iter().find(|mount| mount.name == volume.name).unwrap();
        assert_eq!(mount.read_only != Some(true), may_write, "{mount:?}");
    }
    for (file, why) in [(&settings.state.path, "outlives the pod"), (&settings.state.lock, "excludes the host's agent")]
    {
        let dir = file.parent().unwrap().display().to_string();
        let volume = volume_of(&pod, &dir).host_path.clone().unwrap();
        assert_eq!((volume.path, volume.type_.as_deref()), (dir, Some("DirectoryOrCreate")), "{why}");
    }
    assert_eq!(mounts(container).len(), 8, "and nothing more");
}

/// If a mount beneath a directory is copied and not propagated, it remains busy when its owner unmounts it.
#[test]
fn mounts_of_others_are_not_kept_busy() {
    let pod = pod();
    let read_only = mounts(container(&pod)).iter().filter(|mount| mount.read_only == Some(true));
    let copied: Vec<_> = read_only
        .filter(|mount| mount.mount_path.starts_with("/host/"))
        .filter(|mount| mount.mount_propagation.as_deref() != Some("HostToContainer"))
        .collect();
    assert!(copied.is_empty(), "{copied:?}");
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
fn the_settings_in_the_manifests_are_known() {
    for (within, source) in [("daemonset", "kube-api"), ("overlays/kubelet", "kubelet")] {
        assert!(toml(within).contains(&format!("source = \"{source}\"")), "{within}");
        settings(within);
    }
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

fn volume_of<'a>(pod: &'a PodSpec, path: &str) -> &'a Volume {
    let mount = mounts(container(pod)).iter().find(|mount| mount.mount_path == path);
    let name = &mount.unwrap_or_else(|| panic!("nothing is mounted at {path}")).name;
    pod.volumes.as_deref().unwrap_or_default().iter().find(|volume| volume.name == *name).unwrap()
}

/// Returns the settings file of a kustomization, which is the object itself or a patch.
pub fn toml(within: &str) -> String {
    let map = documents(&packaging(within).join("configmap.yaml")).remove(0);
    let map: ConfigMap = serde_json::from_value(map).unwrap();
    map.data.unwrap().remove("kubegc.toml").unwrap()
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
    let name = |entry: &Value| entry.as_str().or(entry["path"].as_str()).unwrap().to_owned();
    entries.iter().map(name).collect()
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
        "ClusterRole" => through::<ClusterRole>(object),
        "ClusterRoleBinding" => through::<ClusterRoleBinding>(object),
        "Role" => through::<Role>(object),
        "RoleBinding" => through::<RoleBinding>(object),
        "ConfigMap" => through::<ConfigMap>(object),
        "DaemonSet" => through::<DaemonSet>(object),
        "Deployment" => through::<Deployment>(object),
        "CronJob" => through::<CronJob>(object),
        other => panic!("{other}"),
    }
}

/// Says whether all of `part` is in `whole`, which has defaults besides.
fn contains(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            part.iter().all(|(key, part)| whole.get(key).is_some_and(|whole| contains(whole, part)))
        }
        (Value::Array(whole), Value::Array(part)) => {
            whole.len() == part.len() && whole.iter().zip(part).all(|(whole, part)| contains(whole, part))
        }
        _ => whole == part,
    }
}

/// Applies a patch as Kustomize does: lists of named objects, such as containers, are merged by name, and other lists are
/// replaced.
fn merge(whole: &mut Value, patch: &Value) {
    let is_named = |list: &[Value]| list.iter().all(|entry| entry["name"].is_string());
    match (whole, patch) {
        (Value::Object(whole), Value::Object(patch)) => {
            for (key, patch) in patch {
                merge(whole.entry(key.clone()).or_insert(Value::Null), patch);
            }
        }
        (Value::Array(whole), Value::Array(patch)) if is_named(whole) && is_named(patch) => {
            for patch in patch {
                match whole.iter_mut().find(|entry| entry["name"] == patch["name"]) {
                    Some(entry) => merge(entry, patch),
                    None => whole.push(patch.clone()),
                }
            }
        }
        (whole, patch) => *whole = patch.clone(),
    }
}
