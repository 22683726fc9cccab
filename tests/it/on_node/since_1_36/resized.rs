//! Pods whose resources change while they run, and pods with a user namespace of their own.

use std::time::Instant;

use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::LOWEST_LIMITS;
use super::follower::{Follower, Readable};
use crate::on_node::service::Service;
use crate::rig::{Manifest, NodeRig, Options, eventually};

/// The limits of memory, one after the other.
const SIZES: [&str; 3] = ["40Mi", "50Mi", "60Mi"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_are_resized_in_place() {
    let begun = Instant::now();
    let node = super::start(Options { pod_cgroups: true, ..Options::default() }).await;
    let service = Service::start(&node, "kubegc", &LOWEST_LIMITS);
    let follower = Follower::follow(&node, Readable::WhileWaiting);
    a_pod_is_resized(&node, &service).await;
    a_user_namespace_is_refused(&node, &service).await;
    assert_eq!(node.container_status("keeper", "app").await.restart_count, 0);
    follower.end(0).await;
    super::nothing_is_left_of_deleted_pods(&node, &service).await;
    super::report(&service);
    println!("{:?}", begun.elapsed());
}

/// One container keeps running, and the kubelet restarts the other one for each size.
async fn a_pod_is_resized(node: &NodeRig, service: &Service<'_>) {
    let pod = Manifest::new("size").running("stays");
    let pod = pod.container("restarts", "echo restarts; trap 'exit 0' TERM; sleep 1000000 & wait").with(|pod| {
        let containers = &mut pod["spec"]["containers"];
        for container in [0, 1] {
            containers[container]["resources"] = resources(SIZES[0]);
        }
        containers[1]["resizePolicy"] = json!([{ "resourceName": "memory", "restartPolicy": "RestartContainer" }]);
    });
    node.create(&pod).await;
    for (restarts, size) in (0..).zip(SIZES) {
        resize(node, size).await;
        node.await_pod("size", &format!("resized to {size}"), |pod| is_resized(pod, size)).await;
        node.await_container("size", "restarts", "restarted", |it| it.restart_count >= restarts).await;
        service.passes(2).await;
        let counts = ["stays", "restarts"].map(|name| node.container_status("size", name));
        let [stays, again] = counts;
        assert_eq!((stays.await.restart_count, again.await.restart_count), (0, restarts), "at {size}");
    }
}

async fn resize(node: &NodeRig, size: &str) {
    let container = |name: &str| json!({ "name": name, "resources": resources(size) });
    let patch = json!({ "spec": { "containers": [container("stays"), container("restarts")] } });
    node.pods().patch_subresource("resize", "size", &PatchParams::default(), &Patch::Strategic(patch)).await.unwrap();
}

fn resources(memory: &str) -> Value {
    json!({ "requests": { "cpu": "100m", "memory": "20Mi" }, "limits": { "cpu": "200m", "memory": memory } })
}

/// Says whether all containers run with this size.
fn is_resized(pod: &Pod, size: &str) -> bool {
    let statuses: Vec<_> = pod.status.iter().flat_map(|status| &status.container_statuses).flatten().collect();
    let has = statuses.iter().filter(|status| {
        let limits = status.resources.as_ref().and_then(|resources| resources.limits.as_ref());
        let runs = status.state.as_ref().is_some_and(|state| state.running.is_some());
        runs && limits.is_some_and(|limits| limits["memory"].0 == size)
    });
    has.count() == 2
}

/// The runc of these nodes has no ID-mapped mounts (1.2 has), so containerd reports that it supports no user namespaces, and the
/// kubelet refuses such a pod. It waits, and nothing of it is on the node yet. Where the runtime supports them, the pod
/// needs a network of its own, and so a CNI plugin.
async fn a_user_namespace_is_refused(node: &NodeRig, service: &Service<'_>) {
    let object = Api::<Node>::all(node.kube()).get(node.name()).await.unwrap();
    let handlers = object.status.unwrap().runtime_handlers.unwrap_or_default();
    let features = handlers.iter().filter_map(|handler| handler.features.as_ref());
    let supported = features.filter(|features| features.user_namespaces == Some(true)).count();
    assert_eq!(supported, 0, "the runtime supports user namespaces: run the pod in this test");
    let pod = Manifest::new("users").running("app").with(|pod| {
        pod["spec"]["hostNetwork"] = json!(false);
        pod["spec"]["hostUsers"] = json!(false);
    });
    let uid = node.create(&pod).await;
    let refused =
        async || messages(node, "users").await.iter().any(|text| text.contains("does not support user namespaces"));
    assert!(eventually(refused).await, "{:?}", messages(node, "users").await);
    service.passes(3).await;
    println!("a pod with a user namespace: {:?}", messages(node, "users").await);
    assert!(node.objects_of("users", &uid).await.contains("kubelet dir"));
}

/// Returns the messages of a pod's events.
async fn messages(node: &NodeRig, pod: &str) -> Vec<String> {
    let events: Api<Event> = Api::namespaced(node.kube(), "default");
    let params = ListParams::default().fields(&format!("involvedObject.name={pod}"));
    events.list(&params).await.unwrap().items.into_iter().filter_map(|event| event.message).collect()
}
