//! Answers of an API server. The first byte selects the code, the rest is the body.
#![no_main]

use std::convert::Infallible;
use std::sync::LazyLock;
use std::time::Duration;

use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Bytes;
use kube::client::{Body, Client};
use kubegc::kubernetes::{
    ApiResource, ApiNode, ApiPod, Connection, discover, list_metadata, list_objects, read_metadata,
    read_node, server_version,
};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use tower::service_fn;

const LIMIT: Duration = Duration::from_secs(5);
const CODES: [u16; 8] = [200, 200, 200, 200, 404, 403, 410, 500];

static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_current_thread().enable_all().build().expect("tokio"));

fn connection(code: u16, body: &[u8]) -> Connection {
    let body = Bytes::copy_from_slice(body);
    let service = service_fn(move |_: Request<Body>| {
        let answer = Response::builder().status(code).body(Full::new(body.clone())).expect("an answer");
        async move { Ok::<_, Infallible>(answer) }
    });
    Connection::through(Client::new(service, "default"), "a test")
}

/// An odd entry in the metadata of an object concerns that object only: the list has the other one too.
async fn lists_beside_an_odd_entry(resource: &ApiResource, entry: &[u8]) {
    // The parser takes 128 levels of lists and objects, those around the entry included.
    if entry.iter().filter(|byte| b"[{".contains(*byte)).count() > 100 {
        return;
    }
    let Ok(entry) = serde_json::from_slice::<Value>(entry) else { return };
    let owners = [json!([entry]), entry.clone()].map(|owners| {
        json!({"metadata": {"name": "odd", "uid": "a", "ownerReferences": owners, "finalizers": owners}})
    });
    for odd in owners {
        let items = json!([odd, {"metadata": {"name": "other", "uid": "b"}}]);
        let list = json!({"kind": "List", "apiVersion": "v1", "metadata": {}, "items": items});
        let connection = connection(200, list.to_string().as_bytes());
        let listed = list_metadata(&connection, resource, LIMIT).await.expect("the list is readable");
        assert_eq!(listed.len(), 2, "{list}");
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((first, body)) = input.split_first() else { return };
    let resource = ApiResource {
        api_version: "apps/v1".to_owned(),
        resource: "deployments".to_owned(),
        kind: "Deployment".to_owned(),
        namespaced: true,
        verbs: vec!["list".to_owned()],
        is_preferred: true,
    };
    RUNTIME.block_on(async {
        let connection = connection(CODES[usize::from(first % 8)], body);
        let _ = discover(&connection, LIMIT).await;
        let _ = list_metadata(&connection, &resource, LIMIT).await;
        let _ = list_objects::<ApiPod>(&connection, &ApiResource::pods(), LIMIT).await;
        let _ = list_objects::<ApiNode>(&connection, &ApiResource::nodes(), LIMIT).await;
        let _ = read_metadata(&connection, &resource, "shop", "web", LIMIT).await;
        let _ = read_node(&connection, "node-1", LIMIT).await;
        let _ = server_version(&connection, LIMIT).await;
        lists_beside_an_odd_entry(&resource, body).await;
    });
});
