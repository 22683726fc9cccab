//! Cases about what a host has: sockets of runtimes, credentials of the kubelet.

use std::path::Path;

use kubegc::sim::Node;
use serde_json::Value;

use super::DATA;
use crate::cli_on_sim::Host;
use crate::shell::Shell;

/// Returns a shell whose host has these runtimes in these places, and a configuration without a socket.
fn with_sockets(sockets: &[(&Host, &str)]) -> Shell {
    let used = sockets[0].0;
    let config = std::fs::read_to_string(used.shell.path("kubegc.toml")).unwrap();
    let config: String = config
        .lines()
        .filter(|line| !line.starts_with("runtime.endpoint"))
        .map(|line| line.to_owned() + "\n")
        .collect();
    let shell = Shell::new();
    let root = shell.path("host");
    let shell = shell.with("kubegc.toml", &format!("host_root = \"{}\"\n{config}", root.display()));
    for (host, socket) in sockets {
        let socket = root.join(socket);
        std::fs::create_dir_all(socket.parent().unwrap()).unwrap();
        std::fs::hard_link(host.sim.endpoint().trim_start_matches("unix://"), socket).unwrap();
    }
    shell
}

/// Returns a host with a used runtime in CRI-O's place and an empty one in containerd's.
fn two_runtimes() -> (Host, Host, Shell) {
    let (empty, used) = (Host::with(Node::new()), Host::new());
    let shell = with_sockets(&[(&used, "run/crio/crio.sock"), (&empty, "run/containerd/containerd.sock")]);
    (empty, used, shell)
}

/// Docker's own containerd has none of the kubelet's containers.
#[test]
fn n4_the_containerd_of_docker_is_not_proposed() {
    let docker = Host::new();
    let text = with_sockets(&[(&docker, "run/docker/containerd/containerd.sock")]).run(&["plan"]);
    assert!(text.starts_with("exit Some(3)\n") && !text.contains("docker/containerd"), "{text}");
    assert!(text.contains("/run/k3s/cri-dockerd/cri-dockerd.sock"), "it is looked for: {text}");
}

/// An empty containerd beside the CRI-O of the kubelet was taken in silence, and everything looked unused.
#[test]
fn n1_of_two_runtimes_none_is_taken() {
    let (_empty, _used, shell) = two_runtimes();
    for command in ["plan", "collect", "status", "images"] {
        let text = shell.run(&[command]);
        assert!(text.starts_with("exit Some(3)\n"), "{command}: {text}");
        for socket in ["/run/containerd/containerd.sock", "/run/crio/crio.sock"] {
            assert!(text.contains(socket), "{command}: {text}");
        }
    }
}

#[test]
fn n1_the_configured_runtime_is_shown() {
    let (_empty, _used, shell) = two_runtimes();
    let chosen = ["--set", "runtime.endpoint=/run/crio/crio.sock", "-o", "json"];
    let plan: Value = serde_json::from_str(&shell.run(&[&["plan"][..], &chosen].concat())).unwrap();
    assert!(plan["endpoint"].as_str().unwrap().ends_with("/run/crio/crio.sock"), "{plan:#}");
    assert!(!plan["kept"].as_array().unwrap().is_empty(), "the used runtime is read: {plan:#}");
    let status = shell.run(&[&["status"][..], &chosen].concat());
    assert!(status.contains("/run/crio/crio.sock"), "{status}");
}

/// The kubeconfig of the kubelet gets its credentials from a program, as on EKS.
#[test]
fn n5_a_kubeconfig_with_an_exec_plugin_is_reported() {
    let host = Host::new();
    let root = host.shell.path("kubelet").display().to_string();
    copy(Path::new(DATA).join("N5-kubelet-root").as_path(), Path::new(&root));
    let auto = ["plan", "--set", "pods.source=auto", "--set", &format!("kubelet_root={root}")];
    let text = host.run(&auto);
    assert!(text.starts_with("exit Some(1)\n") && text.contains("exec"), "{text}");
    assert!(text.contains("pods.exec_plugins = true"), "it says what to do: {text}");
    let kubelet = host.run(&[&auto[..], &["--set", "pods.kubelet_endpoint=http://127.0.0.1:1"]].concat());
    assert!(kubelet.contains("cannot read /pods from the kubelet") && kubelet.contains("refused"), "{kubelet}");
    assert!(!kubelet.contains("exec"), "{kubelet}");
}

fn copy(from: &Path, to: &Path) {
    for entry in walkdir::WalkDir::new(from) {
        let entry = entry.unwrap();
        let target = to.join(entry.path().strip_prefix(from).unwrap());
        if entry.file_type().is_dir() {
            std::fs::create_dir_all(target).unwrap();
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}
