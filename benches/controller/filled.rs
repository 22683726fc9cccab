//! An API server with many objects. They are written into its store in large transactions, past the server: to create 100,000 takes
//! longer than all that is measured.

use std::ops::Range;

use k8s_openapi::ByteString;
use kube::{Client, Config};
use serde_json::{Value, json};

use crate::rig::NodeRig;

/// The most operations of a transaction of etcd by default.
const OPERATIONS: usize = 128;

/// Starts an API server with as many ConfigMaps without an owner in the namespace `default`.
pub async fn filled(objects: usize) -> NodeRig {
    let node = NodeRig::start_api_alone().await;
    let uri = format!("http://{}:2379", node.name()).parse().unwrap();
    let etcd = Client::try_from(Config::new(uri)).unwrap();
    for begin in (0..objects).step_by(OPERATIONS) {
        write(&etcd, begin..objects.min(begin + OPERATIONS)).await;
    }
    node
}

async fn write(etcd: &Client, numbers: Range<usize>) {
    let transaction = json!({ "success": numbers.map(put).collect::<Vec<_>>() });
    let request = http::Request::post("/v3/kv/txn").body(serde_json::to_vec(&transaction).unwrap()).unwrap();
    let answer: Value = etcd.request(request).await.unwrap();
    assert_eq!(answer["succeeded"], true, "{answer}");
}

fn put(number: usize) -> Value {
    let name = format!("other-{number}");
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": { "key": "value" },
        "metadata": {
            "name": name, "namespace": "default", "uid": format!("00000000-0000-4000-9000-{number:012}"),
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
    });
    let key = ByteString(format!("/registry/configmaps/default/{name}").into_bytes());
    json!({ "requestPut": { "key": key, "value": ByteString(serde_json::to_vec(&object).unwrap()) } })
}
