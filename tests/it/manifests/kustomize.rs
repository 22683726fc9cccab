//! The objects that `kubectl apply -k` applies, from Kustomize itself.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};

use serde_json::Value;

use super::packaging;
use crate::rig::run;

/// Returns the path of kubectl. `scripts/kubectl.sh` downloads it.
pub fn kubectl() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/kubectl.sh");
    PATH.get_or_init(|| run(&mut Command::new(script)).trim_end().into())
}

/// Returns the objects that a kustomization beneath `packaging` applies. Each is rendered once.
pub fn rendered(within: &str) -> Vec<Value> {
    static RENDERED: Mutex<BTreeMap<String, Vec<Value>>> = Mutex::new(BTreeMap::new());
    let mut known = RENDERED.lock().unwrap_or_else(PoisonError::into_inner);
    known.entry(within.to_owned()).or_insert_with(|| rendered_at(&packaging(within))).clone()
}

/// Returns the objects that a kustomization applies.
pub fn rendered_at(directory: &Path) -> Vec<Value> {
    let text = run(Command::new(kubectl()).env_clear().arg("kustomize").arg(directory));
    serde_saphyr::from_multiple(&text).unwrap_or_else(|error| panic!("{}: {error}", directory.display()))
}

/// Copies all manifests to a directory, as a user does who changes them.
pub fn copy(to: &Path) {
    run(Command::new("cp").arg("-r").arg(packaging("")).arg(to));
}

#[test]
fn a_changed_configuration_replaces_the_pods() {
    let dir = tempfile::tempdir().unwrap();
    copy(dir.path());
    for (within, kind) in [("daemonset", "DaemonSet"), ("overlays/k0s", "DaemonSet"), ("controller", "Deployment")] {
        let at = dir.path().join("packaging").join(within);
        let before = template(&at, kind);
        let file = at.join("kubegc.toml");
        assert_eq!(before, template(&at, kind), "{within}: the same file has the same name");
        std::fs::write(&file, std::fs::read_to_string(&file).unwrap() + "# changed\n").unwrap();
        assert_ne!(before, template(&at, kind), "{within}");
    }
}

/// As the head of the component says, for agents of any distribution and for the controller.
#[test]
fn the_component_collect_is_for_each_kustomization() {
    let dir = tempfile::tempdir().unwrap();
    copy(dir.path());
    let own = dir.path().join("packaging/own");
    std::fs::create_dir(&own).unwrap();
    for within in ["overlays/k3s", "overlays/openshift", "controller", "overlays/pods-only"] {
        let text = format!("resources: [../{within}]\ncomponents: [../components/collect]\n");
        std::fs::write(own.join("kustomization.yaml"), text).unwrap();
        let args = |objects: &[Value]| -> Vec<Value> {
            let args = objects.iter().find_map(|object| object.pointer("/spec/template/spec/containers/0/args"));
            args.unwrap().as_array().unwrap().clone()
        };
        let (with, without) = (args(&rendered_at(&own)), args(&rendered(within)));
        assert_eq!(with, [without, vec!["--mode=collect".into()]].concat(), "{within}");
    }
}

/// Returns the template of the pods, which names the generated ConfigMap.
fn template(at: &Path, kind: &str) -> Value {
    let objects = rendered_at(at);
    let of_kind = |kind: &str| objects.iter().find(|object| object["kind"] == kind).unwrap();
    let (map, template) = (of_kind("ConfigMap"), &of_kind(kind)["spec"]["template"]);
    let volumes = template["spec"]["volumes"].as_array().unwrap();
    assert!(volumes.iter().any(|volume| volume["configMap"]["name"] == map["metadata"]["name"]), "{template:#}");
    template.clone()
}
