//! The kustomizations of the agent: for each distribution the volumes, the mounts and the settings agree.

use std::path::Path;
use std::process::Command;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{PodSpec, Volume, VolumeMount};
use kubegc::config::Mode;
use kubegc::cri::WELL_KNOWN;
use serde_json::json;

use super::{container, mounts, packaging, rendered, settings, settings_of, toml};

/// A kustomization of the agent, and the paths of its distribution.
pub struct Agent {
    /// The directory beneath `packaging`.
    pub within: &'static str,
    socket: &'static str,
    images: &'static str,
    kubelet: &'static str,
}

/// All kustomizations of the agent.
pub const AGENTS: [Agent; 13] = [
    containerd("daemonset"),
    containerd("overlays/collect"),
    containerd("overlays/fleet"),
    containerd("overlays/kubelet"),
    containerd("overlays/log-archive"),
    containerd("overlays/selinux"),
    containerd("overlays/workloads"),
    crio("overlays/crio"),
    crio("overlays/openshift"),
    Agent {
        within: "overlays/k3s",
        socket: "/run/k3s/containerd/containerd.sock",
        images: "/var/lib/rancher/k3s/agent/containerd",
        kubelet: "/var/lib/kubelet",
    },
    Agent {
        within: "overlays/rke2",
        socket: "/run/k3s/containerd/containerd.sock",
        images: "/var/lib/rancher/rke2/agent/containerd",
        kubelet: "/var/lib/kubelet",
    },
    Agent {
        within: "overlays/k0s",
        socket: "/run/k0s/containerd.sock",
        images: "/var/lib/k0s/containerd",
        kubelet: "/var/lib/k0s/kubelet",
    },
    Agent {
        within: "overlays/microk8s",
        socket: "/var/snap/microk8s/common/run/containerd.sock",
        images: "/var/snap/microk8s/common/var/lib/containerd",
        kubelet: "/var/snap/microk8s/common/var/lib/kubelet",
    },
];

const fn containerd(within: &'static str) -> Agent {
    Agent {
        within,
        socket: "/run/containerd/containerd.sock",
        images: "/var/lib/containerd",
        kubelet: "/var/lib/kubelet",
    }
}

const fn crio(within: &'static str) -> Agent {
    Agent { within, socket: "/run/crio/crio.sock", images: "/var/lib/containers/storage", kubelet: "/var/lib/kubelet" }
}

// === impl Agent ===

impl Agent {
    fn pod(&self) -> PodSpec {
        let mut objects = rendered(self.within).into_iter().filter(|object| object["kind"] == "DaemonSet");
        let set: DaemonSet = serde_json::from_value(objects.next().unwrap()).unwrap();
        set.spec.unwrap().template.spec.unwrap()
    }
}

/// Each directory of the host is mounted at its own path below `host_root`, and there is no other.
#[test]
fn host_paths_are_mounted_where_the_agent_expects_them() {
    for agent in AGENTS {
        let (pod, settings) = (agent.pod(), settings(agent.within));
        assert_eq!(settings.host_root, Path::new("/host"), "{}", agent.within);
        assert_eq!(settings.kubelet_root, Path::new(agent.kubelet), "{}", agent.within);
        assert!(WELL_KNOWN.contains(&agent.socket), "{}: the agent finds the socket", agent.within);
        let parent = |path: &str| Path::new(path).parent().unwrap().display().to_string();
        let kubelet = |part: &str| format!("{}/{part}", agent.kubelet);
        let logs = &settings.policy.logs;
        let mut expected = if agent.within == "overlays/log-archive" {
            assert!([&logs.pods_root, &logs.containers_root].iter().all(|root| root.starts_with("/var/log")));
            vec![("/var/log".to_owned(), false, "Directory")]
        } else {
            [&logs.pods_root, &logs.containers_root]
                .map(|root| (root.display().to_string(), false, "DirectoryOrCreate"))
                .to_vec()
        };
        expected.extend([
            (parent(agent.socket), true, "Directory"),
            (agent.images.to_owned(), true, "Directory"),
            (kubelet("pods"), true, "Directory"),
            (kubelet("image_manager"), true, "DirectoryOrCreate"),
        ]);
        if agent.within == "overlays/kubelet" {
            expected.push((kubelet("pki"), true, "Directory"));
        }
        let mut mounted: Vec<_> = host_mounts(&pod).map(|mount| of_host(&pod, mount)).collect();
        mounted.sort();
        expected.sort();
        let expected: Vec<_> = expected.into_iter().map(|(path, ro, kind)| (path, ro, kind.to_owned())).collect();
        assert_eq!(mounted, expected, "{}", agent.within);
    }
}

