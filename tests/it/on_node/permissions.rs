//! kubegc with the shipped permissions: they allow everything that kubegc does, and kubegc uses all of them.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, ListParams};
use serde_json::Value;

use crate::manifests::objects;
use crate::rig::{APP, Image, Layer, NodeRig, Options, Program, becomes_true};

/// One permission: the verb, the resource, and the namespace; `None` = all namespaces.
type Right = (String, String, Option<String>);

#[tokio::test]
async fn the_agent_uses_exactly_the_permissions_that_it_has() {
    let node = NodeRig::start(Options::default()).await;
    for object in objects("daemonset") {
        node.create_object(&object).await; // the API server accepts each of them
    }
    node.prepare_service(&["--config", &config(&node)]);
    node.launch(Program::Kubegc);

    removed_images_are_told(&node).await;
    a_deleted_pod_is_looked_up(&node).await;
    node.end(Program::Kubegc);

    let (granted, used) = (granted(), used(&node));
    let unproven: Vec<_> = used.iter().filter(|right| !granted.iter().any(|granted| covers(granted, right))).collect();
    assert!(unproven.is_empty(), "done, but not by a right that is shipped: {unproven:#?}");
    let unused: Vec<_> = granted.iter().filter(|granted| !used.iter().any(|right| covers(granted, right))).collect();
    assert!(unused.is_empty(), "granted for nothing: {unused:#?}; used are {used:#?}");
}

fn config(node: &NodeRig) -> String {
    let config = format!(
        r#"
        node = "{node}"
        containers.interval = "1s"
        [images]
        interval = "1s"
        min_age = "0s"
        all_unused = true
        keep = ["{APP}"]
        [guards]
        gone_after = "2s"
        settle = "0s"
        fall_hold = "0s"
        sandbox_grace = "1s"
        [pods]
        source = "kube-api"
        kubeconfig = "{kubeconfig}"
        "#,
        node = node.name(),
        kubeconfig = node.kubeconfig("account").display(),
    );
    node.write_config("account", &config)
}

/// Two passes that remove an image give one event with a count of two.
async fn removed_images_are_told(node: &NodeRig) {
    for (tag, count) in [("docker.io/library/first:1", 1), ("docker.io/library/second:1", 2)] {
        node.import(&[Image::new(&[tag], &[Layer::busybox()])]).await;
        let shown = async || told_of_images(node).await.iter().any(|event| event.count == Some(count));
        let log = || node.log_of(Program::Kubegc);
        assert!(becomes_true(shown).await, "{:#?}\n{}", told_of_images(node).await, log());
    }
    let events = told_of_images(node).await;
    let [event] = &events[..] else { panic!("{events:#?}") };
    assert_eq!(event.involved_object.kind.as_deref(), Some("Node"));
    assert_eq!(event.involved_object.name.as_deref(), Some(node.name()));
    assert_eq!(event.involved_object.uid.as_deref(), Some(node.name()));
    assert_eq!(event.type_.as_deref(), Some("Normal"));
    assert_eq!(event.source.as_ref().and_then(|source| source.component.as_deref()), Some("kubegc"));
    assert!(event.message.as_ref().is_some_and(|words| words.starts_with("Removed 1 unused image;")), "{event:#?}");
    assert!(event.first_timestamp <= event.last_timestamp, "{event:#?}");
}

async fn told_of_images(node: &NodeRig) -> Vec<Event> {
    let events: Api<Event> = Api::namespaced(node.kube(), "default");
    let of_us = ListParams::default().fields("reason=ImagesRemoved");
    events.list(&of_us).await.unwrap().items
}

/// Objects of a deleted pod are removed after a live lookup of the pod. Only the runtime has this pod, and the kubelet is
/// paused, because it would remove it too.
async fn a_deleted_pod_is_looked_up(node: &NodeRig) {
    node.pause(Program::Kubelet);
    let pod = node.pod("default", "gone", "0b6e9d52-6f0c-4f0e-9d3c-3a1f5d8e7c21").await;
    pod.exited("app", 0).await;
    pod.stop_sandbox().await;
    let left = async || node.list_sandboxes().await;
    assert!(
        becomes_true(async || left().await.is_empty()).await,
        "{:#?}\n{}",
        left().await,
        node.log_of(Program::Kubegc)
    );
    node.resume(Program::Kubelet);
    let is_get = |right: &Right| (right.0.as_str(), right.1.as_str()) == ("get", "pods");
    assert!(used(node).iter().any(is_get), "no pod was asked for\n{}", node.log_of(Program::Kubegc));
}

/// Returns the permissions in the manifests.
fn granted() -> BTreeSet<Right> {
    let roles = objects("daemonset").into_iter().filter(|object| object["rules"].is_array());
    roles.flat_map(|role| rights(&role)).collect()
}

fn rights(role: &Value) -> Vec<Right> {
    let namespace = role["metadata"]["namespace"].as_str().map(str::to_owned);
    let words = |list: &Value| -> Vec<String> {
        list.as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned()).collect()
    };
    let mut rights = Vec::new();
    for rule in role["rules"].as_array().unwrap() {
        for (verb, resource) in words(&rule["verbs"])
            .iter()
            .flat_map(|verb| words(&rule["resources"]).into_iter().map(move |it| (verb, it)))
        {
            rights.push((verb.clone(), resource, namespace.clone()));
        }
    }
    rights
}

/// Returns the permissions that the agent used.
fn used(node: &NodeRig) -> BTreeSet<Right> {
    let audit = node.audit();
    let refused: Vec<_> = audit
        .iter()
        .filter(|entry| entry["annotations"]["authorization.k8s.io/decision"] != "allow")
        .map(|entry| (&entry["verb"], &entry["requestURI"], &entry["responseStatus"]))
        .collect();
    assert!(refused.is_empty(), "{refused:#?}");
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let right = |entry: &Value| {
        let object = &entry["objectRef"];
        // Paths that are no resource, such as a version or a health check, are permissions too.
        let resource = text(&object["resource"]).or(text(&entry["requestURI"])).unwrap();
        let whole = text(&object["subresource"]).map(|part| format!("{resource}/{part}")).unwrap_or(resource);
        (text(&entry["verb"]).unwrap(), whole, text(&object["namespace"]))
    };
    audit.iter().map(right).collect()
}

fn covers(granted: &Right, used: &Right) -> bool {
    granted.0 == used.0 && granted.1 == used.1 && (granted.2.is_none() || granted.2 == used.2)
}
