//! The writer of events.

use std::collections::VecDeque;
use std::sync::Mutex;

use k8s_openapi::api::core::v1::{EventSource, ObjectReference};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::kubernetes::{Bucket, EventWriter, NewEvent};
use crate::testing::fake_api::{Answer, Made, status};

fn at(seconds: i64) -> Timestamp {
    "2026-11-21T12:00:00Z".parse::<Timestamp>().unwrap() + SignedDuration::from_secs(seconds)
}

fn event(seconds: i64, class: Option<&str>) -> NewEvent {
    NewEvent {
        namespace: "default".to_owned(),
        about: ObjectReference { name: Some(NODE.to_owned()), ..ObjectReference::default() },
        reason: "ContainerGCFailed",
        is_warning: true,
        message: format!("at {seconds}"),
        at: at(seconds),
        class: class.map(str::to_owned),
    }
}

/// Returns a server with these answers to the first writes. All others succeed.
fn server(answers: impl IntoIterator<Item = Answer>) -> FakeApi {
    let answers = Mutex::new(answers.into_iter().collect::<VecDeque<_>>());
    FakeApi::answering(move |_| answers.lock().unwrap().pop_front().unwrap_or(Answer::Text(200, "{}".to_owned())))
}

fn writer(api: &FakeApi, bucket: Bucket) -> (mpsc::Sender<NewEvent>, JoinHandle<()>) {
    let source = EventSource { component: Some("kubegc".to_owned()), host: None };
    let (queue, writer) = EventWriter::new(shared(api), source, bucket, |_| {});
    (queue, tokio::spawn(writer.run(CancellationToken::new())))
}

/// Sends events at their times, and returns the requests.
async fn sent(api: &FakeApi, events: impl IntoIterator<Item = NewEvent>) -> Vec<Made> {
    let (queue, writing) = writer(api, Bucket::full(Duration::from_mins(5), 25));
    let begun = Instant::now();
    for event in events {
        let after = Duration::try_from(event.at.duration_since(at(0))).unwrap();
        tokio::time::sleep_until(begun + after).await;
        queue.send(event).await.unwrap();
        settle().await;
    }
    drop(queue);
    writing.await.unwrap();
    api.made()
}

/// Returns the method and the count of each request.
fn counts(made: &[Made]) -> Vec<(&str, u64)> {
    made.iter().map(|made| (made.method.as_str(), made.body["count"].as_u64().unwrap())).collect()
}

/// Returns the names of the events that were created.
fn names(made: &[Made]) -> Vec<&str> {
    made.iter().filter_map(|made| made.body["metadata"]["name"].as_str()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_repeated_event_raises_the_count_of_the_existing_one() {
    let events = [(0, "a"), (60, "a"), (120, "b"), (180, "a")].map(|(at, class)| event(at, Some(class)));
    let made = sent(&server([]), events).await;
    assert_eq!(counts(&made), [("POST", 1), ("PATCH", 2), ("POST", 1), ("PATCH", 3)]);
    let [first, second] = names(&made)[..] else { panic!("two events") };
    assert_eq!(first, format!("{NODE}.{:x}", at(0).as_nanosecond()));
    assert_ne!(first, second);
    let events = "/api/v1/namespaces/default/events";
    assert_eq!(made[0].uri, format!("{events}?&fieldManager=kubegc"));
    assert_eq!(made[3].uri, format!("{events}/{first}?&fieldManager=kubegc"));
    assert_eq!(made[3].body["message"], "at 180");
    assert_eq!(made[3].body["lastTimestamp"], "2026-11-21T12:03:00Z");
}

#[tokio::test(start_paused = true)]
async fn events_of_one_moment_have_names_of_their_own() {
    let mut long = event(0, None);
    long.about.name = Some("a".repeat(253));
    let made = sent(&server([]), [event(0, None), event(0, None), event(0, Some("a")), long]).await;
    let mut names = names(&made);
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 4);
    assert!(names.iter().all(|name| name.len() <= 253), "{names:?}");
}

#[tokio::test(start_paused = true)]
async fn a_fault_of_a_day_is_no_flood() {
    let made = sent(&server([]), (0..24 * 60).map(|minute| event(minute * 60, Some("a")))).await;
    // 25 at once, and 288 at one in five minutes.
    assert!((300..=314).contains(&made.len()), "{}", made.len());
    assert_eq!(names(&made).len(), 1);
    let last = counts(&made)[made.len() - 1];
    assert!(last.1 > 1430, "what was not written is counted: {last:?}");
}

#[tokio::test(start_paused = true)]
async fn an_event_of_its_own_waits_for_its_turn() {
    let (api, begun) = (server([]), Instant::now());
    let (queue, writing) = writer(&api, Bucket::full(Duration::from_millis(100), 1));
    for _ in 0..3 {
        queue.send(event(0, None)).await.unwrap();
    }
    drop(queue);
    writing.await.unwrap();
    assert_eq!((counts(&api.made()), begun.elapsed().as_millis()), (vec![("POST", 1); 3], 200));
}

#[tokio::test(start_paused = true)]
async fn an_event_that_expired_begins_again() {
    let right = Answer::Text(200, "{}".to_owned());
    let made = sent(&server([right, status(404, "NotFound")]), [0, 7200].map(|at| event(at, Some("a")))).await;
    assert_eq!(counts(&made), [("POST", 1), ("PATCH", 2), ("POST", 1)]);
    let [first, second] = names(&made)[..] else { panic!("two events") };
    assert_ne!(first, second);
    assert_eq!(made[2].body["firstTimestamp"], "2026-11-21T14:00:00Z");
}

#[tokio::test(start_paused = true)]
async fn events_rest_without_permission_and_are_tried_again() {
    let events = (0..35).map(|minute| event(minute * 60, Some("a")));
    let made = sent(&server([status(403, "Forbidden")]), events).await;
    let tail = (32..=35).map(|count| ("PATCH", count));
    let expected: Vec<_> = [("POST", 1), ("POST", 31)].into_iter().chain(tail).collect();
    assert_eq!(counts(&made), expected);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_failed_is_made_up_for() {
    let made = sent(&server([status(500, "InternalError")]), [0, 60].map(|at| event(at, Some("a")))).await;
    assert_eq!(counts(&made), [("POST", 1), ("POST", 2)]);
}

#[tokio::test(start_paused = true)]
async fn an_unresponsive_server_blocks_no_sender() {
    let api = FakeApi::answering(|_| Answer::Never);
    let ((queue, writing), begun) = (writer(&api, Bucket::full(Duration::from_mins(5), 25)), Instant::now());
    let queued = (0..1000).filter(|second| queue.try_send(event(*second, Some("a"))).is_ok()).count();
    assert_eq!((queued, begun.elapsed()), (256, Duration::ZERO));
    drop(queue);
    writing.await.unwrap();
    assert!(begun.elapsed() <= Duration::from_secs(260), "each write has its limit: {:?}", begun.elapsed());
}
