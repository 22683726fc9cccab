//! Tests of a server that works correctly.

use serde_json::json;

use super::*;
use crate::model::Phase;
use crate::testing::fake_api::{Call, pod};

#[tokio::test(start_paused = true)]
async fn the_first_question_waits_for_the_first_list() {
    let api = FakeApi::new().with_pods(&["a", "b", "c"]);
    let watch = follow(&api);
    assert_eq!(names(&watch).await, ["a", "b", "c"]);
    assert_eq!(missing(&watch).await, None);
    let lists: Vec<_> = api.requests().into_iter().filter(|uri| !uri.contains("watch=true")).collect();
    let list = "GET /api/v1/pods?&fieldSelector=spec.nodeName%3Dnode-1&limit=50";
    assert_eq!(lists, ["GET /api/v1/nodes/node-1", list, &format!("{list}&continue=2")]);
}

#[tokio::test(start_paused = true)]
async fn the_watch_starts_after_the_list_with_bookmarks() {
    let api = FakeApi::new().with_pods(&["a"]);
    let _watch = follow(&api);
    let watched = api.watched().await;
    let mut query: Vec<_> = watched.query.split('&').filter(|pair| !pair.is_empty()).collect();
    query.sort_unstable();
    let wanted = [
        "allowWatchBookmarks=true",
        "fieldSelector=spec.nodeName%3Dnode-1",
        "resourceVersion=101",
        "timeoutSeconds=60",
        "watch=true",
    ];
    assert_eq!(query, wanted);
}

#[tokio::test(start_paused = true)]
async fn pods_that_come_change_and_go_are_followed() {
    let api = FakeApi::new().with_pods(&["a"]);
    let watch = follow(&api);
    let mut server = api.watched().await;
    server.event("ADDED", &pod("b")).await;
    let mut ended = pod("a");
    ended["status"]["phase"] = json!("Succeeded");
    ended["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    server.event("MODIFIED", &ended).await;
    settle().await;
    let pods = known(&watch).await.pods;
    let text: Vec<_> = pods.iter().map(|pod| (pod.name.as_str(), pod.phase, pod.deleting)).collect();
    assert_eq!(text, [("a", Phase::Succeeded, true), ("b", Phase::Running, false)]);
    server.event("DELETED", &ended).await;
    settle().await;
    assert_eq!(names(&watch).await, ["b"]);
}

#[tokio::test(start_paused = true)]
async fn a_late_deletion_event_keeps_a_same_named_pod() {
    let api = FakeApi::new().with_pods(&["a"]);
    let watch = follow(&api);
    let mut server = api.watched().await;
    let mut next = pod("a");
    next["metadata"]["uid"] = json!("uid-next");
    server.event("ADDED", &next).await;
    server.event("DELETED", &pod("a")).await;
    settle().await;
    assert_eq!(known(&watch).await.pods[0].uid.as_str(), "uid-next");
}

#[tokio::test(start_paused = true)]
async fn mirror_pods_are_tracked_by_static_pod_uid() {
    let api = FakeApi::new();
    let watch = follow(&api);
    let mut server = api.watched().await;
    let mut mirror = pod("etcd-node-1");
    mirror["metadata"]["annotations"] =
        json!({"kubernetes.io/config.hash": "0123", "kubernetes.io/config.mirror": "0123", "other": "x"});
    server.event("ADDED", &mirror).await;
    settle().await;
    assert_eq!(known(&watch).await.pods[0].uid.as_str(), "0123");
    server.event("DELETED", &mirror).await;
    settle().await;
    assert_eq!(known(&watch).await.pods, Vec::new());
}

#[tokio::test(start_paused = true)]
async fn bookmarks_keep_a_quiet_watch_fresh_without_relisting() {
    let api = FakeApi::new().with_pods(&["a"]);
    let watch = follow(&api);
    let mut server = api.watched().await;
    let begun = known(&watch).await.as_of;
    for minute in 1..=10 {
        pass(seconds(60)).await;
        if server.is_left().await {
            server = api.watched().await;
        }
        server.bookmark(200 + minute).await;
        settle().await;
        assert_eq!(missing(&watch).await, None, "minute {minute}");
    }
    assert_eq!(api.count(Call::List), 1);
    assert!(api.count(Call::Watch) > 3, "a watch that the server never ends is ended");
    let age = known(&watch).await.as_of.duration_since(begun);
    assert!((599..=601).contains(&age.as_secs()), "{age}");
}

#[tokio::test(start_paused = true)]
async fn an_ended_watch_resumes_from_the_last_bookmark() {
    let api = FakeApi::new().with_pods(&["a"]);
    let watch = follow(&api);
    let mut server = api.watched().await;
    server.bookmark(250).await;
    pass(seconds(60)).await;
    drop(server);
    let mut server = api.watched().await;
    assert!(server.query.contains("resourceVersion=250"), "{}", server.query);
    assert_eq!(missing(&watch).await, None);
    server.event("ADDED", &pod("b")).await;
    settle().await;
    assert_eq!(names(&watch).await, ["a", "b"]);
    // Once for each watch: permissions and the node may have changed.
    assert_eq!((api.count(Call::List), api.count(Call::Node)), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn the_end_of_each_quiet_watch_refreshes_the_list() {
    let api = FakeApi::new().with_pods(&["a"]);
    let watch = follow(&api);
    for minute in 1..=10 {
        let server = api.watched().await;
        pass(seconds(60)).await;
        drop(server);
        settle().await;
        assert_eq!(missing(&watch).await, None, "minute {minute}");
    }
    assert_eq!(api.count(Call::List), 1, "no bookmark was sent, and none was needed");
}

#[tokio::test(start_paused = true)]
async fn events_are_read_whatever_pieces_they_come_in() {
    let api = FakeApi::new();
    let watch = follow(&api);
    let mut server = api.watched().await;
    let lines =
        format!("{}\n{}\n", json!({"type": "ADDED", "object": pod("a")}), json!({"type": "ADDED", "object": pod("b")}));
    for piece in [&lines[..10], &lines[10..200], &lines[200..201], &lines[201..]] {
        server.raw(piece).await;
        settle().await;
    }
    assert_eq!(names(&watch).await, ["a", "b"]);
    // The next watch repeats a line that was incomplete when the server ended.
    server.raw("{\"type\":\"DEL").await;
    pass(seconds(2)).await;
    drop(server);
    assert!(api.watched().await.query.contains("resourceVersion=1"));
    assert_eq!(names(&watch).await, ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn the_watch_ends_when_it_is_dropped() {
    let api = FakeApi::new();
    let watch = follow(&api);
    let mut server = api.watched().await;
    assert!(!server.is_left().await);
    drop(watch);
    settle().await;
    assert!(server.is_left().await);
}
