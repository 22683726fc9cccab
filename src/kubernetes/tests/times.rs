//! Times that no type of ours can hold.

use serde_json::json;

use super::discovery::server;
use super::*;
use crate::kubernetes::{ApiPod, ApiResource, list_metadata_in, list_objects};

/// A time of the year 33658 is that of a deletion with a long grace period, which any owner of a pod can begin.
#[tokio::test]
async fn a_time_that_is_unreadable_stops_no_list() {
    let status = |time: &str| json!({"containerStatuses": [{"state": {"terminated": {"finishedAt": time}}}]});
    for time in ["9999-12-31T23:59:59Z", "33658-09-27T01:46:40Z", "yesterday", ""] {
        let bad =
            json!({"name": "a", "namespace": "n", "uid": "u", "deletionTimestamp": time, "creationTimestamp": time});
        let good = json!({"name": "b", "namespace": "n", "uid": "v"});
        let items = json!([{"metadata": bad, "status": status(time)}, {"metadata": good, "status": status("2026-01-01T00:00:00Z")}]);
        let head = json!({"resourceVersion": "7"});
        let text = json!({"kind": "PodList", "apiVersion": "v1", "metadata": head, "items": items}).to_string();
        let connection = server(move |_| (200, text.clone())).connection();
        let resource = ApiResource::pods();
        let pods = list_objects::<ApiPod>(&connection, &resource, seconds(9)).await.unwrap();
        assert_eq!((pods.len(), pods[0].finished_at()), (2, None), "{time}");
        assert!(pods[0].metadata.deletion_timestamp.is_some(), "{time}: it is being deleted");
        assert!(pods[1].finished_at().is_some() && pods[1].metadata.deletion_timestamp.is_none());
        let metadata = list_metadata_in(&connection, &resource, "", None, seconds(9)).await.unwrap();
        assert!(metadata[0].deletion_timestamp.is_some() && metadata[1].deletion_timestamp.is_none(), "{time}");
    }
}
