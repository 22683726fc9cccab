//! API Priority and Fairness: an API server that answers the collector with 429.

use std::time::Duration;

use futures::future::join_all;
use http::Request;
use serde_json::json;

use super::{USER, kubegc, leave, left, run, start};
use crate::rig::{NodeRig, Program, becomes_true, becomes_true_within};

/// The flow schema, and its priority level.
const FLOW: &str = "collector";
/// One request at a time serves some sixty resources and all objects.
const PATIENCE: Duration = Duration::from_mins(10);
/// More than the collector deletes at once.
const OBJECTS: usize = 40;

/// Gives the collector one seat of the API server, without a queue: a level that has no seat of its own and borrows none
/// serves one request at a time. Waits until the API server refuses others.
async fn throttle(node: &NodeRig) {
    let of = |kind: &str, spec| {
        let metadata = json!({"name": FLOW});
        json!({"apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec})
    };
    let limited =
        json!({"nominalConcurrencyShares": 0, "borrowingLimitPercent": 0, "limitResponse": {"type": "Reject"}});
    let level = json!({"type": "Limited", "limited": limited});
    node.create_object(&of("PriorityLevelConfiguration", level)).await;
    let resources =
        json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": true});
    let paths = json!({"verbs": ["*"], "nonResourceURLs": ["*"]});
    let (namespace, name) = USER.trim_start_matches("system:serviceaccount:").split_once(':').unwrap();
    let subject = json!({"kind": "ServiceAccount", "serviceAccount": {"namespace": namespace, "name": name}});
    let rule = json!({"subjects": [subject], "resourceRules": [resources], "nonResourceRules": [paths]});
    let spec = json!({"priorityLevelConfiguration": {"name": FLOW}, "matchingPrecedence": 10, "rules": [rule]});
    node.create_object(&of("FlowSchema", spec)).await;
    let client = node.kube_as("controller").await;
    let request = || client.request_text(Request::get("/api/v1/configmaps").body(Vec::new()).unwrap());
    // This client repeats what is refused, so only the audit log shows it.
    let many = async {
        loop {
            join_all((0..20).map(|_| request())).await;
        }
    };
    let is_throttled = becomes_true(async || refused(node) > 0);
    assert!(
        tokio::select! { () = many => false, throttled = is_throttled => throttled },
        "the collector is not throttled"
    );
}

/// Returns how many requests of the collector were refused because of its limits.
fn refused(node: &NodeRig) -> usize {
    node.audit().iter().filter(|entry| entry["responseStatus"]["code"] == 429).count()
}

async fn leave_many(node: &NodeRig) {
    for number in 0..OBJECTS {
        leave(node, &format!("dangling-{number}")).await;
    }
}

#[tokio::test]
async fn collect_waits_where_the_api_server_throttles_it_and_loses_nothing() {
    let node = start().await;
    leave_many(&node).await;
    throttle(&node).await;
    let before = refused(&node);
    let collected = kubegc(&node, &["collect", "--timeout=5m"]);
    assert_eq!(collected.code, 0, "{collected:#?}");
    assert_eq!(left(&node).await, [""; 0]);
    assert!(refused(&node) > before, "more requests at once than seats");
}

#[tokio::test]
#[ignore = "make test-kills: two minutes, and collect is throttled in make test"]
async fn run_says_that_it_is_throttled_and_loses_nothing() {
    let node = start().await;
    leave_many(&node).await;
    throttle(&node).await;
    run(&node);
    let log = || node.log_of(Program::Kubegc);
    // All monitors list at once, and each waits up to 30 s after a refusal.
    let is_done = becomes_true_within(PATIENCE, async || left(&node).await.is_empty());
    assert!(is_done.await, "{}", log());
    assert!(log().contains("code 429, text \"Too many requests"), "{}", log());
    node.end(Program::Kubegc);
}
