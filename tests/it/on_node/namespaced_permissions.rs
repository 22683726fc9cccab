//! Permissions for one namespace only: an agent that ignored this would see the pods of the others as deleted.

use std::collections::BTreeSet;

use k8s_openapi::api::rbac::v1::PolicyRule;
use serde_json::{Value, json};

use crate::on_node::service::{Service, leave_litter, needs_none, needs_pods};
use crate::rig::{Manifest, NodeRig, Options, Program};

const PASSES: usize = 3;

/// There is garbage in this namespace and in another one.
const NAMESPACES: [&str; 2] = ["default", "elsewhere"];

#[tokio::test]
async fn permissions_for_one_namespace_only_are_noticed() {
    let node = NodeRig::start(Options::default()).await;
    let keeper = node.create(&Manifest::new("keeper").container("app", "exec sleep 1000000")).await;
    node.await_running("keeper", "app").await;
    // The kubelet would remove the garbage too, and is not the subject of this test.
    node.pause(Program::Kubelet);
    node.grant_shipped_permissions("kubegc").await;
    at_the_start(&node).await;
    while_the_service_runs(&node, &BTreeSet::from([keeper])).await;
}

/// The agent may read its node, and the pods of one namespace.
async fn at_the_start(node: &NodeRig) {
    node.grant("restricted", vec![rule("nodes", &["get"])]).await;
    node.grant_in("default", "restricted", vec![rule("pods", &["get", "list", "watch"])]).await;
    let litter = litter(node, "early").await;
    let service = Service::start(node, "restricted", &["images.all_unused=true", "guards.gone_after=3s"]);
    let shown = async || service.causes().iter().any(|cause| cause.contains("list the pods of all namespaces"));
    service.until("word of what is not allowed", shown).await;
    nothing_is_removed(node, &service, &litter).await;
    let causes = service.why_no_pod_is_deleted();
    assert!(!causes.is_empty() && causes.iter().all(|cause| cause.contains("forbidden")), "{causes:#?}");
    node.end(Program::Kubegc);
}

/// `existing` are the pods of the API, by uid.
async fn while_the_service_runs(node: &NodeRig, existing: &BTreeSet<String>) {
    let service = Service::start(node, "kubegc", &["images.all_unused=true", "guards.gone_after=3s"]);
    service.until("end of all leftovers", async || node.uids().await == *existing).await;

    // The open watch continues. Only the live lookup before a removal shows the change.
    node.revoke("kubegc").await;
    node.grant_in("default", "kubegc", vec![rule("pods", &["get", "list", "watch"])]).await;
    service.mark();
    node.touch("keeper").await;
    leave_litter(node, "elsewhere", "late").await;
    let asked = async || service.history("late").iter().any(|it| it["reason"] == "pod_deleted");
    service.until("last question", asked).await;
    service.passes(PASSES).await;
    assert_eq!(node.present(&needs_pods("late")).await, needs_pods("late"));
    let refused = service.history("late").into_iter().filter(|it| it["reason"] == "pod_deleted");
    let details: BTreeSet<_> = refused.map(|it| (it["outcome"].to_string(), it["detail"].to_string())).collect();
    assert!(
        details.iter().all(|(outcome, detail)| outcome == "\"refused\"" && detail.contains("forbidden")),
        "{details:#?}"
    );

    // The next watch is refused.
    node.kill(Program::ApiServer);
    node.begin(Program::ApiServer).await;
    let shown = async || service.causes().iter().any(|cause| cause.contains("forbidden"));
    service.until("word of what is not allowed", shown).await;
    let litter = litter(node, "later").await;
    nothing_is_removed(node, &service, &litter).await;

    node.grant_shipped_permissions("kubegc").await;
    node.touch("keeper").await;
    // The log directory of a pod goes after its objects in the runtime.
    let is_clean = async || node.uids().await == *existing && node.without_pod().await.is_empty();
    service.until("end of all leftovers", is_clean).await;
}

/// Creates garbage in each namespace and returns the names.
async fn litter(node: &NodeRig, name: &str) -> Vec<String> {
    let mut names = Vec::new();
    for namespace in NAMESPACES {
        let name = format!("{name}-{namespace}");
        leave_litter(node, namespace, &name).await;
        names.push(name);
    }
    names
}

/// Expects that nothing is removed in three passes, and within the time after which it would be.
async fn nothing_is_removed(node: &NodeRig, service: &Service<'_>, litter: &[String]) {
    service.passes(PASSES).await;
    service.passes(PASSES).await;
    for (name, namespace) in litter.iter().zip(NAMESPACES) {
        assert_eq!(node.present(&needs_pods(name)).await, needs_pods(name));
        assert_eq!(node.present(&needs_none(namespace, name)).await, BTreeSet::new());
        let gone: Vec<_> = service.history(name).into_iter().filter(|it| it["reason"] == "pod_deleted").collect();
        assert_eq!(gone, Vec::<Value>::new());
    }
}

fn rule(resource: &str, verbs: &[&str]) -> PolicyRule {
    serde_json::from_value(json!({ "apiGroups": [""], "resources": [resource], "verbs": verbs })).unwrap()
}
