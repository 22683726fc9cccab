//! Images that the kubelet pulls: from a private repository with a pull secret, from a slow registry, and beside images
//! that something else loads.
//!
//! The kubelet records the secrets with which it has pulled an image (`image_manager/pulled` in its directory), and a pod
//! uses the image only with one of them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use k8s_openapi::api::core::v1::ContainerStatus;
use serde_json::json;

use super::follower::{Follower, Readable};
use super::{LOWEST_LIMITS, words};
use crate::on_node::service::Service;
use crate::rig::Registry;
use crate::rig::{Image, Layer, Manifest, NodeRig, Options, Program, eventually};

/// The repositories.
const OLD: &str = "public/old";
const SLOW: [&str; 2] = ["public/slow-1", "public/slow-2"];
const PULLED: &str = "private/pulled";
const LOADED: &str = "private/loaded";

/// The name of the pull secret.
pub const SECRET: &str = "login";
/// The pod that has no secret for the image that it wants.
pub const STRANGER: &str = "stranger";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn images_of_a_registry_are_pulled_and_pulled_again() {
    let begun = Instant::now();
    let kubelet_flags = vec!["--serialize-image-pulls=false".to_owned()];
    let node = super::start(Options { kubelet_flags, ..Options::default() }).await;
    let registry = Registry::start(node.name()).await;
    node.create_object(&registry.secret(SECRET)).await;
    let service = Service::start(&node, "kubegc", &LOWEST_LIMITS);
    let follower = Follower::follow(&node, Readable::WhileWaiting);
    slow_pulls_end(&node, &registry, &service).await;
    an_image_is_pulled_again_with_its_secret(&node, &registry, &service).await;
    an_image_that_is_loaded_runs(&node, &registry).await;
    a_removed_image_that_is_loaded_runs_with_its_secret(&node, &registry, &service).await;
    assert_eq!(node.container_status("keeper", "app").await.restart_count, 0);
    follower.end(0).await;
    super::nothing_is_left_of_deleted_pods(&node, &service).await;
    super::report(&service);
    node.end(Program::Kubegc);
    images_are_restored_while_the_kubelet_pulls_them(&node, &registry, &service).await;
    a_restored_image_needs_its_secret(&node, &registry, &service).await;
    println!("{:?}", begun.elapsed());
}

/// The images share layers with one that is removed while they are pulled.
async fn slow_pulls_end(node: &NodeRig, registry: &Registry, service: &Service<'_>) {
    let shared = [Layer::filled("shared", 1), Layer::busybox()];
    registry.push(&image(registry, OLD, &shared));
    run(node, &pod("old", &registry.name(OLD))).await;
    for (index, repository) in SLOW.iter().enumerate() {
        registry.push_slow(&image(registry, repository, &shared));
        node.create(&pod(&format!("slow-{index}"), &registry.name(repository))).await;
    }
    registry.await_stops(SLOW.len()).await;
    delete_with_image(node, service, "old", &registry.name(OLD)).await;
    service.passes(3).await;
    println!("in progress: {:?}", records(node, "pulling"));
    registry.go_on();
    for (index, repository) in SLOW.iter().enumerate() {
        node.await_running(&format!("slow-{index}"), "app").await;
        assert_eq!(registry.pulls(repository), 1, "{repository} was pulled at the first attempt");
    }
    assert_eq!(records(node, "pulling"), BTreeSet::new());
    the_time_of_the_pull_is_known(service, registry.name(SLOW[0]).trim_end_matches(":1")).await;
}

/// `slow-0` was pulled over three passes or more, as the kubelet's record showed.
async fn the_time_of_the_pull_is_known(service: &Service<'_>, repository: &str) {
    service.next_pass().await;
    let snapshot = service.kubegc(&["snapshot"]).ok().json();
    let pulls = &snapshot["memory"]["pulls"][repository];
    let seconds = pulls["seconds"].as_u64().unwrap_or_else(|| panic!("{:#}", snapshot["memory"]["pulls"]));
    assert!((1..600).contains(&seconds) && pulls["pulls"] == 1, "{pulls}");
}

async fn an_image_is_pulled_again_with_its_secret(node: &NodeRig, registry: &Registry, service: &Service<'_>) {
    let name = registry.name(PULLED);
    registry.push(&image(registry, PULLED, &[Layer::busybox()]));
    for pulls in 1..=2 {
        run(node, &pod("tenant", &name).with(with_secret)).await;
        assert_eq!(registry.pulls(PULLED), pulls);
        service.passes(2).await;
        assert_eq!(node.present(&words(&[&name])).await, words(&[&name]));
        stranger_is_refused(node, &name).await;
        assert_eq!(node.container_status("tenant", "app").await.restart_count, 0);
        delete_with_image(node, service, "tenant", &name).await;
        println!("after the removal of the pulled image: {:?}", records(node, "pulled"));
    }
}

/// The pods wait first, so that the image is kept: something names it.
async fn an_image_that_is_loaded_runs(node: &NodeRig, registry: &Registry) {
    let name = registry.name(LOADED);
    node.create(&pod("loaded", &name).with(never_pulled)).await;
    node.await_container("loaded", "app", "without an image", waits).await;
    node.import(&[image(registry, LOADED, &[Layer::busybox()])]).await;
    node.await_running("loaded", "app").await;
}

