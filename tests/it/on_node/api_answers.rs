//! The answers of the API server under test are those of `tests/data/api_answers.json`, to which the unit tests hold the fake
//! API server.

#[path = "../../../src/testing/api_answers.rs"]
mod answers;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{Method, Request, header};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::{Map, Value, json};

use crate::rig::{NodeRig, Program, kubernetes_minor};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// As kubegc sends them.
const DISCOVERY: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
    application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
const ONE: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
const LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// The answers so far, by the name of the request.
struct Answers<'a> {
    node: &'a NodeRig,
    read: Map<String, Value>,
}

// === impl Answers ===

impl Answers<'_> {
    async fn get(&mut self, name: &str, path: &str, accept: &str) -> String {
        self.request(name, Method::GET, path, accept, &Value::Null).await
    }

    async fn request(&mut self, name: &str, method: Method, path: &str, accept: &str, body: &Value) -> String {
        let request = Request::builder().uri(path).header(header::ACCEPT, accept);
        let kind = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = request.method(method).header(header::CONTENT_TYPE, kind).body(Body::from(body)).unwrap();
        let (head, body) = self.node.kube().send(request).await.unwrap().into_parts();
        let body = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
        // When a bookmark comes is not certain.
        let lines: Vec<_> = body.lines().filter(|line| !line.contains("\"BOOKMARK\"")).collect();
        let mut read = answers::read(head.status.as_u16(), &lines.join("\n"));
        read["content_type"] = head.headers[header::CONTENT_TYPE].to_str().unwrap().into();
        self.read.insert(name.to_owned(), read);
        body
    }

    async fn change(&mut self, name: &str, method: Method, object: &str, body: Value) -> String {
        self.request(name, method, &format!("{MAPS}/{object}"), ONE, &body).await
    }
}

async fn create(node: &NodeRig, name: &str, finalizers: &[&str]) {
    let metadata = json!({"name": name, "namespace": "default", "finalizers": finalizers});
    node.create_object(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})).await;
}

/// Returns the uid and the version of an object.
fn identity(body: &str) -> (Value, Value) {
    let body: Value = serde_json::from_str(body).unwrap();
    (body["metadata"]["uid"].clone(), body["metadata"]["resourceVersion"].clone())
}

/// Makes the store forget what was before this version.
fn compact(node: &NodeRig, version: &str) {
    let body = json!({"revision": version, "physical": true}).to_string();
    let mut stream = TcpStream::connect((node.name(), 2379)).unwrap();
    let length = body.len();
    write!(stream, "POST /v3/kv/compaction HTTP/1.0\r\ncontent-length: {length}\r\n\r\n{body}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains(" 200 OK"), "{answer}");
}

async fn reads(all: &mut Answers<'_>) {
    all.get("discovery of the core group", "/api", DISCOVERY).await;
    all.get("discovery of the other groups", "/apis", DISCOVERY).await;
    all.get("a missing object", &format!("{MAPS}/missing"), ONE).await;
    all.get("a resource that is not served", "/api/v1/namespaces/default/things/missing", ONE).await;
    all.get("a group that is not served", "/apis/nowhere.example.com/v1/things/missing", ONE).await;
    let page = all.get("a page", &format!("{MAPS}?limit=1"), LIST).await;
    let page: Value = serde_json::from_str(&page).unwrap();
    let token = page["metadata"]["continue"].as_str().unwrap();
    all.get("the last page", &format!("{MAPS}?limit=9&continue={token}"), LIST).await;
    let old = URL_SAFE_NO_PAD.encode(json!({"v": "meta.k8s.io/v1", "rv": 2, "start": "free\u{0}"}).to_string());
    compact(all.node, page["metadata"]["resourceVersion"].as_str().unwrap());
    // What its watch caches have, it still serves.
    all.node.end(Program::ApiServer);
    all.node.begin(Program::ApiServer).await;
    all.get("a page that has expired", &format!("{MAPS}?limit=1&continue={old}"), LIST).await;
    all.get(
        "a watch from a version that has expired",
        &format!("{MAPS}?watch=true&resourceVersion=1&timeoutSeconds=5"),
        ONE,
    )
    .await;
}

/// A list, changes, and a watch from the version of the list on, which shows them.
async fn changes(all: &mut Answers<'_>) {
    let (delete, patch) = (Method::DELETE, Method::PATCH);
    let (_, listed) = identity(&all.get("a list", &format!("{MAPS}?limit=500"), LIST).await);
    let kept = all.get("an object", &format!("{MAPS}/kept"), ONE).await;
    let (uid, version) = identity(&kept);
    all.change(
        "a deletion of another uid",
        delete.clone(),
        "kept",
        json!({"preconditions": {"uid": "other", "resourceVersion": version}}),
    )
    .await;
    let old = json!({"metadata": {"uid": uid, "resourceVersion": "1", "finalizers": []}});
    all.change("a change of an old version", patch.clone(), "kept", old).await;
    let other = json!({"metadata": {"uid": "other", "resourceVersion": version, "finalizers": []}});
    all.change("a change of another uid", patch.clone(), "kept", other).await;
    all.change("a deletion of a missing object", delete.clone(), "missing", json!({"preconditions": {"uid": "u"}}))
        .await;
    let (uid, version) = identity(&all.get("an object with a finalizer", &format!("{MAPS}/held"), ONE).await);
    let held = json!({"preconditions": {"uid": uid, "resourceVersion": version}, "propagationPolicy": "Foreground"});
    let held = all.change("a deletion that finalizers hold", delete.clone(), "held", held).await;
    let (uid, version) = identity(&held);
    let last = json!({"metadata": {"uid": uid, "resourceVersion": version, "finalizers": null}});
    all.change("a change that removes the last finalizer", patch, "held", last).await;
    let (uid, version) = identity(&all.get("an object without finalizers", &format!("{MAPS}/free"), ONE).await);
    let free = json!({"preconditions": {"uid": uid, "resourceVersion": version}, "propagationPolicy": "Background"});
    all.change("a deletion", delete, "free", free).await;
    let listed = listed.as_str().unwrap();
    let since = format!("{MAPS}?watch=true&resourceVersion={listed}&allowWatchBookmarks=true&timeoutSeconds=4");
    all.get("a watch", &since, ONE).await;
}

#[tokio::test]
async fn the_answers_are_the_recorded_ones() {
    let node = NodeRig::start_api_alone().await;
    create(&node, "free", &[]).await;
    create(&node, "held", &["example.com/hold"]).await;
    create(&node, "kept", &[]).await;
    let mut all = Answers { node: &node, read: Map::new() };
    reads(&mut all).await;
    changes(&mut all).await;
    let (recorded, read) = (answers::recorded(kubernetes_minor()), json!(all.read));
    let file = format!("{}/api_answers-1.{}.json", env!("CARGO_TARGET_TMPDIR"), kubernetes_minor());
    std::fs::write(&file, format!("{read:#}\n")).unwrap();
    for (name, read) in &all.read {
        assert_eq!(Some(read), recorded.get(name), "{name}; all answers are in {file}");
    }
    assert_eq!(recorded.as_object().map(Map::len), Some(all.read.len()), "of requests that are not made any more");
}
