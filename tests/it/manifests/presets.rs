//! `docs/distributions.md`: each command gives a `DaemonSet` with the paths and permissions of its distribution.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::PodSpec;
use serde_json::{Value, json};

use super::chart::chart_text;
use super::{container, packaging, rendered};

/// What a distribution needs: directories of the runtime, of its images and of the kubelet, and the type for `SELinux`.
struct Preset {
    heading: &'static str,
    runtime: &'static str,
    images: &'static [&'static str],
    kubelet: &'static str,
    selinux: Option<&'static str>,
}

const CONTAINERD: Preset = Preset {
    heading: "EKS",
    runtime: "/run/containerd",
    images: &["/var/lib/containerd"],
    kubelet: "/var/lib/kubelet",
    selinux: None,
};

const PRESETS: [Preset; 6] = [
    CONTAINERD,
    Preset { heading: "GKE", ..CONTAINERD },
    Preset { heading: "AKS", images: &["/var/lib/containerd", "/mnt/aks/containers"], ..CONTAINERD },
    Preset {
        heading: "OpenShift",
        runtime: "/run/crio",
        images: &["/var/lib/containers/storage"; 2],
        selinux: Some("spc_t"),
        ..CONTAINERD
    },
    Preset { heading: "Bottlerocket", ..CONTAINERD },
    Preset { heading: "Talos", ..CONTAINERD },
];

/// Returns the commands of each section, by its heading.
fn sections() -> Vec<(&'static str, Vec<&'static str>)> {
    let page = include_str!("../../../docs/distributions.md");
    let sections = page.split("\n## ").skip(1).map(|section| section.split_once('\n').unwrap());
    let blocks =
        |text: &'static str| text.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap().trim());
    sections.map(|(heading, text)| (heading, blocks(text).collect())).collect()
}

/// Returns the objects that a command of the page applies.
fn objects_of(command: &str) -> Vec<Value> {
    if let Some(within) = command.strip_prefix("kubectl apply -k packaging/") {
        return rendered(within);
    }
    let rest = command.strip_prefix("helm install kubegc packaging/chart -n kubegc-system").unwrap();
    let values = rest.trim().strip_prefix("--set ").unwrap();
    serde_saphyr::from_multiple(&chart_text(&packaging("chart"), values)).unwrap()
}

fn pod_of(objects: &[Value]) -> PodSpec {
    let set = objects.iter().find(|object| object["kind"] == "DaemonSet").unwrap();
    let set: DaemonSet = serde_json::from_value(set.clone()).unwrap();
    set.spec.unwrap().template.spec.unwrap()
}

fn host_paths(pod: &PodSpec) -> BTreeSet<String> {
    let volumes = pod.volumes.iter().flatten().filter_map(|volume| volume.host_path.as_ref());
    volumes.map(|volume| volume.path.clone()).collect()
}

#[test]
fn each_command_of_the_page_has_the_paths_of_its_distribution() {
    let sections = sections();
    assert_eq!(sections.iter().map(|(heading, _)| *heading).collect::<Vec<_>>(), PRESETS.map(|preset| preset.heading));
    for (preset, (heading, commands)) in PRESETS.iter().zip(&sections) {
        assert_eq!(commands.len(), preset.images.len(), "{heading}");
        for (command, images) in commands.iter().zip(preset.images) {
            let pod = pod_of(&objects_of(command));
            let paths = host_paths(&pod);
            let pods = format!("{}/pods", preset.kubelet);
            for path in [preset.runtime, images, &pods, "/var/log/pods", "/var/log/containers"] {
                assert!(paths.contains(path), "{command}: {path} is not in {paths:?}");
            }
            let security = container(&pod).security_context.clone().unwrap();
            let selinux = security.se_linux_options.and_then(|options| options.type_);
            assert_eq!(selinux.as_deref(), preset.selinux, "{command}");
        }
    }
}

/// The API server refuses what they do not permit, and a wider one would be refused by its readers.
#[test]
fn the_constraints_permit_exactly_what_the_pods_use() {
    let with_kubelet =
        "helm install kubegc packaging/chart -n kubegc-system --set distribution=openshift,podSource=kubelet";
    let commands = &sections().into_iter().find(|(heading, _)| *heading == "OpenShift").unwrap().1;
    for command in commands.iter().copied().chain([with_kubelet]) {
        let objects = objects_of(command);
        let scc = objects.iter().find(|object| object["kind"] == "SecurityContextConstraints").unwrap();
        let pod = pod_of(&objects);
        let container = json!(container(&pod));
        let (security, on_host) = (&container["securityContext"], pod.host_network == Some(true));
        let kinds: BTreeSet<_> = pod
            .volumes
            .iter()
            .flatten()
            .map(|volume| if volume.host_path.is_some() { "hostPath" } else { "configMap" })
            .collect();
        // The admission adds the token of the account as a projected volume.
        let kinds: Vec<_> = kinds.into_iter().chain(["projected"]).collect();
        let expected = json!({
            "allowHostDirVolumePlugin": true, "allowHostIPC": pod.host_ipc.unwrap_or_default(), "allowHostNetwork": on_host,
            "allowHostPID": pod.host_pid.unwrap_or_default(), "allowHostPorts": on_host,
            "allowPrivilegedContainer": security["privileged"],
            "allowPrivilegeEscalation": security["allowPrivilegeEscalation"],
            "allowedCapabilities": security["capabilities"]["add"],
            "requiredDropCapabilities": security["capabilities"]["drop"],
            "readOnlyRootFilesystem": security["readOnlyRootFilesystem"],
            "runAsUser": { "type": "MustRunAs", "uid": security["runAsUser"] },
            "seccompProfiles": ["runtime/default"], "volumes": kinds,
            "seLinuxContext": { "type": "RunAsAny" }, "fsGroup": { "type": "RunAsAny" }, "supplementalGroups": { "type": "RunAsAny" },
        });
        assert_eq!(security["seccompProfile"]["type"], "RuntimeDefault");
        for (field, value) in expected.as_object().unwrap() {
            assert_eq!(&scc[field], value, "{command}: {field}");
        }
        let role = objects
            .iter()
            .find(|object| object["kind"] == "Role" && object["rules"][0]["verbs"] == json!(["use"]))
            .unwrap();
        assert_eq!(role["rules"][0]["resourceNames"], json!([scc["metadata"]["name"]]));
        let known = expected.as_object().unwrap().len() + ["apiVersion", "kind", "metadata"].len();
        assert_eq!(scc.as_object().unwrap().len(), known, "{scc:#}");
    }
}
