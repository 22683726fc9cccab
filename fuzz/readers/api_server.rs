//! Answers of an API server.

use std::convert::Infallible;
use std::time::Duration;

use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Bytes;
use kube::client::{Body, Client};
use kubegc::fleet::{NodeDiskPolicySpec, NodeStatus};
use kubegc::kubernetes::{
    ApiNode, ApiPod, ApiResource, Connection, FleetSpec, FleetStatus, LeaseName, discover, each_labeled_in,
    list_details_in, list_image_users, list_metadata_in, list_objects, list_workloads, read_lease, read_metadata,
    read_namespace, read_node, server_version,
};
use serde_json::{Value, json};
use tower::service_fn;

use super::RUNTIME;

const LIMIT: Duration = Duration::from_secs(5);
const CODES: [u16; 8] = [200, 200, 200, 200, 404, 403, 410, 500];

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
    let owners = [json!([entry]), entry.clone()].map(
        |owners| json!({"metadata": {"name": "odd", "uid": "a", "ownerReferences": owners, "finalizers": owners}}),
    );
    for odd in owners {
        let items = json!([odd, {"metadata": {"name": "other", "uid": "b"}}]);
        let list = json!({"kind": "List", "apiVersion": "v1", "metadata": {}, "items": items});
        let connection = connection(200, list.to_string().as_bytes());
        let listed = list_metadata_in(&connection, resource, "", None, LIMIT).await.expect("the list is readable");
        assert_eq!(listed.len(), 2, "{list}");
    }
}

/// Answers to reads of all kinds. The first byte selects the code, the rest is the body.
pub fn api_server(input: &[u8]) {
    let Some((first, body)) = input.split_first() else { return };
    let resource = ApiResource {
        api_version: "apps/v1".to_owned(),
        resource: "deployments".to_owned(),
        kind: "Deployment".to_owned(),
        namespaced: true,
        verbs: vec!["list".to_owned()],
        is_preferred: true,
    };
    let lease = LeaseName { namespace: "kube-system".to_owned(), name: "kubegc".to_owned() };
    RUNTIME.block_on(async {
        let connection = connection(CODES[usize::from(first % 8)], body);
        let _ = discover(&connection, LIMIT).await;
        let _ = list_metadata_in(&connection, &resource, "", None, LIMIT).await;
        let _ = list_objects::<ApiPod>(&connection, &ApiResource::pods(), LIMIT).await;
        let _ = list_objects::<ApiNode>(&connection, &ApiResource::nodes(), LIMIT).await;
        let _ = read_namespace(&connection, "shop", LIMIT).await;
        let policies = ApiResource::node_disk_policies();
        let _ = list_objects::<FleetSpec<NodeDiskPolicySpec>>(&connection, &policies, LIMIT).await;
        let _ = list_objects::<FleetStatus<NodeStatus>>(&connection, &ApiResource::node_disks(), LIMIT).await;
        let _ = list_details_in(&connection, &resource, "", (&[], |_| true), LIMIT).await;
        let _ = each_labeled_in(&connection, &resource, "", LIMIT, drop).await;
        let _ = list_workloads(&connection, LIMIT).await;
        let _ = list_image_users(&connection, None, LIMIT).await;
        let _ = read_lease(&connection, &lease, LIMIT).await;
        let _ = read_metadata(&connection, &resource, "shop", "web", LIMIT).await;
        let _ = read_node(&connection, "node-1", LIMIT).await;
        let _ = server_version(&connection, LIMIT).await;
        lists_beside_an_odd_entry(&resource, body).await;
    });
}
