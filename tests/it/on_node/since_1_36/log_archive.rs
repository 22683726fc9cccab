//! Logs that outlive their pod, beside a kubelet that rotates, compresses and deletes them.

use crate::on_node::service::Service;
use crate::rig::{Manifest, NodeRig, Options};

/// The pods that come and go at once, and the numbered lines of each.
const PODS: usize = 8;
const LINES: usize = 1500;
/// The kubelet rotates a larger file, and compresses the one before. With a drop-in file it needs the third line, because pods have no
/// cgroup of their own here.
const ROTATION: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n\
    enforceNodeAllocatable: [none]\ncontainerLogMaxSize: 64Ki\n\
    containerLogMaxFiles: 20\ncontainerLogMonitorInterval: 3s\n";

/// A pod that writes for some 5 s.
fn pod(name: &str) -> Manifest {
    let padding = "x".repeat(200);
    let lines = format!(
        "i=0; while [ $i -lt {LINES} ]; do i=$((i+1)); echo \"{padding} $i\"; [ $((i % 40)) -gt 0 ] || sleep 0.1; done; exec sleep 1000000"
    );
    Manifest::new(name).container("app", &lines)
}

fn names(wave: usize) -> impl Iterator<Item = String> {
    (0..PODS).map(move |number| format!("writer-{wave}-{number}"))
}

/// Runs some pods until they have written all, and waits until the kubelet has deleted their logs.
async fn come_and_go(node: &NodeRig, service: &Service<'_>, wave: usize) {
    let mut dirs = Vec::new();
    for name in names(wave) {
        let uid = node.create(&pod(&name)).await;
        dirs.push(node.dir().join(format!("logs/pods/default_{name}_{uid}")));
    }
    for name in names(wave) {
        service.until("all lines", async || lines(node, &name).last() == Some(&LINES)).await;
    }
    for name in names(wave) {
        node.force_delete(&name).await;
    }
    service.until("deletion by the kubelet", async || dirs.iter().all(|dir| !dir.exists())).await;
}

fn lines(node: &NodeRig, pod: &str) -> Vec<usize> {
    let printed = node.kubegc(&["logs", pod]).stdout;
    printed.lines().map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_of_deleted_pods_are_printed_in_order_and_once() {
    let config = tempfile::tempdir().unwrap();
    std::fs::write(config.path().join("logs.conf"), ROTATION).unwrap();
    let kubelet_flags = vec![format!("--config-dir={}", config.path().display())];
    let node = super::start(Options { kubelet_flags, ..Options::default() }).await;
    // One pass at the start, and no further one: what follows is archived by events.
    let settings = ["logs.archive=keep 1h,node 1GiB", "containers.interval=1h"];
    let service = Service::start(&node, "kubegc", &settings);
    let waves = std::env::var("KUBEGC_LOG_WAVES").map_or(1, |waves| waves.parse().unwrap());
    for wave in 0..waves {
        come_and_go(&node, &service, wave).await;
    }
    for name in (0..waves).flat_map(names) {
        let found = lines(&node, &name);
        assert!(found.iter().copied().eq(1..=LINES), "{name}: {found:?}");
    }
    assert_eq!(node.container_status("keeper", "app").await.restart_count, 0);
    super::report(&service);
}
