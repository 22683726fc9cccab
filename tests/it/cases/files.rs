//! Files that the kubelet, crictl and their administrators leave on a node.

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
