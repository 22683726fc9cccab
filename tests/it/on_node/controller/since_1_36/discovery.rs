//! Aggregated discovery: two requests for all resources.

use std::collections::BTreeSet;

use http::Request;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIGroup, APIResource};
use kube::Client;
use serde_json::{Value, json};

use super::{kubegc, leave, left, run, start};
use crate::rig::{NodeRig, Program, becomes_true};

/// Returns the paths of the requests that name no object or resource, without those for the version and for health.
fn discoveries(node: &NodeRig) -> BTreeSet<String> {
    let audit = node.audit().into_iter().filter(|entry| entry["objectRef"].is_null());
    let paths = audit.map(|entry| entry["requestURI"].as_str().unwrap().to_owned());
    paths.filter(|path| path.starts_with("/api")).collect()
}

/// Returns the resources for which the collector made a request of this kind, as `GROUP/RESOURCE`.
fn requested(node: &NodeRig, verb: &str) -> BTreeSet<String> {
    let audit = node.audit().into_iter().filter(|entry| entry["verb"] == verb && entry["objectRef"]["name"].is_null());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let resources = audit.map(|entry| (text(&entry["objectRef"]["apiGroup"]), text(&entry["objectRef"]["resource"])));
    resources.map(|(group, resource)| format!("{group}/{resource}")).collect()
}

/// Returns the resources that have objects to collect, from the older form: one request for each group-version.
async fn collectable(client: &Client) -> BTreeSet<String> {
    let mut versions = vec![(String::new(), "/api/v1".to_owned())];
    let groups = client.list_api_groups().await.unwrap().groups;
    versions.extend(groups.iter().flat_map(|APIGroup { name, versions, .. }| {
        versions.iter().map(|version| (name.clone(), format!("/apis/{}", version.group_version)))
    }));
    let mut found = BTreeSet::new();
    for (group, path) in versions {
        let request = Request::get(path).body(Vec::new()).unwrap();
        let list: Value = client.request(request).await.unwrap();
        let resources: Vec<APIResource> = serde_json::from_value(list["resources"].clone()).unwrap();
        let is_event = |it: &APIResource| it.name == "events";
        let can =
            |it: &APIResource| ["delete", "list", "watch"].iter().all(|verb| it.verbs.iter().any(|it| it == verb));
        found.extend(resources.iter().filter(|it| can(it) && !is_event(it)).map(|it| format!("{group}/{}", it.name)));
    }
    found
}

/// With the versions that are disabled by default.
#[tokio::test]
async fn two_requests_discover_every_resource_that_run_lists_and_watches() {
    let node = start().await;
    node.end(Program::ApiServer);
    node.add_flag(Program::ApiServer, "--runtime-config=api/all=true");
    node.begin(Program::ApiServer).await;
    leave(&node, "dangling").await;
    let expected = collectable(&node.kube()).await;
    assert!(expected.len() > 60 && expected.contains("resource.k8s.io/resourceclaims"), "{expected:#?}");

    let planned = kubegc(&node, &["plan", "--fail-on", "dangling"]);
    assert_eq!(planned.code, 4, "{planned:#?}");
    assert_eq!(requested(&node, "list"), expected);
    run(&node);
    let is_collected = async || !left(&node).await.contains(&"dangling".to_owned());
    assert!(becomes_true(is_collected).await, "{}", node.log_of(Program::Kubegc));
    node.end(Program::Kubegc);
    // The API server logs a watch when it ends.
    let is_logged = async || requested(&node, "watch").len() >= expected.len();
    assert!(becomes_true(is_logged).await, "{:#?}", requested(&node, "watch"));
    assert_eq!(requested(&node, "watch"), expected);
    assert_eq!(discoveries(&node), ["/api", "/apis"].map(str::to_owned).into());
}

/// The aggregated form names a group whose server does not answer, and no resource of it.
#[tokio::test]
async fn a_stale_group_keeps_what_it_may_own_and_affects_no_other() {
    let node = start().await;
    let spec = json!({"group": "stale.example.com", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10,
        "insecureSkipTLSVerify": true, "service": {"name": "nowhere", "namespace": "default"}});
    let api = json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "spec": spec,
        "metadata": {"name": "v1.stale.example.com"}});
    node.create_object(&api).await;
    let owner = json!({"apiVersion": "stale.example.com/v1", "kind": "Thing", "name": "thing", "uid": "u"});
    let metadata = json!({"name": "owned", "namespace": "default", "ownerReferences": [owner]});
    node.create_object(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})).await;
    leave(&node, "dangling").await;

    let stale = "stale.example.com/v1: the API server reports it as stale";
    let is_reported = async || kubegc(&node, &["plan", "-o", "json"]).stdout.contains(stale);
    assert!(becomes_true(is_reported).await, "{:#?}", kubegc(&node, &["plan", "-o", "json"]));
    let collected = kubegc(&node, &["collect"]);
    assert!(collected.code == 1 && collected.stderr.contains(stale), "{collected:#?}");
    assert_eq!(left(&node).await, ["owned"]);
}
