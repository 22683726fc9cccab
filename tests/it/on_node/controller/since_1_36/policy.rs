//! A `ValidatingAdmissionPolicy` that denies a deletion.

use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding;
use kube::api::{Api, DeleteParams};
use serde_json::json;

use super::{kubegc, leave, left, maps, run, start};
use crate::rig::{NodeRig, Program, becomes_true};

const POLICY: &str = "keep-held";
const MESSAGE: &str = "the operator holds this object";
/// More attempts within a test would not be a back-off that doubles from 5 ms.
const MOST_ATTEMPTS: usize = 20;

/// Denies each deletion of a ConfigMap whose name begins with `held`, and waits until the API server does.
async fn deny(node: &NodeRig) {
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["configmaps"]});
    let validation = json!({"expression": "!oldObject.metadata.name.startsWith('held')", "message": MESSAGE});
    let of = |kind: &str, spec| {
        let metadata = json!({"name": POLICY});
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec})
    };
    let spec = json!({"matchConstraints": {"resourceRules": [rule]}, "validations": [validation]});
    node.create_object(&of("ValidatingAdmissionPolicy", spec)).await;
    let spec = json!({"policyName": POLICY, "validationActions": ["Deny"]});
    node.create_object(&of("ValidatingAdmissionPolicyBinding", spec)).await;
    assert!(becomes_true(async || is_denied(node).await).await, "the policy denies nothing");
}

async fn permit(node: &NodeRig) {
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(node.kube());
    bindings.delete(POLICY, &DeleteParams::default()).await.unwrap();
}

/// Returns whether the API server denies the deletion of an object that begins with `held`.
async fn is_denied(node: &NodeRig) -> bool {
    maps(node).delete("held", &DeleteParams::default().dry_run()).await.is_err()
}

/// Two objects to collect, of which the policy holds one.
async fn held_node() -> NodeRig {
    let node = start().await;
    leave(&node, "held").await;
    deny(&node).await;
    leave(&node, "free").await;
    node
}

/// Returns how often the collector tried to delete the object that is held.
fn attempts(node: &NodeRig) -> usize {
    let audit = node.audit();
    audit.iter().filter(|entry| entry["verb"] == "delete" && entry["objectRef"]["name"] == "held").count()
}

#[tokio::test]
async fn collect_names_an_object_that_a_policy_holds_and_deletes_the_others() {
    let node = held_node().await;
    let collected = kubegc(&node, &["collect"]);
    assert_eq!(collected.code, 1, "{collected:#?}");
    let error = &collected.stderr;
    assert!(error.contains("ConfigMap.v1/held in namespace default: ") && error.contains(MESSAGE), "{error}");
    assert_eq!(left(&node).await, ["held"]);
    assert!((2..MOST_ATTEMPTS).contains(&attempts(&node)), "{} attempts", attempts(&node));

    permit(&node).await;
    assert!(becomes_true(async || !is_denied(&node).await).await, "the policy remains in force");
    let collected = kubegc(&node, &["collect"]);
    assert_eq!(collected.code, 0, "{collected:#?}");
    assert_eq!(left(&node).await, [""; 0]);
}

#[tokio::test]
async fn run_logs_what_a_policy_holds_once_and_deletes_it_when_the_policy_is_removed() {
    let node = held_node().await;
    run(&node);
    let named = || node.log_of(Program::Kubegc).lines().filter(|line| line.contains(MESSAGE)).count();
    let is_waiting = async || left(&node).await == ["held"] && named() > 0 && attempts(&node) > 2;
    assert!(becomes_true(is_waiting).await, "{:?}\n{}", left(&node).await, node.log_of(Program::Kubegc));
    assert_eq!(named(), 1, "{}", node.log_of(Program::Kubegc));

    permit(&node).await;
    assert!(becomes_true(async || left(&node).await.is_empty()).await, "{}", node.log_of(Program::Kubegc));
    assert!(attempts(&node) < MOST_ATTEMPTS, "{} attempts", attempts(&node));
    node.end(Program::Kubegc);
}
