//! The monitor of a resource, against servers that misbehave.

use std::sync::{Arc, Mutex};

use serde_json::json;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::*;
use crate::kubernetes::{ApiResource, Connection, Follower, MetadataOnly, Monitor, MonitorEvent, Watched};
use crate::testing::fake_api::{Answer, Made};

/// Records what a monitor shows.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<String>>>);

impl<T: Watched> Follower<T> for Seen {
    fn show(&mut self, event: MonitorEvent<'_, T>) {
        self.note(&match event {
            MonitorEvent::ListBegins => "begins".to_owned(),
            MonitorEvent::Seen(_) => "seen".to_owned(),
            MonitorEvent::Deleted(_) => "deleted".to_owned(),
            MonitorEvent::ListEnds => "ends".to_owned(),
            MonitorEvent::Failed(error, _) => error.to_string(),
            MonitorEvent::Works => "works".to_owned(),
            MonitorEvent::Current => "current".to_owned(),
        });
    }
}

impl Seen {
    fn note(&self, text: &str) {
        self.0.lock().unwrap().push(text.to_owned());
    }

    fn count(&self, text: &str) -> usize {
        self.0.lock().unwrap().iter().filter(|it| it.contains(text)).count()
    }
}

/// The beginning of an answer with the code 410.
const EXPIRED: &str = "{\"kind\":\"Status\",\"code\":410";

/// An API server: `answer` writes the body for a URI. `None` = the answer has no end.
fn server(answer: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Arc<Connection> {
    let answer = move |made: &Made| match answer(&made.uri) {
        Some(text) => Answer::Text(if text.starts_with(EXPIRED) { 410 } else { 200 }, text),
        None => Answer::Trickles,
    };
    shared(&FakeApi::answering(answer))
}

fn list(kind: &str, items: &serde_json::Value) -> String {
    json!({"kind": kind, "apiVersion": "v1", "metadata": {"resourceVersion": "7"}, "items": items}).to_string()
}

fn expired() -> String {
    format!(
        "{}\n",
        json!({"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}})
    )
}

fn monitor(connection: &Arc<Connection>, resource: &ApiResource, lists: &Arc<Semaphore>) -> Monitor {
    Monitor::new(Arc::clone(connection), resource, Timing::default(), Arc::clone(lists))
}

/// A broken resource delays the other lists for a short time only, although its list has the only permit.
#[tokio::test(start_paused = true)]
async fn a_list_that_trickles_gives_its_permit_back() {
    let connection = server(|uri| uri.starts_with("/api/v1/nodes").then(|| list("NodeList", &json!([]))));
    let (lists, nodes) = (Arc::new(Semaphore::new(1)), Seen::default());
    let slow = monitor(&connection, &ApiResource::pods(), &lists).run::<MetadataOnly>(Seen::default());
    let slow = tokio::spawn(slow);
    settle().await;
    let other = tokio::spawn(monitor(&connection, &ApiResource::nodes(), &lists).run::<MetadataOnly>(nodes.clone()));
    pass(seconds(600)).await;
    slow.abort();
    other.abort();
    assert!(nodes.count("ends") > 0, "never listed");
}

/// A server whose versions always expire, with an event before or without one.
#[tokio::test(start_paused = true)]
async fn versions_that_expire_at_once_cost_few_lists() {
    let event = json!({"type": "ADDED", "object": {"metadata": {"name": "a", "uid": "u", "resourceVersion": "8"}}});
    for before in [String::new(), format!("{event}\n")] {
        let lists = Arc::new(Mutex::new(0));
        let counted = Arc::clone(&lists);
        let connection = server(move |uri| {
            if uri.contains("watch=true") {
                return Some(format!("{before}{}", expired()));
            }
            let mut lists = counted.lock().unwrap();
            *lists += 1;
            // Without a limit the clock would never advance.
            (*lists < 500).then(|| list("PodList", &json!([])))
        });
        let seen = Seen::default();
        let run =
            monitor(&connection, &ApiResource::pods(), &Arc::new(Semaphore::new(1))).run::<MetadataOnly>(seen.clone());
        let _ = timeout(seconds(120), run).await;
        let lists = *lists.lock().unwrap();
        assert!((2..12).contains(&lists), "{lists} full lists in 2 minutes");
    }
}

/// The pages of a list that expire are no reason to begin again at once.
#[tokio::test(start_paused = true)]
async fn pages_that_expire_at_once_cost_few_lists() {
    let lists = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&lists);
    let connection = server(move |uri| {
        if uri.contains("continue=") {
            return Some(format!("{EXPIRED},\"reason\":\"Expired\"}}"));
        }
        *counted.lock().unwrap() += 1;
        let head = json!({"resourceVersion": "7", "continue": "more"});
        (*counted.lock().unwrap() < 500)
            .then(|| json!({"kind": "PodList", "apiVersion": "v1", "metadata": head, "items": []}).to_string())
    });
    let run =
        monitor(&connection, &ApiResource::pods(), &Arc::new(Semaphore::new(1))).run::<MetadataOnly>(Seen::default());
    let _ = timeout(seconds(120), run).await;
    assert!((2..12).contains(&*lists.lock().unwrap()));
}
