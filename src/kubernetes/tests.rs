//! The room against an API server in memory, with a clock that stands still and jumps.

mod access;
mod api_types;
mod list;
mod pod_lookup;
mod tls;
mod trouble;
mod watch;

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use super::fake::{FakeApi, NODE};
use super::{Heard, PodWatch, Timing};
use crate::model::Seen;

thread_local! {
    static STARTED: Instant = Instant::now();
    static AHEAD: Cell<SignedDuration> = const { Cell::new(SignedDuration::ZERO) };
}

/// The wall clock of a test: goes with the test's own, and can be set ahead of it.
fn clock() -> Timestamp {
    let elapsed = SignedDuration::try_from(STARTED.with(Instant::elapsed)).unwrap();
    Timestamp::UNIX_EPOCH + elapsed + AHEAD.get()
}

fn set_clock_ahead(by: SignedDuration) {
    AHEAD.set(by);
}

fn follow(api: &FakeApi) -> PodWatch {
    // Starts the wall clock.
    clock();
    PodWatch::start(api.connection(), NODE, clock, Timing::default())
}

/// Lets time pass, by jumps and in no time; by next to nothing it lets everyone do what they can.
async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

async fn settle() {
    pass(Duration::from_millis(1)).await;
}

async fn heard(watch: &PodWatch) -> Heard {
    match watch.tell().await {
        Seen::Seen(heard) => heard,
        Seen::NotSeen(cause) => panic!("not seen: {cause}"),
    }
}

async fn names(watch: &PodWatch) -> Vec<String> {
    heard(watch).await.pods.into_iter().map(|pod| pod.name).collect()
}

/// Why pods may be missing, or why none is known.
async fn missing(watch: &PodWatch) -> Option<String> {
    match watch.tell().await {
        Seen::Seen(heard) => heard.missing,
        Seen::NotSeen(cause) => Some(format!("not seen: {cause}")),
    }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn shared(api: &FakeApi) -> Arc<super::Connection> {
    api.connection()
}
