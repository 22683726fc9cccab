//! The code that is generated from `proto` is checked in, because the generator takes longer to compile than
//! most crates of kubegc. Here it runs again.

use std::path::Path;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt as _;
use kubegc::fleet::{NodeDisk, NodeDiskPolicy};
use serde_json::Value;

/// The services of containerd that kubegc uses; each has a file and a package of its own.
const CONTAINERD: [&str; 7] = ["containers", "content", "images", "introspection", "leases", "namespaces", "snapshots"];

/// Returns what the generator makes of the files in `proto`.
fn from_proto(root: &Path) -> String {
    let services =
        CONTAINERD.map(|service| format!("    pub mod {service} {{\n{}    }}\n", of_containerd(root, service)));
    format!(
        "{}/// The messages of containerd's own services.\npub mod containerd {{\n{}}}\n",
        cri(root),
        services.concat()
    )
}

/// Returns the messages of one service. Its calls are made by path, and the simulated node answers them so.
fn of_containerd(root: &Path, service: &str) -> String {
    let out = tempfile::tempdir().unwrap();
    let files = protox::compile([format!("{service}.proto")], [root.join("proto/containerd")]).unwrap();
    let configured = tonic_prost_build::configure().out_dir(out.path()).build_client(false).build_server(false);
    configured.compile_fds(files).unwrap();
    std::fs::read_to_string(out.path().join(format!("containerd.services.{service}.v1.rs"))).unwrap()
}

fn cri(root: &Path) -> String {
    let out = tempfile::tempdir().unwrap();
    let files = protox::compile(["cri.proto", "lists.proto"], [root.join("proto")]).unwrap();
    // What stays encoded refers to the buffer of the message.
    let configured = tonic_prost_build::configure().out_dir(out.path()).bytes(".");
    // Only the simulated node serves the CRI.
    configured.server_mod_attribute(".", "#[cfg(feature = \"sim\")]").compile_fds(files).unwrap();
    std::fs::read_to_string(out.path().join("runtime.v1.rs")).unwrap()
}

/// `scripts/generate.sh` writes the file instead.
#[test]
fn the_code_generated_from_the_proto_file_is_current() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (path, generated) = (root.join("src/cri/generated.rs"), from_proto(root));
    if std::env::var_os("KUBEGC_GENERATE").is_some() {
        std::fs::write(&path, &generated).unwrap();
    }
    assert!(std::fs::read_to_string(&path).unwrap() == generated, "{path:?} is not current: run scripts/generate.sh");
}

/// Removes the defaults of a schema. What reads a field takes its absence for the same, and an API server 1.20 that is built with a
/// later Go refuses an empty text as default: it takes it for null.
fn without_defaults(mut schema: Value) -> Value {
    match &mut schema {
        Value::Object(fields) => {
            fields.remove("default");
            fields.values_mut().for_each(|field| *field = without_defaults(field.take()));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| *item = without_defaults(item.take())),
        _ => {}
    }
    schema
}

/// Returns a definition that Helm and Argo CD keep. With it Kubernetes would delete all its objects, such as pauses in force.
fn kept(mut crd: CustomResourceDefinition) -> String {
    crd.metadata.annotations = Some([("helm.sh/resource-policy".to_owned(), "keep".to_owned())].into());
    serde_saphyr::to_string(&without_defaults(serde_json::to_value(crd).unwrap())).unwrap()
}

/// Of the component for Kustomize and of the chart. `scripts/generate.sh` writes the files instead.
#[test]
fn the_resource_definitions_are_current() {
    let definitions = [NodeDisk::crd(), NodeDiskPolicy::crd()].map(kept);
    let definition = definitions.join("---\n");
    let head = "# Generated from src/core/fleet by scripts/generate.sh.\n";
    for (path, text) in [
        ("packaging/components/fleet/crds.yaml", format!("{head}{definition}")),
        (
            "packaging/chart/templates/fleet.yaml",
            format!("{{{{- if and .Values.agent.enabled .Values.fleet }}}}\n{head}{definition}{{{{- end }}}}\n"),
        ),
    ] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
        if std::env::var_os("KUBEGC_GENERATE").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        assert!(std::fs::read_to_string(&path).unwrap_or_default() == text, "{path:?}: run scripts/generate.sh");
    }
}
