//! Files that the kubelet, crictl and their administrators leave on a node.

use std::os::unix::fs::symlink;

use super::data;
use crate::cli_on_sim::{Host, node};
use crate::shell::Shell;

/// The settings of a shell name no socket, so that of another program counts.
#[test]
fn a_stale_socket_is_reported_with_the_file_that_names_it() {
    let crictl = "runtime-endpoint: unix:///run/old/containerd.sock\n";
    let text = Shell::new().with("crictl.yaml", crictl).run(&["plan"]);
    assert!(text.starts_with("exit Some(3)\n"), "{text}");
    assert!(text.contains("/run/old/containerd.sock: no such socket"), "{text}");
    assert!(text.contains("; crictl.yaml (runtime-endpoint) names this socket"), "{text}");
    let named = ["plan", "--runtime-endpoint", "unix:///run/old/containerd.sock"];
    let text = Shell::new().with("crictl.yaml", crictl).run(&named);
    assert!(text.contains("no such socket") && !text.contains("names this socket"), "a flag is known: {text}");
}

/// The kubelet reads YAML 1.1.
#[test]
fn octal_numbers_of_a_kubelet_configuration_are_read() {
    let header = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
    let config = format!("{header}imageGCHighThresholdPercent: 0122\nimageGCLowThresholdPercent: 0x46\n");
    let arguments = ["config", "show", "--kubelet-config", "kubelet.yaml", "--set", "runtime.endpoint=/run/x.sock"];
    let text = Shell::new().with("kubelet.yaml", &config).run(&arguments);
    for line in ["high_threshold_percent = 82 ", "low_threshold_percent = 70 "] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

/// The kubelet cuts the names to 255 characters, so the ids of some are gone. It removes all that dangle.
#[test]
fn n1_dangling_links_of_long_names_are_removed() {
    let long = "x".repeat(240);
    let host = Host::with(node().pod("default", &long, "u-long").id("c-long").running("app", "r.example/web:2"));
    let links = host.sim.log_roots().containers;
    let names: Vec<_> = data("t4/T4-N1-links.txt").lines().map(str::to_owned).collect();
    let kept = [format!("{long}_default_ap.log"), format!("{}.log", &"no_link_of a kubelet-".repeat(12)[..251])];
    for name in names.iter().chain(&kept) {
        // The simulated node makes those of its containers.
        let _ = std::fs::remove_file(links.join(name));
        symlink("/nowhere/0.log", links.join(name)).unwrap();
    }
    let left = || names.iter().filter(|name| links.join(name).is_symlink()).count();
    assert_eq!((names.len(), left()), (12, 12));
    let text = host.run(&["collect"]);
    assert_eq!(left(), 0, "{text}");
    for name in &kept {
        assert!(links.join(name).is_symlink(), "{name}: {text}");
    }
}
