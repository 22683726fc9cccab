//! All capabilities of an agent at once, and a world that changes under it: policies pause and resume the node, quiet hours begin and
//! end, the disk of the store is full for half of the time, kubelet and runtime are restarted, and strangers want a private image.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use kube::api::{Api, DeleteParams, PostParams};
use kubegc::fleet::{NodeDiskPolicy, NodeDiskPolicySpec};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::on_node::service::Service;
use crate::on_node::since_1_36::pulls::{self, SECRET, stranger_is_refused};
use crate::rig::{Image, Layer, NodeRig, Program, Registry, kubernetes_minor, run};

const DEFINITIONS: &str = include_str!("../../../../packaging/components/fleet/crds.yaml");

/// All that can be on together, beside the hardest limits.
const ON: [&str; 9] = [
    "logs.archive=keep 30s,pod 64KiB,node 1MiB",
    "logs.limits=pod 64KiB,namespace 512KiB,node 1MiB",
    "logs.leftover_max_age=10s",
    "images.undo=10s",
    "images.targets=total 1GiB..512MiB",
    "images.max_age=1s",
    "leftovers.remove=termination_log,pod_directory,unreferenced",
    "fleet=policies",
    r#"rule=[{name = "unused", for = "image", when = "image.repository.contains(\"/unused\")", then = "remove"}]"#,
];
/// How often the node is paused, resumed, and the disk of the store filled and emptied.
const TURNS: u32 = 6;

/// Prepares a node for all of it, and returns the settings. The quiet hours are a minute that begins a minute from now.
pub async fn prepare(node: &NodeRig) -> Vec<String> {
    node.grant_permissions_for_fleet("kubegc").await;
    for definition in serde_saphyr::from_multiple::<Value>(DEFINITIONS).unwrap() {
        node.create_object(&definition).await;
    }
    let store = node.dir().join("small");
    std::fs::create_dir(&store).unwrap();
    run(node.in_cell("mount").args(["-t", "tmpfs", "-o", "size=4m,mode=700", "tmpfs"]).arg(&store));
    let minute = |after| (Timestamp::now() + SignedDuration::from_mins(after)).strftime("%H:%M").to_string();
    let own = [
        format!("state.path={}", store.join("kubegc.db").display()),
        format!("quiet=[\"{}-{}\"]", minute(1), minute(2)),
    ];
    ON.iter().map(ToString::to_string).chain(own).collect()
}

/// Changes the world in turns as long as the pods come and go. At the end nothing is paused, and the disk has space.
pub async fn disturb(node: &NodeRig, lasts: Duration) {
    let policies = Api::<NodeDiskPolicy>::all(node.kube());
    let spec: NodeDiskPolicySpec = serde_json::from_value(json!({ "paused": { "reason": "a turn" } })).unwrap();
    for _ in 0..TURNS {
        fill(node).status().unwrap();
        sleep(lasts / TURNS / 3).await;
        policies.create(&PostParams::default(), &NodeDiskPolicy::new("turn", spec.clone())).await.unwrap();
        sleep(lasts / TURNS / 3).await;
        run(node.in_cell("rm").arg("--force").arg(node.dir().join("small/ballast")));
        policies.delete("turn", &DeleteParams::default()).await.unwrap();
        sleep(lasts / TURNS / 3).await;
    }
}

/// Restarts kubelet and runtime, one after the other, at a third and at two thirds of `of`.
pub async fn restart(node: &NodeRig, turn: u32, of: u32) {
    let third = of / 3;
    let program = match turn {
        _ if turn == third => Program::Kubelet,
        _ if turn == 2 * third => Program::Containerd,
        _ => return,
    };
    node.end(program);
    node.begin(program).await;
}

/// A tenant runs a private image with its secret, the image is removed and restored, and a stranger wants it without: it never
/// runs (I21). Before 1.36 the kubelet itself gives it the image.
pub async fn strangers(node: &NodeRig, service: &Service<'_>, lasts: Duration) {
    let (registry, begun, mut restored) = (Registry::start(node.name()).await, Instant::now(), 0);
    let name = registry.name("private/app");
    registry.push(&Image::new(&[&name], &[Layer::busybox(), Layer::filled("private", 1)]));
    node.create_object(&registry.secret(SECRET)).await;
    while kubernetes_minor() >= 36 && begun.elapsed() < lasts {
        pulls::run(node, &pulls::pod("tenant", &name).with(pulls::with_secret)).await;
        stranger_is_refused(node, &name).await;
        node.force_delete("tenant").await;
        node.await_removal("tenant").await;
        // The command fails while the runtime restarts.
        let images = || Some(service.kubegc(&["images", "-o", "json"])).filter(|ran| ran.code == 0);
        let is_removed = async || images().is_some_and(|images| !images.stdout.contains(&name));
        service.until("removal of the private image", is_removed).await;
        restored += usize::from(service.kubegc(&["undo", &name]).code == 0);
        stranger_is_refused(node, &name).await;
    }
    println!("a private image was restored {restored} times");
}

/// Returns a command that fills the disk of the store, and so fails.
fn fill(node: &NodeRig) -> Command {
    let mut fill = node.in_cell("dd");
    let ballast = node.dir().join("small/ballast").display().to_string();
    fill.args(["if=/dev/zero", "bs=4k", &format!("of={ballast}")]).stderr(Stdio::null());
    fill
}
