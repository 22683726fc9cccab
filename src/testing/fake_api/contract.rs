//! The fake API server answers as the real ones did (`tests/data/api_answers.json`), in what kubegc reads.

use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use kube::client::{Body, Client};

use super::*;
use crate::testing::api_answers::{read, recorded};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const THINGS: &str = "/api/v1/namespaces/default/things";

fn map(name: &str) -> Value {
    let metadata = json!({"namespace": "default", "name": name, "uid": format!("{name}-uid"), "ownerReferences": []});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
}

/// A server with the objects of the recorded answers.
fn server() -> FakeApi {
    let served = [("v1", "configmaps", "ConfigMap"), ("apps/v1", "deployments", "Deployment")];
    let served = served.map(|(version, name, kind)| resource(version, name, kind, true, true));
    let server = FakeApi::serving(served.to_vec());
    for object in [map("free"), map("kept")] {
        server.put(&object);
    }
    let mut held = map("held");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    server.put(&held);
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

async fn watch(client: &Client) -> Response<Body> {
    let request = Request::get("/api/v1/configmaps?watch=true").body(Body::empty()).unwrap();
    client.send(request).await.unwrap()
}

/// Returns all lines of a watch.
async fn until_it_expires(server: &FakeApi, watch: Response<Body>) -> String {
    server.expires();
    String::from_utf8(watch.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

/// Returns the uid and the version of an object.
fn identity(server: &FakeApi, name: &str) -> (Value, Value) {
    let object = server.get(&map(name)).unwrap();
    (object["metadata"]["uid"].clone(), object["metadata"]["resourceVersion"].clone())
}

#[tokio::test]
async fn reads_and_changes_are_answered_as_by_a_real_server() {
    let (server, none) = (server(), Value::Null);
    let client = server.client();
    let watch = watch(&client).await;
    let conditions = |(uid, version): &(Value, Value)| json!({"uid": uid, "resourceVersion": version});
    let (kept, held, free) = (identity(&server, "kept"), identity(&server, "held"), identity(&server, "free"));
    let (other, old) = ((json!("other"), kept.1.clone()), (kept.0.clone(), json!("0")));
    let deletion =
        |of: &(Value, Value), policy: &str| json!({"preconditions": conditions(of), "propagationPolicy": policy});
    let rows = [
        ("discovery of the core group", Method::GET, "/api".to_owned(), none.clone()),
        ("discovery of the other groups", Method::GET, "/apis".to_owned(), none.clone()),
        ("a list", Method::GET, format!("{MAPS}?limit=500"), none.clone()),
        ("a page", Method::GET, format!("{MAPS}?limit=1"), none.clone()),
        ("the last page", Method::GET, format!("{MAPS}?limit=9&continue=1"), none.clone()),
        ("a resource that is not served", Method::GET, format!("{THINGS}/missing"), none.clone()),
        ("an object", Method::GET, format!("{MAPS}/kept"), none.clone()),
        ("a missing object", Method::GET, format!("{MAPS}/missing"), none.clone()),
        ("an object with a finalizer", Method::GET, format!("{MAPS}/held"), none),
        ("a deletion of another uid", Method::DELETE, format!("{MAPS}/kept"), deletion(&other, "Background")),
        ("a deletion of a missing object", Method::DELETE, format!("{MAPS}/missing"), deletion(&other, "Background")),
        ("a change of an old version", Method::PATCH, format!("{MAPS}/kept"), json!({"metadata": conditions(&old)})),
        ("a change of another uid", Method::PATCH, format!("{MAPS}/kept"), json!({"metadata": conditions(&other)})),
        ("a deletion that finalizers hold", Method::DELETE, format!("{MAPS}/held"), deletion(&held, "Foreground")),
    ];
    for (name, method, path, body) in rows {
        answers(&client, name, method, &path, &body).await;
    }
    let mut last = json!({"metadata": conditions(&identity(&server, "held"))});
    last["metadata"]["finalizers"] = Value::Null;
    answers(&client, "a change that removes the last finalizer", Method::PATCH, &format!("{MAPS}/held"), &last).await;
    let free = deletion(&free, "Background");
    answers(&client, "a deletion", Method::DELETE, &format!("{MAPS}/free"), &free).await;
    let lines = until_it_expires(&server, watch).await;
    let (changes, _expired) = lines.trim_end().rsplit_once('\n').unwrap();
    assert_eq!(read(200, changes), real("a watch"));
}

#[tokio::test]
async fn a_watch_expires_as_that_of_a_real_server() {
    let server = server();
    let lines = until_it_expires(&server, watch(&server.client()).await).await;
    assert_eq!(read(200, &lines), real("a watch from a version that has expired"));
}
