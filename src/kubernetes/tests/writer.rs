//! Changes go to the object that was decided about, and to no other (G2).

use serde_json::{Value, json};

use super::discovery::server;
use super::*;
use crate::kubernetes::{
    ApiResource, Connection, Deletion, KubernetesError, WriteTarget, delete_object, patch_object, patch_status,
};
use crate::model::Uid;

fn pod(name: &str, uid: &str) -> Value {
    let metadata = json!({"namespace": "n", "name": name, "uid": uid, "finalizers": ["example.com/hold"]});
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata})
}

/// Makes each kind of change, with the version where one is needed.
async fn changes(
    connection: &Connection,
    (name, uid, version): (&str, &str, &str),
) -> Vec<Result<(), KubernetesError>> {
    let resource = ApiResource::pods();
    let target = WriteTarget { resource: &resource, namespace: "n", name, uid: &Uid::new(uid) };
    let deletion = Deletion { resource_version: Some(version.to_owned()), ..Deletion::default() };
    vec![
        delete_object(connection, target, &deletion, seconds(1)).await.map(drop),
        patch_object(connection, target, version, ("finalizers", json!([])), seconds(1)).await.map(drop),
        patch_status(connection, target, &json!({}), seconds(1)).await.map(drop),
    ]
}

#[tokio::test]
async fn no_change_is_sent_without_uid_or_version() {
    let server = server(|_| (200, pod("a", "u").to_string()));
    let connection = server.connection();
    for target in [("a", "", "7"), ("a/status", "u", "7"), ("..", "u", "7")] {
        assert!(changes(&connection, target).await.iter().all(Result::is_err), "{target:?}");
    }
    let results = changes(&connection, ("a", "u", "")).await;
    assert!(results[..2].iter().all(Result::is_err));
    assert_eq!(server.requests().len(), 1, "the status needs no version");
}

#[tokio::test]
async fn an_answer_about_another_object_is_an_error() {
    let other = |field: &str| {
        let mut pod = pod("a", "u");
        pod["metadata"][field] = "other".into();
        pod
    };
    for answer in [other("name"), other("namespace"), other("uid"), json!({"apiVersion": "v1", "kind": "Node"})] {
        let text = answer.to_string();
        let connection = server(move |_| (200, text.clone())).connection();
        assert!(changes(&connection, ("a", "u", "7")).await.iter().all(Result::is_err), "{answer}");
    }
    let connection = server(|_| (200, pod("a", "u").to_string())).connection();
    assert!(changes(&connection, ("a", "u", "7")).await.iter().all(Result::is_ok));
}
