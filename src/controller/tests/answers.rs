//! The simulated API servers answer as the real ones did (`tests/data/api_answers.json`), in what kubegc reads.

use http::{Method, Request};
use http_body_util::BodyExt as _;
use kube::client::{Body, Client};

use super::server::WholeServer;
use super::*;
use crate::testing::api_answers::{read, recorded};
use crate::testing::fake_api::FakeApi;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn map(name: &str) -> Value {
    object("v1", "ConfigMap", "default", name, &[])
}

/// A server with the objects of the recorded answers.
fn server() -> WholeServer {
    let verbs = ["delete", "list", "watch"].map(str::to_owned).to_vec();
    let resource = |version: &str, name: &str, kind: &str| ApiResource {
        verbs: verbs.clone(),
        ..resource_of(version, name, kind, true, true)
    };
    let served = [resource("v1", "configmaps", "ConfigMap"), resource("apps/v1", "deployments", "Deployment")];
    let server = WholeServer::new(served.to_vec());
    for object in [map("free"), map("kept")] {
        server.objects.put(&object);
    }
    let mut held = map("held");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    server.objects.put(&held);
    server
}

async fn request(client: &Client, method: Method, path: &str, body: &Value) -> (u16, String) {
    let body = Body::from(body.to_string().into_bytes());
    let request = Request::builder().method(method).uri(path).body(body).unwrap();
    let (head, body) = client.send(request).await.unwrap().into_parts();
    (head.status.as_u16(), String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap())
}

/// Returns a recorded answer of 1.36, as if whole objects had been requested: kubegc accepts both.
fn real(name: &str) -> Value {
    let mut recorded = recorded(36)[name].clone();
    recorded.as_object_mut().unwrap_or_else(|| panic!("no answer is recorded for {name}")).remove("content_type");
    let text = recorded.to_string().replace("PartialObjectMetadata", "ConfigMap").replace("meta.k8s.io/v1", "v1");
    serde_json::from_str(&text).unwrap()
}

async fn answers(client: &Client, name: &str, method: Method, path: &str, body: &Value) {
    let (code, body) = request(client, method, path, body).await;
    assert_eq!(read(code, &body), real(name), "{name}");
}

/// Returns the uid and the version of an object.
fn identity(server: &WholeServer, name: &str) -> (Value, Value) {
    let object = server.objects.get(&map(name)).unwrap();
    (object["metadata"]["uid"].clone(), object["metadata"]["resourceVersion"].clone())
}

#[tokio::test]
async fn reads_and_changes_are_answered_as_by_a_real_server() {
    let (server, none) = (server(), Value::Null);
    let client = server.client();
    let conditions = |(uid, version): &(Value, Value)| json!({"uid": uid, "resourceVersion": version});
    let (kept, held, free) = (identity(&server, "kept"), identity(&server, "held"), identity(&server, "free"));
    let (other, old) = ((json!("other"), kept.1.clone()), (kept.0.clone(), json!("0")));
    let deletion =
        |of: &(Value, Value), policy: &str| json!({"preconditions": conditions(of), "propagationPolicy": policy});
    let rows = [
        ("discovery of the core group", Method::GET, "/api".to_owned(), none.clone()),
        ("discovery of the other groups", Method::GET, "/apis".to_owned(), none.clone()),
        ("an object", Method::GET, format!("{MAPS}/kept"), none.clone()),
        ("a missing object", Method::GET, format!("{MAPS}/missing"), none.clone()),
        ("an object with a finalizer", Method::GET, format!("{MAPS}/held"), none),
        ("a deletion of another uid", Method::DELETE, format!("{MAPS}/kept"), deletion(&other, "Background")),
        ("a deletion of a missing object", Method::DELETE, format!("{MAPS}/missing"), deletion(&other, "Background")),
        ("a change of an old version", Method::PATCH, format!("{MAPS}/kept"), json!({"metadata": conditions(&old)})),
        ("a change of another uid", Method::PATCH, format!("{MAPS}/kept"), json!({"metadata": conditions(&other)})),
        ("a deletion", Method::DELETE, format!("{MAPS}/free"), deletion(&free, "Background")),
        ("a deletion that finalizers hold", Method::DELETE, format!("{MAPS}/held"), deletion(&held, "Foreground")),
    ];
    for (name, method, path, body) in rows {
        answers(&client, name, method, &path, &body).await;
    }
    let mut last = json!({"metadata": conditions(&identity(&server, "held"))});
    last["metadata"]["finalizers"] = Value::Null;
    answers(&client, "a change that removes the last finalizer", Method::PATCH, &format!("{MAPS}/held"), &last).await;
}

/// The other server has pods, and two on a page.
#[tokio::test]
async fn pages_and_missing_pods_are_answered_as_by_a_real_server() {
    let api = FakeApi::new().with_pods(&["a", "b", "c"]);
    let of_pods = |answer: Value| -> Value {
        let text = answer.to_string().replace("ConfigMap", "Pod").replace("configmaps", "pods");
        serde_json::from_str(&text).unwrap()
    };
    let without_items = |mut answer: Value| {
        answer["body"].as_object_mut().unwrap().remove("items");
        if let Some(count) = answer["body"]["metadata"].get_mut("remainingItemCount") {
            *count = json!(true);
        }
        answer
    };
    let page = request(&api.client(), Method::GET, "/api/v1/pods?limit=2", &Value::Null).await;
    assert_eq!(without_items(read(page.0, &page.1)), without_items(of_pods(real("a page"))));
    let last = request(&api.client(), Method::GET, "/api/v1/pods?limit=2&continue=2", &Value::Null).await;
    assert_eq!(without_items(read(last.0, &last.1)), without_items(of_pods(real("the last page"))));
    let path = "/api/v1/namespaces/default/pods/missing";
    let missing = request(&api.client(), Method::GET, path, &Value::Null).await;
    assert_eq!(read(missing.0, &missing.1), of_pods(real("a missing object")));
}
