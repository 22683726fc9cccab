//! The removal of 280 of 300 dead containers on a real containerd 2, beside a client that makes only the `RemoveContainer`
//! calls, with one and with four in flight.
//!
//! `cargo bench --bench removal`, as root. Each measurement has a containerd of its own with the same pods. `kubegc collect`
//! is timed as a whole command: the lists, the plan, the log files and the records are in its figure.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    reason = "a benchmark may fail loudly, asks the clock and starts programs"
)]

#[allow(dead_code, reason = "the other benchmarks use the rest")]
#[path = "common/figures.rs"]
mod figures;

/// The containerd of the tests.
#[path = "../tests/it"]
#[allow(dead_code, unused_imports, reason = "the tests use the rest")]
mod it {
    pub mod rig;
}
use it::rig;

use std::collections::BTreeMap;
use std::time::Instant;

use figures::median;
use futures::{StreamExt as _, stream};
use kubegc::cri::generated as pb;
use rig::{Rig, Version};

const PODS: usize = 20;
const INSTANCES: u32 = 15;
/// How many containers are created at once.
const AT_ONCE: usize = 4;
const ROUNDS: usize = 3;

/// Who removes the containers.
#[derive(Clone, Copy)]
enum By {
    /// `RemoveContainer` alone, with so many calls in flight.
    Calls(usize),
    /// `kubegc collect`.
    Kubegc,
}

#[tokio::main]
async fn main() {
    let rows = [
        ("bare calls, 1 in flight", By::Calls(1)),
        ("bare calls, 4 in flight", By::Calls(4)),
        ("kubegc collect", By::Kubegc),
    ];
    let mut seconds = vec![Vec::new(); rows.len()];
    for _ in 0..ROUNDS {
        for (times, (_, by)) in seconds.iter_mut().zip(rows) {
            times.push(removed_by(by).await);
        }
    }
    println!("280 of 300 dead containers, containerd 2, medians of {ROUNDS} rounds");
    for ((name, _), times) in rows.iter().zip(&seconds) {
        println!("{name:<24} {:>6.2} s", median(times.iter().copied()));
    }
    let ratio = |row: usize| median(seconds[2].iter().zip(&seconds[row]).map(|(ours, bare)| ours / bare));
    println!("kubegc beside 1 in flight {:.2}, beside 4 in flight {:.2} (aim: at most 1.15)", ratio(0), ratio(1));
}

/// Removes all but the newest instance of each container on a new node; seconds.
async fn removed_by(by: By) -> f64 {
    let rig = node().await;
    let dead = superseded(&rig).await;
    let start = Instant::now();
    match by {
        By::Calls(at_once) => stream::iter(&dead).for_each_concurrent(at_once, |id| rig.remove_container(id)).await,
        By::Kubegc => drop(tokio::task::block_in_place(|| rig.kubegc(&["collect", "--set", "pods.source=none"])).ok()),
    }
    let seconds = start.elapsed().as_secs_f64();
    assert_eq!(rig.list_containers().await.len(), PODS);
    seconds
}

/// Starts a containerd with pods whose container has crashed several times.
async fn node() -> Rig {
    let rig = Rig::start(Version::V2).await;
    let pods = stream::iter(0..PODS).for_each_concurrent(AT_ONCE, async |number| {
        let pod = rig.pod("default", &format!("web-{number}"), &format!("uid-{number}")).await;
        pod.crash_looped("app", INSTANCES).await;
    });
    pods.await;
    rig
}

/// Returns the containers that are not the newest of their pod.
async fn superseded(rig: &Rig) -> Vec<String> {
    let mut by_pod: BTreeMap<String, Vec<pb::Container>> = BTreeMap::new();
    for container in rig.list_containers().await {
        by_pod.entry(container.pod_sandbox_id.clone()).or_default().push(container);
    }
    by_pod
        .values_mut()
        .flat_map(|instances| {
            instances.sort_by_key(|container| container.created_at);
            instances.iter().rev().skip(1).map(|container| container.id.clone()).collect::<Vec<_>>()
        })
        .collect()
}
