//! Tests that a list is complete or an error.

use super::*;
use crate::testing::fake_api::{Answer, Call, status};

/// Returns the length of the longest answer to the first page of three pods.
async fn length() -> usize {
    let api = FakeApi::new().with_pods(&["a", "b", "c"]);
    let connection = shared(&api);
    let request = kube::core::Request::new("/api/v1/pods").list(&kube::core::params::ListParams::default()).unwrap();
    let page: serde_json::Value = connection.request(request, seconds(1)).await.unwrap();
    page.to_string().len()
}

#[tokio::test(start_paused = true)]
async fn a_page_that_fails_makes_the_list_start_over() {
    let whole = length().await;
    for second in [
        status(410, "Expired"),
        status(500, "InternalError"),
        Answer::Text(502, "<html>".into()),
        Answer::CutAfter(30),
        Answer::BreaksAfter(30),
        Answer::StopsAfter(30),
        Answer::Never,
        Answer::Refused,
    ] {
        let api = FakeApi::new().with_pods(&["a", "b", "c"]);
        api.plan(Call::List, [Answer::Right, second]);
        let watch = follow(&api);
        assert!(missing(&watch).await.unwrap().starts_with("not seen: "), "never a part of the list");
        pass(seconds(20)).await;
        assert_eq!((names(&watch).await.len(), missing(&watch).await), (3, None));
        assert_eq!(api.count(Call::List), 4);
        assert!(whole > 30);
    }
}

#[tokio::test(start_paused = true)]
async fn a_truncated_first_page_is_no_list() {
    for bytes in (0..length().await).step_by(23) {
        for answer in [Answer::CutAfter(bytes), Answer::BreaksAfter(bytes)] {
            let api = FakeApi::new().with_pods(&["a", "b", "c"]);
            api.plan(Call::List, [answer]);
            let watch = follow(&api);
            assert!(missing(&watch).await.unwrap().starts_with("not seen: "), "after {bytes} bytes");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn pages_of_different_moments_are_no_list() {
    let api = FakeApi::new().with_pods(&["a", "b", "c"]);
    let page = r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[]}"#;
    api.plan(Call::List, [Answer::Right, Answer::Text(200, page.into())]);
    let watch = follow(&api);
    assert!(missing(&watch).await.unwrap().contains("different moments"));
}

#[tokio::test(start_paused = true)]
async fn a_list_that_ends_early_is_no_list() {
    let api = FakeApi::new();
    let page =
        r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7","remainingItemCount":3},"items":[]}"#;
    api.plan(Call::List, [Answer::Text(200, page.into())]);
    let watch = follow(&api);
    assert!(missing(&watch).await.unwrap().contains("3 objects are missing"));
}

#[tokio::test(start_paused = true)]
async fn what_is_no_list_of_pods_is_no_list() {
    let head = r#""apiVersion":"v1","metadata":{"resourceVersion":"7"}"#;
    for (text, why) in [
        (format!(r#"{{"kind":"PodList",{head}}}"#), "no items"),
        (format!(r#"{{"kind":"NodeList",{head},"items":[]}}"#), "another kind"),
        (r#"{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[]}"#.to_owned(), "no version"),
        (format!(r#"{{"kind":"PodList",{head},"items":[null]}}"#), "an item that is none"),
        (format!(r#"{{"kind":"PodList",{head},"items":[{{"metadata":{{"name":"a"}}}}]}}"#), "no uid"),
        (format!(r#"{{"kind":"PodList",{head},"items":[{{]}}}}"#), "brackets crossed"),
        (format!(r#"{{"kind":"PodList",{head},"items":[]}} <html>"#), "more behind it"),
        ("<html>".to_owned(), "a page"),
        (String::new(), "nothing"),
    ] {
        let api = FakeApi::new().with_pods(&["a"]);
        api.plan(Call::List, [Answer::Text(200, text)]);
        assert!(missing(&follow(&api)).await.unwrap().contains("incomplete or invalid"), "{why}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_without_pods_is_empty() {
    for items in ["[]", "null"] {
        let api = FakeApi::new().with_pods(&["a"]);
        let text =
            format!(r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"7"}},"items":{items}}}"#);
        api.plan(Call::List, [Answer::Text(200, text)]);
        let watch = follow(&api);
        assert_eq!((names(&watch).await.len(), missing(&watch).await), (0, None), "{items}");
    }
}
