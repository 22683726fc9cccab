//! Discovery in both forms, lists of metadata, and live reads, from answers of an API server.

use serde_json::{Value, json};

use super::*;
use crate::kubernetes::{ApiResource, Discovered, KubernetesError, discover, list_metadata_in, read_metadata};
use crate::testing::fake_api::{Answer, FakeApi, Made, failure, not_found};

/// Returns an API server that answers each path with a code and a text.
pub(super) fn server(answer: impl Fn(&str) -> (u16, String) + Send + Sync + 'static) -> FakeApi {
    FakeApi::answering(move |made| {
        let (code, text) = answer(&made.uri);
        Answer::Text(code, text)
    })
}

async fn discovered(
    answer: impl Fn(&str) -> (u16, String) + Send + Sync + 'static,
) -> Result<Discovered, KubernetesError> {
    discover(&server(answer).connection(), seconds(1)).await
}

fn missing() -> (u16, String) {
    (404, "404 page not found\n".to_owned())
}

fn aggregated(groups: &Value) -> String {
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": groups}).to_string()
}

fn core_group() -> String {
    aggregated(&json!([{"metadata": {}, "versions": [{"version": "v1", "freshness": "Current", "resources": [
        {"resource": "pods", "responseKind": {"kind": "Pod"}, "scope": "Namespaced", "verbs": ["delete", "list", "watch"]},
        {"resource": "events", "responseKind": {"kind": "Event"}, "scope": "Namespaced", "verbs": ["delete", "list", "watch"]},
        {"resource": "bindings", "responseKind": {"kind": "Binding"}, "scope": "Namespaced", "verbs": ["create"]},
        {"resource": "only-subresources", "scope": "Cluster"},
    ]}]}]))
}

fn names(found: &Discovered) -> Vec<String> {
    found
        .resources
        .iter()
        .map(|it| format!("{}/{}{}", it.api_version, it.resource, if it.is_preferred { "!" } else { "" }))
        .collect()
}

fn pods() -> ApiResource {
    ApiResource::pods()
}

#[tokio::test]
async fn the_aggregated_form_prefers_the_first_version() {
    let other = aggregated(&json!([
        {"metadata": {"name": "example.com"}, "versions": [
            {"version": "v2", "resources": [
                {"resource": "widgets", "responseKind": {"kind": "Widget"}, "scope": "Cluster", "verbs": []}]},
            {"version": "v1", "resources": [
                {"resource": "widgets", "responseKind": {"kind": "Widget"}, "scope": "Cluster", "verbs": []},
                {"resource": "gadgets", "responseKind": {"kind": "Gadget"}, "scope": "Cluster", "verbs": []}]}]},
        {"metadata": {"name": "metrics.k8s.io"}, "versions": [{"version": "v1beta1", "freshness": "Stale"}]},
    ]));
    let found = discovered(move |path| (200, if path == "/api" { core_group() } else { other.clone() })).await.unwrap();
    let expected = [
        "v1/pods!",
        "v1/events!",
        "v1/bindings!",
        "example.com/v2/widgets!",
        "example.com/v1/widgets",
        "example.com/v1/gadgets!",
    ];
    assert_eq!(names(&found), expected);
    assert_eq!(
        found.unavailable,
        [("metrics.k8s.io/v1beta1".to_owned(), "the API server reports it as stale".to_owned())]
    );
    let collectable: Vec<_> = found.resources.iter().filter(|it| it.is_collectable()).map(|it| &*it.resource).collect();
    assert_eq!(collectable, ["pods"]);
    assert_eq!((found.resources[0].namespaced, found.resources[3].namespaced), (true, false));
}

