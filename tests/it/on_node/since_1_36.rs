//! What pods of Kubernetes 1.36 can do, beside kubegc at its hardest: a pass every second, and no unused image is kept.
//!
//! `scripts/test.sh` leaves out these tests, and names them, where the Kubernetes under test is older.

mod fleet_nodes;
mod follower;
mod kept_definitions;
mod log_archive;
mod log_limits;
mod orphans;
mod pod_logs;
pub mod pulls;
mod resized;
mod restarts;

use std::collections::BTreeSet;

use kube::api::{DeleteParams, ListParams};

use crate::on_node::service::Service;
use crate::rig::{Manifest, NodeRig, Options, kubernetes_minor};

/// All unused images are removed. Young sandboxes may be in creation, so that guard remains.
const DEFAULT_LIMITS: [&str; 2] = ["images.all_unused=true", "guards.sandbox_grace=20s"];

/// The lowest limits too: of dead containers only the newest instance of each is kept.
pub const LOWEST_LIMITS: [&str; 4] = [
    "images.all_unused=true",
    "guards.sandbox_grace=20s",
    "containers.max_per_pod_container=0",
    "containers.max_containers=0",
];

/// Starts a node of Kubernetes 1.36 or later. One pod runs all the time, so that its image is kept.
async fn start(options: Options) -> NodeRig {
    let minor = kubernetes_minor();
    assert!(
        minor >= 36,
        "this test needs Kubernetes 1.36 or later, and the one under test is 1.{minor}: set KUBEGC_KUBERNETES"
    );
    let node = NodeRig::start(options).await;
    node.grant_shipped_permissions("kubegc").await;
    node.create(&Manifest::new("keeper").running("app")).await;
    node.await_running("keeper", "app").await;
    node
}

/// Prints what the service did.
fn report(service: &Service) {
    let passes = service.messages().iter().filter(|line| line["fields"]["message"] == "pass done").count();
    println!("{passes} passes; the agent: {:#?}", service.deeds());
}

/// Deletes all pods. The service removes everything that is left of them, and then their images.
async fn nothing_is_left_of_deleted_pods(node: &NodeRig, service: &Service<'_>) {
    for pod in node.pods().list(&ListParams::default()).await.unwrap() {
        node.pods().delete(&pod.metadata.name.unwrap(), &DeleteParams::default()).await.unwrap();
    }
    service.until("end of all leftovers", async || node.without_pod().await.is_empty()).await;
    let pinned = async || node.list_images().await.iter().all(|image| image.pinned);
    service.until("end of the images", pinned).await;
}

/// Names images as [`crate::rig::Names`] does.
fn words(tags: &[&str]) -> BTreeSet<String> {
    tags.iter().map(|tag| format!("image {tag}")).collect()
}
