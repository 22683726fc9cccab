//! The service: each namespace in deletion is tried until its deletion ends.

use std::collections::HashSet;
use std::error::Error as _;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::sleep;

use super::{NamespaceCollector, Progress, SETTLES, alone};
use crate::controller::work::engine::Engine;
use crate::model::{Backoff, Identity};
use crate::serve::Health;

/// Namespaces that are tried at once, as in kube-controller-manager.
const AT_ONCE: usize = 10;
/// The waits for what finalizers hold. kube-controller-manager waits 8 s.
const HELD: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(8));
/// The waits after failures. kube-controller-manager waits at most a minute.
const FAILED: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_mins(1));
/// What the service waits for.
const NAMESPACES: &str = "namespaces";

/// Ends the deletions of the namespaces that are received. Never returns.
pub(in crate::controller) async fn follow(engine: &Engine, mut deleted: UnboundedReceiver<Identity>, health: &Health) {
    let (workers, mut known, mut running) = (Semaphore::new(AT_ONCE), HashSet::new(), FuturesUnordered::new());
    loop {
        tokio::select! {
            biased;
            // A dry run logs what it would do once.
            Some(Identity { uid, .. }) = running.next() => if !engine.calls.is_dry_run {
                known.remove(&uid);
            },
            Some(namespace) = deleted.recv() => if known.insert(namespace.uid.clone()) {
                running.push(Box::pin(until_ended(engine, namespace, &workers, health)));
            },
            // There is no sender any more.
            else => return,
        }
    }
}

async fn until_ended(engine: &Engine, namespace: Identity, workers: &Semaphore, health: &Health) -> Identity {
    let (mut held, mut failed) = (HELD, FAILED);
    sleep(SETTLES).await;
    loop {
        let progress = {
            // The semaphore is never closed.
            let _worker = workers.acquire().await;
            attempt(engine, &namespace, health).await
        };
        let wait = match progress {
            Progress::Ended => return namespace,
            _ if engine.calls.is_dry_run => return namespace,
            Progress::Waits => held.fail(),
            Progress::Failed => failed.fail(),
        };
        sleep(wait).await;
    }
}

/// Does nothing while a kube-controller-manager may delete namespaces, which readiness shows.
async fn attempt(engine: &Engine, namespace: &Identity, health: &Health) -> Progress {
    if let Err(error) = alone(engine).await {
        let cause = error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {source}"));
        health.lacks(NAMESPACES, cause.clone());
        engine.failed(namespace.clone(), cause);
        return Progress::Failed;
    }
    health.has(NAMESPACES);
    NamespaceCollector::new(engine).collect(namespace).await
}