/// A server of version 1.20 answers both paths with the older form, whatever the client accepts.
#[tokio::test]
async fn a_failed_group_version_affects_no_other() {
    let list = |resources: Value| json!({"kind": "APIResourceList", "resources": resources}).to_string();
    let resource = |name: &str, kind: &str| json!({"name": name, "kind": kind, "namespaced": true, "verbs": ["list"]});
    let answer = move |path: &str| match path {
        "/readyz" => missing(),
        "/api" => (200, json!({"kind": "APIVersions", "versions": ["v1"]}).to_string()),
        "/apis" => {
            let versions =
                |versions: &[&str]| versions.iter().map(|it| json!({"groupVersion": it})).collect::<Vec<_>>();
            let apps = json!({"name": "apps", "versions": versions(&["apps/v1beta1", "apps/v1"]),
                "preferredVersion": {"groupVersion": "apps/v1"}});
            let metrics = json!({"name": "metrics", "versions": versions(&["metrics/v1"])});
            (200, json!({"kind": "APIGroupList", "groups": [apps, metrics]}).to_string())
        }
        "/api/v1" => (200, list(json!([resource("pods", "Pod"), resource("pods/log", "Pod")]))),
        "/apis/apps/v1" | "/apis/apps/v1beta1" => (200, list(json!([resource("deployments", "Deployment")]))),
        _ => (503, "service unavailable".to_owned()),
    };
    let found = discovered(answer).await.unwrap();
    assert_eq!(names(&found), ["v1/pods!", "apps/v1/deployments!", "apps/v1beta1/deployments"]);
    let [(version, cause)] = &found.unavailable[..] else { panic!("{:?}", found.unavailable) };
    assert!(version == "metrics/v1" && cause.contains("503"), "{version}: {cause}");
}

#[tokio::test]
async fn without_the_core_group_there_is_no_result() {
    let empty = || aggregated(&json!([]));
    let legacy = || json!({"kind": "APIGroupList", "groups": []}).to_string();
    let rows = [
        ("no core group", (200, empty()), (200, empty()), "no resources of the core group"),
        ("no path for the core group", missing(), (200, empty()), "404"),
        ("no core group in the older form", (200, legacy()), (200, empty()), "no resources of the core group"),
        ("a page of a proxy", (200, "<html>".to_owned()), (200, empty()), "the response is incomplete or invalid"),
        ("no permission", (403, status_text(403, "Forbidden")), (200, empty()), "may not discover"),
    ];
    for (name, core, groups, expected) in rows {
        let error =
            discovered(move |path| if path == "/api" { core.clone() } else { groups.clone() }).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{name}: {error}");
    }
}

/// A server that starts serves its custom resources last.
#[tokio::test]
async fn a_server_reporting_not_ready_is_not_discovered() {
    let empty = || aggregated(&json!([]));
    let rows = [
        ((200, "ok".to_owned()), None),
        ((403, status_text(403, "Forbidden")), None),
        ((401, status_text(401, "Unauthorized")), None),
        (missing(), None),
        (
            (500, "[-]poststarthook/crd-informer-synced failed".to_owned()),
            Some("not ready: /readyz has code 500, because of poststarthook/crd-informer-synced"),
        ),
        ((500, "[+]ping ok\n[-]kms-providers failed: reason withheld\n[+]shutdown ok\n".to_owned()), None),
        ((500, "[-]poststarthook/rbac/bootstrap-roles failed\n".to_owned()), None),
        ((500, "[-]shutdown failed\n[-]etcd failed\n".to_owned()), Some("because of shutdown, etcd")),
        ((503, "no healthy upstream".to_owned()), Some("/readyz has code 503")),
        ((502, format!("{}[-]informer-sync failed\n", "[+]a ok\n".repeat(40))), Some("informer-sync")),
    ];
    for (ready, expected) in rows {
        let answer = {
            let ready = ready.clone();
            move |path: &str| match path {
                "/readyz" => ready.clone(),
                "/api" => (200, core_group()),
                _ => (200, empty()),
            }
        };
        let error = discovered(answer).await.err().map(|error| error.to_string());
        assert_eq!(error.is_some(), expected.is_some(), "{ready:?}: {error:?}");
        assert!(error.unwrap_or_default().contains(expected.unwrap_or_default()), "{ready:?}");
    }
}

fn status_text(code: u16, reason: &str) -> String {
    failure(code, reason, &json!({})).to_string()
}