async fn a_removed_image_that_is_loaded_runs_with_its_secret(
    node: &NodeRig,
    registry: &Registry,
    service: &Service<'_>,
) {
    let name = registry.name(PULLED);
    // The record of the removed image stays, and protects the image that something else loads.
    service.passes(3).await;
    assert!(has_record(node, PULLED));
    node.create(&pod("tenant", &name).with(with_secret).with(never_pulled)).await;
    node.await_container("tenant", "app", "without an image", waits).await;
    node.import(&[image(registry, PULLED, &[Layer::busybox()])]).await;
    node.await_running("tenant", "app").await;
    node.create(&pod("stranger", &name).with(never_pulled)).await;
    node.await_container("stranger", "app", "refused", waits).await;
    node.end(Program::Kubelet);
    node.launch(Program::Kubelet);
    service.passes(3).await;
    assert_eq!(node.present(&words(&[&name])).await, words(&[&name]));
    assert_eq!(node.container_status("tenant", "app").await.restart_count, 0);
    node.await_container("stranger", "app", "refused by a kubelet that read its records again", waits).await;
}

/// The service has ended. A pod without the secret does not get an image that is restored, also from a kubelet that has started since (I21).
async fn a_restored_image_needs_its_secret(node: &NodeRig, registry: &Registry, service: &Service<'_>) {
    let name = registry.name(PULLED);
    run(node, &pod("tenant", &name).with(with_secret)).await;
    node.force_delete("tenant").await;
    node.await_removal("tenant").await;
    let is_removed = async || {
        service.kubegc(&["collect", "--set=images.undo=1h", "--set=leftovers.remove=pull_record"]).ok();
        node.present(&words(&[&name])).await.is_empty()
    };
    assert!(eventually(is_removed).await, "{name} is removed");
    service.kubegc(&["collect", "--set=leftovers.remove=pull_record"]).ok();
    node.end(Program::Kubelet);
    node.launch(Program::Kubelet);
    service.kubegc(&["undo", &name]).ok();
    assert_eq!(node.present(&words(&[&name])).await, words(&[&name]));
    stranger_is_refused(node, &name).await;
}

/// The service has ended: it would remove the images that are restored.
async fn images_are_restored_while_the_kubelet_pulls_them(node: &NodeRig, registry: &Registry, service: &Service<'_>) {
    let name = registry.name(OLD);
    for number in 0..2 {
        run(node, &pod(&format!("again-{number}"), &name)).await;
        node.delete(&format!("again-{number}")).await;
        node.await_removal(&format!("again-{number}")).await;
        let is_removed = async || {
            service.kubegc(&["collect", "--set=images.undo=1h"]).ok();
            node.present(&words(&[&name])).await.is_empty()
        };
        assert!(eventually(is_removed).await, "{name} is removed");
        node.create(&pod(&format!("undone-{number}"), &name)).await;
        service.kubegc(&["undo", &name]).ok();
        node.await_running(&format!("undone-{number}"), "app").await;
        assert_eq!(service.kubegc(&["undo"]).ok().stdout, "no removed image is kept for undo\n");
        node.force_delete(&format!("undone-{number}")).await;
        node.await_removal(&format!("undone-{number}")).await;
    }
}

/// A pod without the secret does not get a private image.
pub async fn stranger_is_refused(node: &NodeRig, image: &str) {
    node.create(&pod(STRANGER, image)).await;
    node.await_container(STRANGER, "app", "without the image", is_refused).await;
    node.force_delete(STRANGER).await;
    node.await_removal(STRANGER).await;
}

/// Creates a pod and waits until it runs.
pub async fn run(node: &NodeRig, pod: &Manifest) {
    node.create(pod).await;
    node.await_running(pod.name(), "app").await;
}

/// Deletes a pod and waits until kubegc has removed its image.
async fn delete_with_image(node: &NodeRig, service: &Service<'_>, pod: &str, image: &str) {
    node.delete(pod).await;
    node.await_removal(pod).await;
    service.until("removal of the image", async || node.present(&words(&[image])).await.is_empty()).await;
}

pub fn pod(name: &str, image: &str) -> Manifest {
    let pod = Manifest::new(name).running("app").image(image);
    pod.with(|pod| pod["spec"]["containers"][0]["imagePullPolicy"] = json!("IfNotPresent"))
}

pub fn with_secret(pod: &mut serde_json::Value) {
    pod["spec"]["imagePullSecrets"] = json!([{ "name": SECRET }]);
}

fn never_pulled(pod: &mut serde_json::Value) {
    pod["spec"]["containers"][0]["imagePullPolicy"] = json!("Never");
}

fn image(registry: &Registry, repository: &str, layers: &[Arc<Layer>]) -> Image {
    Image::new(&[&registry.name(repository)], &[layers, &[Layer::filled(repository, 1)]].concat())
}

fn waits(status: &ContainerStatus) -> bool {
    waiting(status) == "ErrImageNeverPull"
}

fn is_refused(status: &ContainerStatus) -> bool {
    matches!(waiting(status), "ErrImagePull" | "ImagePullBackOff")
}

/// Returns the reason why a container waits.
fn waiting(status: &ContainerStatus) -> &str {
    let waiting = status.state.as_ref().and_then(|state| state.waiting.as_ref());
    waiting.and_then(|waiting| waiting.reason.as_deref()).unwrap_or_default()
}

/// Returns the kubelet's records of one kind.
fn records(node: &NodeRig, kind: &str) -> BTreeSet<String> {
    let dir = node.dir().join("kubelet/image_manager").join(kind);
    std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Returns whether the kubelet has a record of a pulled image of a repository.
fn has_record(node: &NodeRig, repository: &str) -> bool {
    let dir = node.dir().join("kubelet/image_manager/pulled");
    let mut records = std::fs::read_dir(dir).unwrap().map(|entry| std::fs::read_to_string(entry.unwrap().path()));
    records.any(|text| text.is_ok_and(|text| text.contains(repository)))
}