/// The store outlives the pod, and the lock excludes an agent on the host.
#[test]
fn the_store_and_the_lock_are_the_hosts() {
    for agent in AGENTS {
        let (pod, settings) = (agent.pod(), settings(agent.within));
        for file in [&settings.state.path, &settings.state.lock] {
            let dir = file.parent().unwrap().display().to_string();
            let mount = mounts(container(&pod)).iter().find(|mount| mount.mount_path == dir).unwrap();
            let host = volume(&pod, &mount.name).host_path.clone().unwrap();
            assert_eq!((host.path, host.type_.as_deref()), (dir, Some("DirectoryOrCreate")), "{}", agent.within);
        }
        let others = mounts(container(&pod)).len() - host_mounts(&pod).count();
        assert_eq!(others, 3, "{}: store, lock and configuration", agent.within);
    }
}

/// If a mount beneath a directory is copied and not propagated, it remains busy when its owner unmounts it.
#[test]
fn mounts_of_others_are_not_kept_busy() {
    for agent in AGENTS {
        let pod = agent.pod();
        let copied: Vec<_> = host_mounts(&pod)
            .filter(|mount| mount.read_only == Some(true))
            .filter(|mount| mount.mount_propagation.as_deref() != Some("HostToContainer"))
            .collect();
        assert!(copied.is_empty(), "{}: {copied:?}", agent.within);
    }
}

#[test]
fn the_binary_accepts_the_configuration_of_every_kustomization() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("kubegc.toml");
    for within in AGENTS.map(|agent| agent.within).into_iter().chain(["controller", "overlays/pods-only"]) {
        std::fs::write(&file, toml(within)).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_kubegc"));
        let ran = command.env_clear().args(["config", "check", "--config"]).arg(&file).output().unwrap();
        assert!(ran.status.success(), "{within}: {}", String::from_utf8_lossy(&ran.stderr));
    }
}

/// The files differ in facts of the distribution only, so a setting that is added to one is added to all.
#[test]
fn configurations_differ_only_in_kubelet_root_and_pod_source() {
    let common = |within: &str| {
        let text = toml(within).replace("source = \"kubelet\"", "source = \"kube-api\"");
        let lines =
            text.lines().filter(|line| !line.starts_with("kubelet_root") && !line.starts_with("# Other settings"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    for agent in AGENTS {
        assert_eq!(common(agent.within), common("daemonset"), "{}", agent.within);
        let source = if agent.within == "overlays/kubelet" { "kubelet" } else { "kube-api" };
        assert!(toml(agent.within).contains(&format!("source = \"{source}\"")), "{}: its permissions", agent.within);
    }
}

/// The configuration of each installation has the mode, and one argument of the component overrides it.
#[test]
fn every_installation_observes_at_first() {
    let package = std::fs::read_to_string(packaging("deb/kubegc.toml")).unwrap();
    let files = AGENTS.iter().map(|agent| toml(agent.within)).chain([package]);
    assert!(files.map(|text| settings_of(&text).mode).all(|mode| mode == Mode::Observe));
    let args = |within: &str| {
        let agent = AGENTS.into_iter().find(|agent| agent.within == within).unwrap();
        container(&agent.pod()).args.clone().unwrap()
    };
    let of_mode = |within: &str| args(within).into_iter().filter(|arg| arg.contains("mode")).collect::<Vec<_>>();
    assert!(
        AGENTS.iter().filter(|agent| agent.within != "overlays/collect").all(|agent| of_mode(agent.within).is_empty())
    );
    assert_eq!(args("overlays/collect"), [args("daemonset"), vec!["--mode=collect".to_owned()]].concat());
}

/// Without a quota, a cluster that limits critical priority classes refuses the pods.
#[test]
fn a_quota_permits_the_priority_class() {
    for (within, kind) in [("daemonset", "DaemonSet"), ("controller", "Deployment")] {
        let objects = rendered(within);
        let of_kind = |kind: &str| objects.iter().find(|object| object["kind"] == kind).unwrap();
        let class = &of_kind(kind)["spec"]["template"]["spec"]["priorityClassName"];
        let scope = json!([{ "scopeName": "PriorityClass", "operator": "In", "values": [class] }]);
        let quota = of_kind("ResourceQuota");
        assert_eq!(quota["spec"]["scopeSelector"]["matchExpressions"], scope, "{within}");
        assert_eq!(quota["metadata"]["namespace"], of_kind(kind)["metadata"]["namespace"], "{within}");
    }
}

/// Returns the mounts of directories of the host below `host_root`.
fn host_mounts(pod: &PodSpec) -> impl Iterator<Item = &VolumeMount> {
    mounts(container(pod)).iter().filter(|mount| mount.mount_path.starts_with("/host/"))
}

/// Returns the host's path of a mount, whether it is read-only, and the type of its volume.
fn of_host(pod: &PodSpec, mount: &VolumeMount) -> (String, bool, String) {
    let host = volume(pod, &mount.name).host_path.clone().unwrap();
    assert_eq!(mount.mount_path, format!("/host{}", host.path));
    (host.path, mount.read_only == Some(true), host.type_.unwrap())
}

fn volume<'a>(pod: &'a PodSpec, name: &str) -> &'a Volume {
    pod.volumes.as_deref().unwrap_or_default().iter().find(|volume| volume.name == name).unwrap()
}
