//! Pods that terminate or are deleted: their objects are removed when nothing of them runs any more, and not earlier.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::on_node::agent::{Agent, GONE_AFTER};
use crate::rig::{Collection, Manifest, NodeRig, Options, Program, eventually};

/// How long a container takes to stop.
const PRE_STOP: Duration = Duration::from_secs(20);

#[tokio::test]
async fn terminated_pods_objects_are_removed() {
    what_is_left_goes(Collection::Off).await;
}

#[tokio::test]
#[ignore = "make test-churn: without it and with pods that come and go, `make test` has both"]
async fn terminated_pods_objects_are_removed_beside_a_collecting_kubelet() {
    what_is_left_goes(Collection::On).await;
}

async fn what_is_left_goes(kubelet: Collection) {
    let node = NodeRig::start(Options { kubelet, ..Options::default() }).await;
    let agent = Agent::on(&node).await;
    let fixed = Manifest::new("fixed").init("first", "exit 0").running("app");
    let mirror = node.write_manifest(&fixed);
    a_deleted_pod_goes_after_its_containers_have_stopped(&node, &agent).await;
    what_ran_on_without_a_kubelet_loses_nothing(&node, &agent, &mirror).await;
    a_static_pod_goes_with_its_manifest(&node, &agent, &fixed, &mirror).await;
    assert_eq!(node.uids().await, BTreeSet::new(), "the node is as it was before the first pod");
    let left: Vec<_> = node.names().await.words().into_iter().filter(|name| !name.starts_with("image ")).collect();
    assert_eq!(left, Vec::<String>::new());
}

/// Scenario 4. The pod also has a container that exited long ago.
async fn a_deleted_pod_goes_after_its_containers_have_stopped(node: &NodeRig, agent: &Agent<'_>) {
    let wait = format!("sleep {}", PRE_STOP.as_secs());
    let slow = Manifest::new("slow").restart("Never").container("done", "echo done");
    let slow = slow.running("app").pre_stop(&wait, 60);
    let uid = node.create(&slow).await;
    node.await_running("slow", "app").await;
    node.await_ended("slow", "done").await;
    let before = node.objects_of("slow", &uid).await;
    node.delete("slow").await;
    let mut passes = 0;
    while runs(node, "slow").await {
        agent.collect();
        // The container may have exited during the pass. Then the next iteration checks the rest.
        let left = node.objects_of("slow", &uid).await;
        if runs(node, "slow").await {
            assert_eq!(left, before, "while a container runs");
            passes += 1;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!(passes >= 5, "{passes} passes in {PRE_STOP:?}");
    node.await_removal("slow").await;
    // The directory shows that the kubelet is not done with the pod.
    let dir = node.dir().join("kubelet/pods").join(&uid);
    assert!(eventually(async || !dir.exists()).await, "{} stays", dir.display());
    // From here on the kubelet is paused, so kubegc removes everything that is still there.
    node.pause(Program::Kubelet);
    let left = node.objects_of("slow", &uid).await;
    agent.collect();
    assert_eq!(node.objects_of("slow", &uid).await, left, "at the first look without the pod");
    agent.collect_all_of("slow", &uid).await;
    node.resume(Program::Kubelet);
}

/// Scenarios 5 and 6: a pod and a mirror pod are deleted from the API while the kubelet is down.
async fn what_ran_on_without_a_kubelet_loses_nothing(node: &NodeRig, agent: &Agent<'_>, mirror: &str) {
    let orphan = Manifest::new("orphan").restart("Never").container("done", "exit 0");
    let uid = node.create(&orphan.running("app")).await;
    node.await_running("orphan", "app").await;
    node.await_ended("orphan", "done").await;
    node.await_running(mirror, "app").await;
    let hash = config_hash(node, mirror).await;
    let before = (node.objects_of("orphan", &uid).await, node.objects_of(mirror, &hash).await);
    node.pause(Program::Kubelet);
    node.force_delete("orphan").await;
    node.force_delete(mirror).await;
    for _ in 0..4 {
        agent.collect();
        assert_eq!(node.objects_of("orphan", &uid).await, before.0, "force-deleted, and its containers run");
        assert_eq!(node.objects_of(mirror, &hash).await, before.1, "the mirror pod alone was deleted");
        tokio::time::sleep(GONE_AFTER / 2).await;
    }
    node.resume(Program::Kubelet);
    agent.collect_all_of("orphan", &uid).await;
    node.await_running(mirror, "app").await;
    assert_eq!(node.objects_of(mirror, &hash).await, before.1, "the kubelet created the mirror pod again");
}

/// Scenario 6.
async fn a_static_pod_goes_with_its_manifest(node: &NodeRig, agent: &Agent<'_>, fixed: &Manifest, mirror: &str) {
    let hash = config_hash(node, mirror).await;
    node.remove_manifest(fixed);
    node.await_removal(mirror).await;
    agent.collect_all_of(mirror, &hash).await;
}

/// Returns the uid of a static pod on the node.
async fn config_hash(node: &NodeRig, mirror: &str) -> String {
    let mirror = node.pod_named(mirror).await.unwrap();
    mirror.metadata.annotations.unwrap()["kubernetes.io/config.hash"].clone()
}

/// Says whether a container of a pod runs.
async fn runs(node: &NodeRig, pod: &str) -> bool {
    let names = node.names().await.words();
    names.iter().any(|name| name.starts_with(&format!("container {pod}/")) && name.ends_with(" running"))
}
