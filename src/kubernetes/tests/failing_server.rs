//! Tests of a server that fails, is silent, or denies permission.

use super::*;
use crate::testing::fake_api::{Answer, Call, pod, status};

#[tokio::test(start_paused = true)]
async fn a_failed_first_list_is_unavailable_with_its_cause() {
    for (call, answer, cause) in [
        (Call::List, status(403, "Forbidden"), "may not list the pods of all namespaces: Forbidden it is"),
        (
            Call::List,
            Answer::Text(404, "<html>no such page</html>".into()),
            "cannot list the pods of all namespaces: the answer is not a Status: code 404, text \
             \"<html>no such page</html>\"",
        ),
        (
            Call::List,
            Answer::Text(200, "<html>welcome</html>".into()),
            "cannot list the pods of all namespaces: the response is incomplete or invalid: \
             expected value at line 1 column 1",
        ),
        (Call::Node, Answer::Refused, "cannot look up node \"node-1\": the API server cannot be reached"),
        (Call::Node, status(500, "InternalError"), "cannot look up node \"node-1\": InternalError it is (500)"),
        (Call::List, Answer::Never, "no answer from the API server within 10 s"),
    ] {
        let api = FakeApi::new().with_pods(&["a"]);
        api.plan(call, [answer]);
        let watch = follow(&api);
        let text = missing(&watch).await.unwrap();
        assert!(text.starts_with(&format!("not seen: {cause}")), "{text}");
        pass(seconds(20)).await;
        assert_eq!(names(&watch).await, ["a"], "once the server is well again after {cause}");
        assert_eq!(missing(&watch).await, None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_watch_is_replaced_by_a_new_list() {
    let api = FakeApi::new().with_pods(&["a"]);
    let watch = follow(&api);
    let mut silent = api.watched().await;
    api.remove(&pod("a"));
    api.put(&pod("b"));
    pass(seconds(89)).await;
    assert_eq!(names(&watch).await, ["a"]);
    pass(seconds(3)).await;
    assert_eq!(names(&watch).await, ["b"]);
    assert_eq!(missing(&watch).await, None);
    assert!(silent.is_left().await);
    assert_eq!(api.clients(), 2, "the connection may be the dead part");
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_gives_no_complete_list() {
    let api = FakeApi::new().with_pods(&["a"]);
    let watch = follow(&api);
    let _silent = api.watched().await;
    api.plan(Call::Node, vec![Answer::Never; 10]);
    pass(seconds(91)).await;
    assert_eq!(
        missing(&watch).await.as_deref(),
        Some("cannot watch the pods of all namespaces: the watch was silent for 90 s")
    );
    assert_eq!(names(&watch).await, ["a"], "what was known is still text");
    pass(seconds(60)).await;
    assert!(missing(&watch).await.unwrap().contains("no answer within 15 s"));
    pass(seconds(600)).await;
    assert_eq!(missing(&watch).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_list_old_by_wall_clock_is_not_complete() {
    let api = FakeApi::new().with_pods(&["a"]);
    let watch = follow(&api);
    let mut server = api.watched().await;
    assert_eq!(missing(&watch).await, None);
    // The machine slept for an hour, and the monotonic clock stopped.
    set_clock_ahead(SignedDuration::from_hours(1));
    assert_eq!(missing(&watch).await.as_deref(), Some("the API server last answered 3600 s ago"));
    server.bookmark(200).await;
    settle().await;
    assert_eq!(missing(&watch).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_forgot_the_version_is_listed_again() {
    for by_event in [true, false] {
        let api = FakeApi::new().with_pods(&["a"]);
        let watch = follow(&api);
        let server = api.watched().await;
        api.remove(&pod("a"));
        api.put(&pod("b"));
        if by_event {
            server.error(410, "Expired").await;
        } else {
            api.plan(Call::Watch, [status(410, "Expired")]);
            pass(seconds(30)).await;
            drop(server);
        }
        settle().await;
        assert_eq!(
            missing(&watch).await.as_deref(),
            Some(if by_event {
                "cannot watch the pods of all namespaces: Expired (410)"
            } else {
                "cannot watch the pods of all namespaces: Expired it is (410)"
            })
        );
        pass(seconds(1)).await;
        assert_eq!(names(&watch).await, ["b"]);
        assert_eq!(missing(&watch).await, None);
    }
}

#[tokio::test(start_paused = true)]
async fn an_expired_version_after_outage_relists_with_back_off() {
    let api = FakeApi::new().with_pods(&["a"]);
    let watch = follow(&api);
    let server = api.watched().await;
    api.plan(Call::Node, vec![Answer::Refused; 4]);
    api.plan(Call::Watch, vec![status(410, "Expired"); 4]);
    server.breaks();
    // 1, 2, 4, 8 and 16 s of back-off for the server, and 1 s after the answer that the version has expired.
    pass(seconds(32)).await;
    assert_eq!((api.count(Call::List), api.count(Call::Watch)), (1, 2));
    pass(seconds(1)).await;
    assert_eq!((api.count(Call::List), api.count(Call::Watch)), (2, 3));
    pass(seconds(60)).await;
    assert_eq!(missing(&watch).await, None);
    assert_eq!(api.pauses(Call::List)[1..], [1, 2, 4]);
}

#[tokio::test(start_paused = true)]
async fn any_other_watch_error_relists_the_pods() {
    let api = FakeApi::new().with_pods(&["a"]);
    let watch = follow(&api);
    api.watched().await.error(500, "InternalError").await;
    api.put(&pod("b"));
    pass(seconds(2)).await;
    assert_eq!((names(&watch).await.len(), api.count(Call::List)), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn an_invalid_event_relists_the_pods() {
    for line in ["{}\n", "<html>\n", "{\"type\":\"ADDED\",\"object\":{}}\n", "{\"type\":\"SURPRISE\",\"object\":{}}\n"]
    {
        let api = FakeApi::new().with_pods(&["a"]);
        let watch = follow(&api);
        api.watched().await.raw(line).await;
        settle().await;
        assert!(missing(&watch).await.unwrap().contains("incomplete or invalid"), "{line}");
        pass(seconds(2)).await;
        assert_eq!((missing(&watch).await, api.count(Call::List)), (None, 2), "{line}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_broken_watch_resumes_without_a_new_list() {
    let api = FakeApi::new().with_pods(&["a"]);
    let watch = follow(&api);
    let mut server = api.watched().await;
    server.bookmark(250).await;
    settle().await;
    server.breaks();
    settle().await;
    assert!(missing(&watch).await.unwrap().contains("connection reset"));
    let mut server = api.watched().await;
    assert!(server.query.contains("resourceVersion=250"), "{}", server.query);
    assert!(missing(&watch).await.is_some(), "what happened meanwhile is still on its way");
    server.event("ADDED", &pod("b")).await;
    settle().await;
    assert_eq!((names(&watch).await, missing(&watch).await), (vec!["a".into(), "b".into()], None));
    assert_eq!((api.count(Call::List), api.clients()), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn a_short_watch_follows_a_broken_watch() {
    let api = FakeApi::new().with_pods(&["a"]);
    let watch = follow(&api);
    api.watched().await.breaks();
    let server = api.watched().await;
    assert!(server.query.contains("timeoutSeconds=5"), "{}", server.query);
    assert!(missing(&watch).await.is_some());
    pass(seconds(5)).await;
    drop(server);
    let server = api.watched().await;
    assert_eq!(missing(&watch).await, None, "its end in order is a word");
    assert!(server.query.contains("timeoutSeconds=60"), "{}", server.query);
    assert_eq!(api.count(Call::List), 1, "an outage does not cost a list from every node");
}

#[tokio::test(start_paused = true)]
async fn revoked_permissions_are_detected_at_watch_renewal() {
    let api = FakeApi::new().with_pods(&["a"]);
    let watch = follow(&api);
    let mut server = api.watched().await;
    api.plan(Call::Watch, vec![status(403, "Forbidden"); 3]);
    server.bookmark(200).await;
    pass(seconds(60)).await;
    server.bookmark(201).await;
    pass(seconds(60)).await;
    drop(server);
    settle().await;
    let text = missing(&watch).await.unwrap();
    assert_eq!(text, "may not watch the pods of all namespaces: Forbidden it is");
    assert_eq!(names(&watch).await, ["a"]);
    pass(seconds(8)).await;
    api.watched().await.bookmark(202).await;
    settle().await;
    assert_eq!(missing(&watch).await, None);
}

#[tokio::test(start_paused = true)]
async fn an_unregistered_node_has_no_complete_list() {
    let api = FakeApi::new().with_pods(&["a"]);
    api.plan(Call::Node, [Answer::Text(404, crate::testing::fake_api::not_found("nodes", NODE).to_string())]);
    let watch = follow(&api);
    let text = missing(&watch).await.unwrap();
    assert_eq!(text, "no Node named \"node-1\" in the cluster; set --node-name if it has another name");
    assert_eq!(names(&watch).await, ["a"], "what is bound to the name is known all the same");
    let server = api.watched().await;
    assert!(server.query.contains("timeoutSeconds=30"), "{}", server.query);
    pass(seconds(30)).await;
    drop(server);
    settle().await;
    assert_eq!(missing(&watch).await, None);
}

#[tokio::test(start_paused = true)]
async fn without_node_permission_no_list_is_complete() {
    let api = FakeApi::new().with_pods(&["a"]);
    api.plan(Call::Node, [status(403, "Forbidden")]);
    let watch = follow(&api);
    let text = missing(&watch).await.unwrap();
    assert_eq!(text, "may not look up node \"node-1\": Forbidden it is; grant `get` on nodes");
}

#[tokio::test(start_paused = true)]
async fn without_a_node_name_no_request_is_sent() {
    for name in ["", "no name", "../pods", "UPPER"] {
        let api = FakeApi::new().with_pods(&["a"]);
        clock();
        let watch = PodWatch::start(shared(&api), name, clock, Timing::default());
        assert!(missing(&watch).await.unwrap().contains("--node-name"), "{name:?}");
        assert_eq!(api.requests(), Vec::<String>::new());
    }
}

#[tokio::test(start_paused = true)]
async fn waits_double_from_one_second_to_thirty() {
    let api = FakeApi::new();
    api.plan(Call::Node, vec![Answer::Refused; 9]);
    let watch = follow(&api);
    pass(seconds(200)).await;
    assert_eq!(missing(&watch).await, None);
    let pauses = api.pauses(Call::Node);
    assert_eq!(pauses[..9], [1, 2, 4, 8, 16, 30, 30, 30, 30]);
}

#[tokio::test(start_paused = true)]
async fn immediately_ending_watches_are_reopened_with_back_off() {
    let api = FakeApi::new();
    let watch = follow(&api);
    tokio::spawn({
        let api = api.clone();
        async move {
            loop {
                drop(api.watched().await);
            }
        }
    });
    pass(seconds(60)).await;
    assert!(api.count(Call::Watch) < 8, "{}", api.count(Call::Watch));
    assert!(missing(&watch).await.unwrap().contains("it ended at once"));
}

#[tokio::test(start_paused = true)]
async fn an_unauthorized_response_rereads_the_credentials() {
    let api = FakeApi::new().with_pods(&["a"]);
    api.plan(Call::List, [status(401, "Unauthorized"), status(401, "Unauthorized")]);
    let watch = follow(&api);
    assert!(missing(&watch).await.unwrap().contains("Unauthorized it is (401)"));
    assert_eq!(api.clients(), 2, "once more at once");
    pass(seconds(2)).await;
    assert_eq!((missing(&watch).await, api.clients()), (None, 3));
}
