//! A pod source is unavailable, or not yet available: no pod counts as deleted, and removals that need no pods
//! continue.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::on_node::service::{GONE_AFTER, Service, leave_litter, needs_none, needs_pods};
use crate::rig::{APP, Manifest, NodeRig, Options, Program, node_containerd};

/// Makes the kubelet keep younger containers and their sandboxes, so that they are left to kubegc.
pub const LEAVES_CONTAINERS: &str = "--minimum-container-ttl-duration=1h";

/// The minimum number of passes during an outage.
const PASSES: usize = 3;

#[tokio::test]
async fn without_a_pod_source_no_pod_counts_as_deleted() {
    let options = Options { kubelet_flags: vec![LEAVES_CONTAINERS.into()], ..Options::default() };
    let node = NodeRig::start(options).await;
    node.grant_shipped_permissions("kubegc").await;
    let keeper = node.create(&Manifest::new("keeper").container("app", "exec sleep 1000000")).await;
    let finished = node.create(&Manifest::new("finished").restart("Never").container("app", "exit 0")).await;
    node.await_running("keeper", "app").await;
    node.await_ended("finished", "app").await;
    let service = Service::start(&node, "kubegc", &["images.all_unused=true"]);
    service.passes(1).await;

    without_the_api_server(&node, &service).await;
    without_the_kubelet(&node, &service, &finished).await;
    without_both(&node, &service).await;

    node.begin(Program::ApiServer).await;
    is_removed(&node, &service, "both").await;
    assert!(node.objects_of("finished", &finished).await.contains("kubelet dir"), "who else should remove it");
    node.begin(Program::Kubelet).await;
    service.until("end of all leftovers", async || node.without_pod().await.is_empty()).await;
    let keeper_has = node.objects_of("keeper", &keeper).await;
    let rest: BTreeSet<_> = node.names().await.words().difference(&keeper_has).cloned().collect();
    let images = [APP, &node_containerd().sandbox_image()].map(|tag| format!("image {tag}"));
    assert_eq!(rest, BTreeSet::from(images), "{keeper_has:#?}");
    assert!(keeper_has.contains("container keeper/app#0 running"), "{keeper_has:#?}");
    assert_eq!(service.starts(), 1);
}

/// The kubelet is paused meanwhile: it stops pods that it does not manage, and a later one removes their containers too.
async fn without_the_api_server(node: &NodeRig, service: &Service<'_>) {
    node.pause(Program::Kubelet);
    leave_litter(node, "default", "api").await;
    service.next_pass().await; // this pass records that the pod is missing
    node.end(Program::ApiServer);
    leave_litter(node, "default", "api-late").await;
    nothing_of_pods_goes(node, service, "api").await;
    assert_eq!(node.present(&needs_none("default", "api-late")).await, BTreeSet::new());
    assert_eq!(node.present(&needs_pods("api-late")).await, needs_pods("api-late"));
    let causes = service.why_no_pod_is_deleted();
    assert!(causes.iter().any(|cause| cause.contains("the API server cannot be reached")), "{causes:#?}");
    node.begin(Program::ApiServer).await;
    is_removed(node, service, "api").await;
    node.resume(Program::Kubelet);
}

/// The API is the only pod source here, and it is available. The kubelet's pod directory shows that the kubelet has not
/// finished with a pod.
async fn without_the_kubelet(node: &NodeRig, service: &Service<'_>, finished: &str) {
    node.end(Program::Kubelet);
    node.force_delete("finished").await;
    let all = node.objects_of("finished", finished).await;
    for part in ["container finished/app#0 exited", "sandbox finished#0 notready", "kubelet dir"] {
        assert!(all.contains(part), "{all:#?}");
    }
    leave_litter(node, "default", "kubelet").await;
    long_enough(service).await;
    assert_eq!(node.objects_of("finished", finished).await, all);
    assert_eq!(node.present(&needs_none("default", "kubelet")).await, BTreeSet::new());
}

async fn without_both(node: &NodeRig, service: &Service<'_>) {
    leave_litter(node, "default", "both").await;
    service.next_pass().await;
    node.end(Program::ApiServer);
    nothing_of_pods_goes(node, service, "both").await;
}

/// Makes three passes. They take at least the time after which pods would count as deleted if the last list were still
/// valid.
async fn long_enough(service: &Service<'_>) -> Vec<Value> {
    let since = Instant::now();
    let passes = service.passes(PASSES).await;
    tokio::time::sleep((GONE_AFTER + Duration::from_secs(4)).saturating_sub(since.elapsed())).await;
    passes
}

async fn nothing_of_pods_goes(node: &NodeRig, service: &Service<'_>, litter: &str) {
    let passes = long_enough(service).await;
    assert_eq!(node.present(&needs_pods(litter)).await, needs_pods(litter));
    assert_eq!(node.present(&needs_none("default", litter)).await, BTreeSet::new());
    // The first pass may have started before.
    let refused: Vec<_> = passes.iter().skip(1).filter(|pass| pass["refused"] != 0).collect();
    assert_eq!(refused, Vec::<&Value>::new(), "it was not even to go");
}

async fn is_removed(node: &NodeRig, service: &Service<'_>, litter: &str) {
    let gone = async || node.present(&needs_pods(litter)).await.is_empty();
    service.until(&format!("end of {litter}"), gone).await;
    let history = service.history(litter);
    let ours = history
        .iter()
        .any(|it| it["reason"] == "pod_deleted" && it["outcome"] == "removed" && it["kind"] == "container");
    assert!(ours, "{history:#?}");
}
