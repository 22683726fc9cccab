//! Tests against an API server in memory, with a clock that is paused and advanced.

mod access;
mod discovery;
mod events;
mod failing_server;
mod limits;
mod list;
mod monitor;
mod pod_lookup;
mod pods;
mod repeats;
mod restored;
mod times;
mod tls;
mod watch;
mod writer;

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use super::{KnownPods, PodWatch, Timing};
use crate::model::Seen;
use crate::testing::fake_api::{FakeApi, NODE};

thread_local! {
    static STARTED: Instant = Instant::now();
    static AHEAD: Cell<SignedDuration> = const { Cell::new(SignedDuration::ZERO) };
}

/// The wall clock of a test. It follows the paused clock of tokio and can be set ahead of it.
fn clock() -> Timestamp {
    let elapsed = SignedDuration::try_from(STARTED.with(Instant::elapsed)).unwrap();
    Timestamp::UNIX_EPOCH + elapsed + AHEAD.get()
}

fn set_clock_ahead(by: SignedDuration) {
    AHEAD.set(by);
}

fn follow(api: &FakeApi) -> PodWatch {
    // This starts the wall clock.
    clock();
    PodWatch::start(shared(api), NODE, clock, Timing::default())
}

/// Advances the paused clock without real waiting. A tiny step only lets all tasks run.
async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

async fn settle() {
    pass(Duration::from_millis(1)).await;
}

async fn known(watch: &PodWatch) -> KnownPods {
    match watch.pods().await {
        Seen::Seen(known) => known,
        other => panic!("not seen: {:?}", other.cause()),
    }
}

async fn names(watch: &PodWatch) -> Vec<String> {
    known(watch).await.pods.into_iter().map(|pod| pod.name).collect()
}

/// Returns why pods may be missing, or why none is known.
async fn missing(watch: &PodWatch) -> Option<String> {
    match watch.pods().await.result() {
        Ok(known) => known.missing.clone(),
        Err(cause) => Some(format!("not seen: {cause}")),
    }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn shared(api: &FakeApi) -> Arc<super::Connection> {
    Arc::new(api.connection())
}
