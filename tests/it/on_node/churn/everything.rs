//! All capabilities of an agent at once, and a world that changes under it: policies pause and resume the node, quiet hours begin and
//! end, and the disk of the store is full for half of the time.

use std::process::{Command, Stdio};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::api::{Api, DeleteParams, PostParams};
use kubegc::fleet::{NodeDiskPolicy, NodeDiskPolicySpec};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::rig::{NodeRig, run};

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

/// Returns a command that fills the disk of the store, and so fails.
fn fill(node: &NodeRig) -> Command {
    let mut fill = node.in_cell("dd");
    let ballast = node.dir().join("small/ballast").display().to_string();
    fill.args(["if=/dev/zero", "bs=4k", &format!("of={ballast}")]).stderr(Stdio::null());
    fill
}
