//! What users of kubectl, crictl and docker write, and what it means here.

use super::*;

#[test]
fn an_error_in_yaml_has_one_prefix_and_a_hint_that_helps() {
    let shell = Shell::new().with("crictl.yaml", "runtime-endpoint: [a\nb: c: d\n");
    let text = shell.run(&["config", "show"]);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(
        lines[1],
        "! error: $CRI_CONFIG_FILE: cannot read crictl.yaml: line 2 column 2: illegal placement of ':' indicator"
    );
    let hint = "! hint: correct crictl's configuration, unset CRI_CONFIG_FILE, or set --runtime-endpoint";
    assert_eq!(lines.last(), Some(&hint));
    let shell = Shell::new().with("kubelet.yaml", "kind: [a\nb: c: d\n").with("admin.conf", "kind: [a\nb: c: d\n");
    let kubelet = shell.run(&["config", "show", "--kubelet-config", "kubelet.yaml"]);
    assert!(kubelet.contains("! error: kubelet.yaml: not YAML: line 2 column 2: "), "{kubelet}");
    let admin = shell.run(&["controller", "plan", "--kubeconfig", "admin.conf"]);
    assert!(admin.contains("used: line 2 column 2: "), "{admin}");
}
