//! Tests of the proofs that a pod is deleted.

use serde_json::json;

use super::*;
use crate::kubernetes::pod_exists;
use crate::model::PodRef;
use crate::testing::fake_api::{Answer, Call, NODE, not_found, pod, status};

fn pod_ref(uid: &str, namespace: &str, name: &str) -> PodRef {
    PodRef { uid: uid.into(), namespace: namespace.into(), name: name.into() }
}

async fn look_up(api: &FakeApi, of: &PodRef) -> Seen<bool> {
    pod_exists(&shared(api), NODE, of, seconds(15)).await
}

fn a() -> PodRef {
    pod_ref("uid-a", "default", "a")
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_read_by_name_compared_by_uid() {
    let api = FakeApi::new().with_pods(&["a"]);
    assert_eq!(look_up(&api, &a()).await, Seen::Seen(true));
    assert_eq!(look_up(&api, &pod_ref("uid-before", "default", "a")).await, Seen::Seen(false));
    assert_eq!(look_up(&api, &pod_ref("uid-b", "default", "b")).await, Seen::Seen(false));
    // Without a resourceVersion the answer comes from the store itself.
    assert_eq!(api.requests()[0], "GET /api/v1/namespaces/default/pods/a");
}

#[tokio::test(start_paused = true)]
async fn a_static_pod_is_compared_by_its_mirror_annotation() {
    let api = FakeApi::new();
    let mut mirror = pod("a");
    mirror["metadata"]["annotations"] =
        json!({"kubernetes.io/config.hash": "0123", "kubernetes.io/config.mirror": "0123"});
    api.put(&mirror);
    assert_eq!(look_up(&api, &pod_ref("0123", "default", "a")).await, Seen::Seen(true));
    assert_eq!(look_up(&api, &a()).await, Seen::Seen(false));
}

#[tokio::test(start_paused = true)]
async fn nothing_but_the_servers_own_word_proves_absence() {
    let mut without_details = not_found("pods", "a");
    without_details["details"] = json!(null);
    let mut other_reason = not_found("pods", "a");
    other_reason["reason"] = json!("");
    let mut other_code = not_found("pods", "a");
    other_code["code"] = json!(503);
    let mut no_status = not_found("pods", "a");
    no_status["kind"] = json!("Error");
    for (why, answer) in [
        ("the page of a proxy", Answer::Text(404, "<html>404 page not found</html>".into())),
        ("the server's own page for paths it does not know", Answer::Text(404, "404 page not found\n".into())),
        ("a Status of another pod", Answer::Text(404, not_found("pods", "b").to_string())),
        ("a Status of another kind", Answer::Text(404, not_found("namespaces", "a").to_string())),
        ("a Status that names nothing", Answer::Text(404, without_details.to_string())),
        ("a Status with another reason", Answer::Text(404, other_reason.to_string())),
        ("a Status with another code", Answer::Text(404, other_code.to_string())),
        ("a Status that comes with another code", Answer::Text(503, not_found("pods", "a").to_string())),
        ("a Status that comes as success", Answer::Text(200, not_found("pods", "a").to_string())),
        ("something that is no Status", Answer::Text(404, no_status.to_string())),
        ("no permission", status(403, "Forbidden")),
        ("a server that fails", status(500, "InternalError")),
        ("another pod", Answer::Text(200, pod("b").to_string())),
        ("a pod without uid", Answer::Text(200, r#"{"metadata":{"namespace":"default","name":"a"}}"#.into())),
        ("nothing", Answer::Text(200, String::new())),
        ("an empty object", Answer::Text(200, "{}".into())),
        ("an answer that is cut", Answer::CutAfter(20)),
        ("an answer that breaks off", Answer::BreaksAfter(20)),
        ("an answer that stops", Answer::StopsAfter(20)),
        ("no answer", Answer::Never),
        ("no connection", Answer::Refused),
    ] {
        let api = FakeApi::new().with_pods(&["a"]);
        api.plan(Call::Get, [answer.clone(), answer]);
        let answer = look_up(&api, &pod_ref("uid-before", "default", "a")).await;
        assert!(answer.cause().is_some_and(|cause| cause.contains("default/a")), "{why}: {answer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_of_unknown_name_cannot_be_looked_up() {
    let api = FakeApi::new();
    for of in [
        pod_ref("uid-a", "default", ""),
        pod_ref("uid-a", "", "a"),
        pod_ref("", "default", "a"),
        pod_ref("uid-a", "default", "../../nodes/a"),
        pod_ref("uid-a", "default", "a?x"),
        pod_ref("uid-a", "..", "a"),
    ] {
        assert!(look_up(&api, &of).await.cause().is_some(), "{of:?}");
    }
    assert_eq!(api.requests(), Vec::<String>::new());
}

/// A directory of the kubelet has the uid of its pod alone.
#[tokio::test(start_paused = true)]
async fn a_pod_of_which_only_the_uid_is_known_is_looked_for_in_the_list_of_the_node() {
    let api = FakeApi::new().with_pods(&["a", "b", "c"]);
    let of = |uid: &str| pod_ref(uid, "", "");
    assert_eq!(look_up(&api, &of("uid-c")).await, Seen::Seen(true));
    assert_eq!(api.requests()[0], "GET /api/v1/pods?&fieldSelector=spec.nodeName%3Dnode-1&limit=50");
    assert_eq!(look_up(&api, &of("uid-before")).await, Seen::Seen(false));
    for answer in [status(403, "Forbidden"), status(500, "InternalError"), Answer::CutAfter(20)] {
        api.plan(Call::List, vec![answer; 3]);
        assert!(look_up(&api, &of("uid-before")).await.cause().is_some(), "a list that fails proves nothing");
    }
    assert!(look_up(&api, &of("")).await.cause().is_some());
}

#[tokio::test(start_paused = true)]
async fn the_lookup_repeats_with_renewed_connection_and_credentials() {
    for first in [Answer::Refused, Answer::BreaksAfter(10), status(401, "Unauthorized")] {
        let api = FakeApi::new().with_pods(&["a"]);
        api.plan(Call::Get, [first]);
        assert_eq!(look_up(&api, &a()).await, Seen::Seen(true));
        assert_eq!(api.count(Call::Get), 2);
    }
}

/// Returns the answer to a node that gets a pod which is not bound to it or no longer exists.
fn refused_to(user: &str) -> Answer {
    let message =
        format!("pods \"a\" is forbidden: User \"{user}\" cannot get resource \"pods\": no relationship found");
    let status = json!({"kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden", "message": message});
    Answer::Text(403, status.to_string())
}

#[tokio::test(start_paused = true)]
async fn nodes_without_get_permission_list_pods_by_name() {
    let api = FakeApi::new().with_pods(&["a", "b", "c"]);
    api.plan(Call::Get, vec![refused_to("system:node:node-1"); 3]);
    assert_eq!(look_up(&api, &a()).await, Seen::Seen(true), "it is in the list");
    assert_eq!(
        api.requests()[1],
        "GET /api/v1/namespaces/default/pods?&fieldSelector=spec.nodeName%3Dnode-1%2Cmetadata.name%3Da&limit=50"
    );
    api.remove(&pod("a"));
    assert_eq!(look_up(&api, &a()).await, Seen::Seen(false));
    api.plan(Call::List, [status(403, "Forbidden")]);
    assert!(look_up(&api, &a()).await.cause().is_some(), "a list that is refused proves nothing");
}

#[tokio::test(start_paused = true)]
async fn only_the_node_itself_proves_deletion_by_list() {
    let api = FakeApi::new();
    for user in ["system:serviceaccount:kubegc-system:kubegc", "system:node:node-12", "system:node:other"] {
        api.plan(Call::Get, [refused_to(user)]);
        assert!(look_up(&api, &a()).await.cause().is_some(), "{user}");
    }
    assert_eq!(api.count(Call::List), 0);
}