#[tokio::test]
async fn a_list_requests_metadata_and_accepts_whole_objects() {
    for kind in ["PartialObjectMetadataList", "PodList"] {
        let object = json!({"metadata": {"name": "a", "namespace": "n", "uid": "u", "finalizers": ["x/y"],
            "deletionTimestamp": "2026-01-01T00:00:00Z", "ownerReferences": [
                {"apiVersion": "v1", "kind": "Node", "name": "o", "uid": "uo", "blockOwnerDeletion": true}]}});
        let list = json!({"apiVersion": "v1", "kind": kind, "metadata": {"resourceVersion": "7"}, "items": [object]})
            .to_string();
        let server = server(move |_| (200, list.clone()));
        let listed = list_metadata_in(&server.connection(), &pods(), "", None, seconds(1)).await.unwrap();
        assert_eq!((&*listed[0].name, &*listed[0].uid.to_string(), listed[0].is_deleting()), ("a", "u", true));
        let owner = &listed[0].owners[0];
        assert_eq!((&*owner.name, owner.blocking, owner.controller), ("o", Some(true), None));
        let [Made { uri: path, accept, .. }] = &server.made()[..] else { panic!("one request") };
        assert!(path.starts_with("/api/v1/pods?") && path.contains("limit=500"), "{path}");
        assert!(accept.starts_with("application/json;as=PartialObjectMetadataList;"), "{accept}");
    }
}

#[tokio::test]
async fn a_list_with_expired_pages_restarts_a_few_times() {
    let page = json!({"apiVersion": "v1", "kind": "PodList", "metadata": {"resourceVersion": "7", "continue": "more"}, "items": []});
    let answer = move |path: &str| {
        if path.contains("continue=") { (410, status_text(410, "Expired")) } else { (200, page.to_string()) }
    };
    let server = server(answer);
    let error = list_metadata_in(&server.connection(), &pods(), "", None, seconds(1)).await.unwrap_err();
    assert!(error.to_string().contains("its pages expire"), "{error}");
    assert_eq!(server.requests().len(), 6);
}

fn pod_in(namespace: &str, name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": namespace, "name": name, "uid": "u"}})
}

async fn read(code: u16, text: String) -> Result<Option<String>, KubernetesError> {
    let server = server(move |_| (code, text.clone()));
    let found = read_metadata(&server.connection(), &pods(), "n", "a", seconds(1)).await?;
    Ok(found.map(|found| found.uid.to_string()))
}

#[tokio::test]
async fn only_a_status_naming_the_object_proves_its_absence() {
    let object = |name: &str| pod_in("n", name).to_string();
    let other = |field: &str, value: &str| {
        let mut pod = pod_in("n", "a");
        pod[field] = value.into();
        pod.to_string()
    };
    let mut of_group = not_found("pods", "a");
    of_group["details"]["group"] = "metrics.k8s.io".into();
    assert_eq!(read(200, object("a")).await.unwrap().as_deref(), Some("u"));
    assert_eq!(read(404, not_found("pods", "a").to_string()).await.unwrap(), None);
    assert_eq!(read(404, not_found("", "a").to_string()).await.unwrap(), None, "not every server names the resource");
    let mut unserved = not_found("", "");
    unserved["message"] = json!("the server could not find the requested resource");
    for (name, code, text) in [
        ("an unserved resource of a known group", 404, unserved.to_string()),
        ("an unserved group", 404, missing().1),
        ("another object", 404, not_found("pods", "b").to_string()),
        ("another resource", 404, not_found("nodes", "a").to_string()),
        ("another object is returned", 200, object("b")),
        ("an object of another namespace is returned", 200, pod_in("other", "a").to_string()),
        ("an object of another kind is returned", 200, other("kind", "Secret")),
        ("an object of another version is returned", 200, other("apiVersion", "v2")),
        ("a resource of another group", 404, of_group.to_string()),
        ("a page of a proxy", 200, "<html>".to_owned()),
        ("no permission", 403, status_text(403, "Forbidden")),
        ("an error", 500, status_text(500, "InternalError")),
    ] {
        assert!(read(code, text).await.is_err(), "{name}");
    }
}
