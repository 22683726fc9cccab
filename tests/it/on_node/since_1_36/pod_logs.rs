//! `kubegc logs` beside a kubelet: what `kubectl logs` shows, and what it does not.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use kube::api::LogParams;

use crate::rig::{Manifest, NodeRig, Options, Ran, becomes_true, binary};

/// The lines of an instance, some of which the runtime writes in parts.
const LINES: usize = 300;
/// The lines of the container whose files the kubelet rotates, of 200 bytes each.
const MANY: usize = 3000;
/// The kubelet rotates a larger file, and compresses the one before. With a drop-in file it needs the third line, because pods have no
/// cgroup of their own here.
const ROTATION: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n\
    enforceNodeAllocatable: [none]\ncontainerLogMaxSize: 64Ki\n\
    containerLogMaxFiles: 20\ncontainerLogMonitorInterval: 3s\n";

fn logs(node: &NodeRig, flags: &[&str]) -> Ran {
    node.kubegc(&[&["logs", "numbers"], flags].concat())
}

/// Returns a pod with a container that restarts once, and one that writes for some 8 s.
fn pod() -> Manifest {
    let long = "printf '%20000s' x | busybox tr ' ' y; echo";
    let lines = format!("i=0; while [ $i -lt {LINES} ]; do i=$((i+1)); echo \"line $i\"; done; echo error >&2; {long}");
    let again = "if ! [ -e /dev/shm/again ]; then : >/dev/shm/again; exit 1; fi; exec sleep 1000000";
    let padding = "x".repeat(200);
    let many = format!(
        "i=0; while [ $i -lt {MANY} ]; do i=$((i+1)); echo \"{padding} $i\"; [ $((i % 40)) -gt 0 ] || sleep 0.1; done; exec sleep 1000000"
    );
    Manifest::new("numbers").container("app", &format!("{lines}; {again}")).container("many", &many)
}

/// Follows the container with many lines to its last one, and returns the numbers of the lines.
fn followed(node: &NodeRig) -> Vec<usize> {
    let mut command = node.in_cell(&binary());
    let flags = ["logs", "numbers", "-c", "many", "-f"];
    let mut child = command.env_clear().args(flags).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut numbers = lines.map(|line| line.unwrap().rsplit(' ').next().unwrap().parse().unwrap());
    let mut found = Vec::new();
    while found.last() != Some(&MANY) {
        found.push(numbers.next().unwrap());
    }
    child.kill().unwrap();
    child.wait().unwrap();
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn logs_are_those_of_the_kubelet_over_a_restart_and_rotations() {
    let config = tempfile::tempdir().unwrap();
    std::fs::write(config.path().join("logs.conf"), ROTATION).unwrap();
    let kubelet_flags = vec![format!("--config-dir={}", config.path().display())];
    let node = super::start(Options { kubelet_flags, ..Options::default() }).await;
    node.create(&pod()).await;
    node.await_running("numbers", "many").await;
    let found = tokio::task::block_in_place(|| followed(&node));
    assert!(found.iter().copied().eq(1..=MANY), "{found:?}");
    let restarted = |it: &k8s_openapi::api::core::v1::ContainerStatus| it.restart_count == 1;
    node.await_container("numbers", "app", "restarted", restarted).await;
    for (previous, flags) in [(false, &[][..]), (true, &["--previous"])] {
        let container = Some("app".to_owned());
        let which = LogParams { container, previous, timestamps: true, ..LogParams::default() };
        let mut shown = String::new();
        let is_same = async || {
            shown = logs(&node, &[&["-c", "app", "--timestamps"], flags].concat()).stdout;
            let kubelets = node.pods().logs("numbers", &which).await.unwrap();
            kubelets == shown && kubelets.lines().count() == LINES + 2
        };
        assert!(becomes_true(is_same).await, "{previous}: {shown}");
    }
    let rotated = logs(&node, &["-c", "many"]);
    let numbers = rotated.stdout.lines().map(|line| line.rsplit(' ').next().unwrap().parse::<usize>().unwrap());
    assert!(numbers.eq(1..=MANY), "{}", rotated.stderr);
    let tail = logs(&node, &["-c", "many", "--tail=2000"]).stdout;
    assert!(rotated.stdout.ends_with(&tail) && tail.lines().count() == 2000);
    let copy = node.dir().join("copy");
    let exported = logs(&node, &["--export", copy.to_str().unwrap()]);
    assert!(exported.code == 0 && exported.stdout.contains("files copied"), "{}", exported.stderr);
    let of_pod = std::fs::read_dir(copy).unwrap().next().unwrap().unwrap().path().join("many");
    let names: Vec<_> = std::fs::read_dir(of_pod).unwrap().map(|name| name.unwrap().file_name()).collect();
    assert!(names.iter().any(|name| name.to_string_lossy().contains(".gz")), "{names:?}");
}
