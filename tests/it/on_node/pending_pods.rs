//! Pods that are bound to the node and not started: nothing uses their images yet, and kubegc keeps them.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use crate::on_node::service::Service;
use crate::rig::{Collection, Image, Layer, Manifest, NodeRig, Options, Program};

/// The images of the waiting pod: this one first, by a short name, then the other.
const FIRST: &str = "docker.io/library/first:1";
const WANTED: &str = "docker.io/library/wanted:1";

const UNUSED: [&str; 3] =
    ["docker.io/library/unused-1:1", "docker.io/library/unused-2:1", "docker.io/library/unused-3:1"];

const PASSES: usize = 3;

#[tokio::test]
async fn pending_pods_keep_their_images_on_a_full_disk() {
    images_stay(Collection::Off).await;
}

#[tokio::test]
#[ignore = "make test-churn: without it and with pods that come and go, `make test` has both"]
async fn pending_pods_keep_their_images_beside_a_collecting_kubelet() {
    images_stay(Collection::On).await;
}

async fn images_stay(kubelet: Collection) {
    let node = NodeRig::start(Options { kubelet, disk_mib: Some(256), ..Options::default() }).await;
    node.grant_shipped_permissions("kubegc").await;
    node.create(&Manifest::new("keeper").container("app", "exec sleep 1000000")).await;
    node.await_running("keeper", "app").await;
    node.pause(Program::Kubelet);
    let busybox = Layer::busybox();
    // The first candidates: seen first, and never used.
    for tag in [FIRST, WANTED] {
        import(&node, &busybox, tag, 10).await;
    }
    let mut service = Service::start(&node, "kubegc", &[]);
    service.passes(1).await;
    node.end(Program::Kubegc);
    let waiting = Manifest::new("waiting").init("first", "exit 0").container("app", "exec sleep 1000000").image(WANTED);
    let waiting = waiting.with(|pod| pod["spec"]["initContainers"][0]["image"] = "first:1".into());
    node.create(&waiting).await;
    for tag in UNUSED {
        import(&node, &busybox, tag, 3).await;
    }
    fill_disk(&node);
    let images = node.present(&all()).await;
    assert_eq!(images, all(), "before");

    service = Service::start(&node, "kubegc", &["images.high_threshold_percent=85", "images.low_threshold_percent=80"]);
    service.passes(PASSES).await;
    assert_eq!(node.present(&all()).await, words([FIRST, WANTED]));
    let used = node.used_percent();
    assert!(used > 85.0, "{used} %: there was no need any more");
    let reasons = kept_images(&service, &[FIRST, WANTED]);
    assert_eq!(reasons, BTreeSet::from(["named_by_pod default/waiting".to_owned()]));

    node.resume(Program::Kubelet);
    node.await_running("waiting", "app").await;
    service.passes(PASSES).await;
    assert_eq!(node.present(&all()).await, words([FIRST, WANTED]), "while it runs");
    assert_eq!(node.container_status("waiting", "app").await.restart_count, 0);
}

async fn import(node: &NodeRig, busybox: &Arc<Layer>, tag: &str, mib: usize) {
    node.import(&[Image::new(&[tag], &[busybox.clone(), Layer::filled(tag, mib)])]).await;
}

/// Fills the disk to 97 %: all removals together are not enough.
fn fill_disk(node: &NodeRig) {
    let path = node.dir().join("containerd/filler");
    let mut mib = 0;
    while node.used_percent() < 97.0 {
        mib += 1;
        let file = std::fs::OpenOptions::new().create(true).append(true).open(&path).unwrap();
        std::io::Write::write_all(&mut &file, &vec![0; 1 << 20]).unwrap();
    }
    println!("{mib} MiB fill the disk");
}

fn all() -> BTreeSet<String> {
    words([FIRST, WANTED].into_iter().chain(UNUSED))
}

fn words<'a>(tags: impl IntoIterator<Item = &'a str>) -> BTreeSet<String> {
    tags.into_iter().map(|tag| format!("image {tag}")).collect()
}

/// Returns why these images are kept.
fn kept_images(service: &Service, tags: &[&str]) -> BTreeSet<String> {
    let plan: Value = serde_json::from_str(&service.kubegc(&["plan", "-o", "json"]).stdout).unwrap();
    let kept = plan["kept"].as_array().unwrap().iter().filter(|kept| tags.iter().any(|tag| kept["name"] == *tag));
    kept.map(|kept| format!("{} {}", kept["reason"].as_str().unwrap(), kept["named_by"].as_str().unwrap_or("?")))
        .collect()
}
