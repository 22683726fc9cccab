//! The commands of the README, as written, on a node with a kubelet: once from a shell, then as a `DaemonSet`.
//!
//! They run in the cell of the node, where all paths are those of a real one. Only the image differs: it is that of the
//! profile dev, because the optimization for a release takes minutes. The systemd tests run the commands for a service.

use std::path::Path;

use super::daemonset::{self, UNUSED};
use crate::containerd_image as image;
use crate::manifests::kubectl;
use crate::rig::{Image, Layer, Manifest, NodeRig, Options, Program, becomes_true, node_containerd, run};

/// Settings that make the waits short, and independent of the disk of this machine.
const HASTE: &str = r#"
guards = { gone_after = "3s", settle = "0s", fall_hold = "0s", sandbox_grace = "1s" }
images = { high_threshold_percent = 100 }
"#;

#[tokio::test]
async fn the_readme_commands_collect_in_shell_and_daemonset() {
    let node = NodeRig::start(Options::default()).await;
    from_a_shell(&node).await;
    as_a_daemonset(&node).await;
}

/// The node has a kubelet, so `kubegc` finds its kubeconfig and lists the pods of the API server.
async fn from_a_shell(node: &NodeRig) {
    std::fs::copy(node.kubeconfig("kubelet"), node.dir().join("kubelet/kubeconfig")).unwrap();
    node.write_config("shell", &format!("node = \"{}\"\n{HASTE}", node.name()));
    let uid = node.create(&Manifest::new("crash").container("app", "exit 1")).await;
    node.await_backoff("crash", "app", 1).await;
    let commands = commands("kubegc plan  ");
    let [plan, dry_run, collect, wait] = &commands[..] else { panic!("{commands:#?}") };

    let before = node.containers_of(&uid, "app").await;
    let why = "over containers.max_per_pod_container (1)";
    let shown = in_shell(node, plan);
    assert!(shown.contains(why) && shown.contains("Pods: kube-api"), "{shown}");
    let shown = in_shell(node, dry_run);
    assert!(shown.contains("would remove") && shown.contains(why), "{shown}");
    let still = node.containers_of(&uid, "app").await;
    assert!(before.iter().all(|id| still.contains(id)), "{before:?} {still:?}");
    let shown = in_shell(node, collect);
    assert!(shown.contains("Removed: "), "{shown}");
    let left = node.containers_of(&uid, "app").await;
    assert!(before.iter().any(|id| !left.contains(id)), "{shown}\n{before:?} {left:?}");

    node.pause(Program::Kubelet); // it would remove the next pod too
    let gone = node.pod("default", "gone-0", "uid-gone").await;
    gone.exited("app", 0).await;
    gone.stop_sandbox().await;
    let shown = in_shell(node, wait);
    let left = node.objects_of("gone-0", "uid-gone").await;
    node.resume(Program::Kubelet);
    assert!(left.is_empty(), "{left:#?}\n{shown}");
}

/// A `DaemonSet` that observes, then one that collects.
async fn as_a_daemonset(node: &NodeRig) {
    daemonset::write_manifests(node);
    node.import(&[Image::new(&[UNUSED], &[Layer::busybox()])]).await;
    let commands = commands("scripts/image.sh");
    let [build, import, observe, plan, collect] = &commands[..] else { panic!("{commands:#?}") };
    assert_eq!(build, "scripts/image.sh");
    in_shell(node, &import.replace("target/image/kubegc.tar", &image::file().display().to_string()));
    in_shell(node, observe);
    daemonset::do_what_controllers_do(node).await;
    let shown = in_shell(node, plan);
    assert!(shown.contains(UNUSED), "{shown}\n{}", daemonset::log(node).await);
    assert!(daemonset::tags(node).await.contains(&UNUSED.to_owned()), "{}", daemonset::log(node).await);
    in_shell(node, collect);
    daemonset::remove_agent(node).await;
    daemonset::do_what_controllers_do(node).await;
    let gone = async || !daemonset::tags(node).await.contains(&UNUSED.to_owned());
    assert!(becomes_true(gone).await, "{}", daemonset::log(node).await);
}

/// Returns the commands of the block of README or docs/installation.md that begins with this text, without their comments.
pub fn commands(first: &str) -> Vec<String> {
    let pages = concat!(include_str!("../../../README.md"), include_str!("../../../docs/installation.md"));
    let mut blocks = pages.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let block = blocks.find(|block| block.starts_with(first)).unwrap_or_else(|| panic!("no block {first:?}"));
    block.lines().map(|line| line.split(" #").next().unwrap().trim_end().to_owned()).collect()
}

/// Runs a command in a shell of the node, in a directory with the manifests, and returns its output.
fn in_shell(node: &NodeRig, command: &str) -> String {
    let parent = |path: &Path| path.parent().unwrap().display().to_string();
    let kubegc = Path::new(env!("CARGO_BIN_EXE_kubegc"));
    let programs = [parent(kubegc), parent(kubectl()), node_containerd().bin().display().to_string()].join(":");
    let is_kubectl = command.starts_with("kubectl ");
    let kubeconfig = is_kubectl.then(|| format!("KUBECONFIG={}", node.kubeconfig("admin").display()));
    let script = format!("cd {}\n{command}", node.dir().display());
    let mut env = node.in_cell("env");
    env.args(["-i", &format!("PATH={programs}:/usr/sbin:/usr/bin:/sbin:/bin")]).args(kubeconfig);
    env.arg(format!("KUBEGC_CONFIG={}", node.dir().join("shell.toml").display()));
    run(env.args(["sh", "-euc", &script]))
}
