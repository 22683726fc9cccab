//! The total time and the total size of an answer (G5).

use http::Request;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::*;
use crate::kubernetes::objects::node_pods::NodePod;
use crate::kubernetes::requests::list::Listing;
use crate::kubernetes::{ApiPod, ApiResource, Cause, list_metadata_in, list_objects};
use crate::testing::fake_api::Answer;

#[tokio::test(start_paused = true)]
async fn an_answer_that_trickles_ends_after_its_total_time() {
    let (connection, begun) = (FakeApi::answering(|_| Answer::Trickles).connection(), Instant::now());
    let request = Request::get("/x").body(Vec::new()).unwrap();
    let answer = timeout(seconds(3600), connection.request::<Value>(request, seconds(15))).await;
    let error = answer.expect("it is held for ever").unwrap_err();
    assert!(matches!(error, Cause::Unanswered(_)), "{error}");
    assert!(begun.elapsed() <= seconds(16), "{:?}", begun.elapsed());
}

/// An API server with objects of this size, which takes a second for each page.
fn large(objects: usize, bytes: usize) -> FakeApi {
    paged(seconds(1), objects, bytes)
}

fn paged(takes: Duration, objects: usize, bytes: usize) -> FakeApi {
    FakeApi::answering(move |made| {
        let query = made.uri.split_once('?').map_or("", |(_, query)| query);
        Answer::Slow(takes, page(query, objects, bytes))
    })
}

/// Returns the sizes of the pages in which all pods are listed.
async fn limits(api: FakeApi) -> Vec<usize> {
    let listed = list_metadata_in(&api.connection(), &ApiResource::pods(), "", None, seconds(60)).await.unwrap();
    assert_eq!(listed.len(), 5000);
    let limit = |path: &str| path.split('&').find_map(|pair| pair.rsplit_once("limit=")?.1.parse().ok()).unwrap();
    api.requests().iter().map(|uri| limit(uri)).collect()
}

#[tokio::test(start_paused = true)]
async fn small_and_quick_pages_are_followed_by_larger_ones() {
    assert_eq!(limits(paged(Duration::from_millis(50), 5000, 100)).await, [500, 1000, 2000, 2000]);
    assert_eq!(limits(paged(Duration::from_millis(150), 5000, 100)).await, [500; 10], "the server reads large objects");
    assert_eq!(limits(paged(Duration::from_millis(50), 5000, 5000)).await, [500; 10], "2.5 MB each");
}

/// Returns the page that a query names.
fn page(query: &str, objects: usize, bytes: usize) -> String {
    let number = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)?.parse::<usize>().ok());
    let (from, most) = (number("continue=").unwrap_or(0), number("limit=").unwrap());
    let until = objects.min(from + most);
    let text = "x".repeat(bytes);
    let object = |at: usize| {
        format!(r#"{{"metadata":{{"namespace":"n","name":"o{at}","uid":"{at}","annotations":{{"a":"{text}"}}}}}}"#)
    };
    let items: Vec<_> = (from..until).map(object).collect();
    let more = if until < objects { format!(r#","continue":"{until}""#) } else { String::new() };
    let head = format!(r#"{{"resourceVersion":"7"{more}}}"#);
    let items = items.join(",");
    format!(r#"{{"apiVersion":"v1","kind":"PodList","metadata":{head},"items":[{items}]}}"#)
}

/// 290 ConfigMaps with annotations of 256 KiB stopped the resource for the whole cluster.
#[tokio::test(start_paused = true)]
async fn large_metadata_is_read_in_smaller_pages() {
    let api = large(24, 1 << 20);
    let connection = api.connection();
    let listed = list_metadata_in(&connection, &ApiResource::pods(), "", None, seconds(60)).await.unwrap();
    let names: Vec<_> = listed.iter().map(|object| object.name.to_string()).collect();
    assert_eq!(names, (0..24).map(|at| format!("o{at}")).collect::<Vec<_>>());
    assert!(api.requests().len() < 24);
    let connection = large(24, 1 << 20).connection();
    let pods = list_objects::<ApiPod>(&connection, &ApiResource::pods(), seconds(60)).await;
    assert_eq!(pods.unwrap().len(), 24);
}

/// The pods of one node have pages of 50.
#[tokio::test(start_paused = true)]
async fn large_node_pods_are_read_in_smaller_pages() {
    let connection = large(20, 1 << 20).connection();
    let listed = Listing::pods_of("n").complete::<NodePod>(&connection, seconds(60)).await;
    assert_eq!(listed.unwrap().len(), 20);
}

/// A single object that is too large fails the list, and not for ever.
#[tokio::test(start_paused = true)]
async fn an_object_that_is_too_large_is_an_error() {
    let api = large(2, 17 << 20);
    let connection = api.connection();
    let listed = list_metadata_in(&connection, &ApiResource::pods(), "", None, seconds(60)).await;
    assert!(listed.unwrap_err().to_string().contains("bytes"));
    assert!(api.requests().len() < 10);
}

/// A server that never says that a list is complete.
#[tokio::test(start_paused = true)]
async fn a_list_without_an_end_fails() {
    let api = large(usize::MAX, 1);
    let connection = api.connection();
    let pods = ApiResource::pods();
    let listing = list_metadata_in(&connection, &pods, "", None, seconds(30));
    let bounded = async {
        while api.requests().len() < 5_000 {
            pass(seconds(1)).await;
        }
    };
    tokio::select! {
        listed = listing => assert!(listed.is_err()),
        () = bounded => panic!("5,000 pages and no end"),
    }
}

#[test]
fn the_wait_that_a_server_wants_is_capped() {
    let status = json!({"kind": "Status", "code": 429, "reason": "TooManyRequests", "details": {"retryAfterSeconds": 4_000_000_000_u32}});
    let status: kube::core::Status = serde_json::from_value(status).unwrap();
    let error = crate::kubernetes::requests::connection::refused(status, None);
    assert!(error.retry_after().unwrap() <= seconds(300));
}
