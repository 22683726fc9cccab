//! How soon a dependent is deleted after its owner, by kubegc and by kube-controller-manager: one dependent, and a chain of
//! dependents. Each collector has an API server of its own, and they have their turns.

use std::time::Instant;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams};

use crate::aim::Aim;
use crate::contest::{Collector, Running, create, start};
use crate::figures::median;
use crate::rig::{NodeRig, kubernetes_version};

/// Cascades of each collector.
const CASCADES: usize = 200;
/// Chains of each collector and policy, and their length.
const CHAINS: usize = 10;
const LENGTH: usize = 20;

/// The milliseconds of kubegc and of its peer.
type Times = (Vec<f64>, Vec<f64>);

/// One cascade after the other: one dependent each.
pub async fn measure() {
    println!("one cascade, {CASCADES} each, real API server {}", kubernetes_version());
    let (ours, upstream) = of_both(CASCADES, 2, &DeleteParams::background()).await;
    row("p99", (p99(&ours), p99(&upstream)));
    row("p50", (median(ours), median(upstream)));
}

/// Chains, in which each object is the only dependent of the one before.
pub async fn measure_chains() {
    println!("a chain of {LENGTH}, {CHAINS} each, real API server {}", kubernetes_version());
    for (what, policy) in [("background", DeleteParams::background()), ("foreground", DeleteParams::foreground())] {
        let (ours, upstream) = of_both(CHAINS, LENGTH, &policy).await;
        row(what, (median(ours), median(upstream)));
    }
}

fn row(what: &str, (ours, upstream): (f64, f64)) {
    let aim = Aim::AtMost(1.0);
    println!("{what:<10} kubegc {ours:.1} ms, kube-controller-manager {upstream:.1} ms: {}", aim.text(ours / upstream));
}

fn p99(times: &[f64]) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[times.len() * 99 / 100]
}

async fn of_both(count: usize, length: usize, policy: &DeleteParams) -> Times {
    let nodes = (NodeRig::start_api_alone().await, NodeRig::start_api_alone().await);
    let (ours, upstream) = (start(&nodes.0, Collector::Ours).await, start(&nodes.1, Collector::Upstream).await);
    let mut times = Times::default();
    for number in 0..count {
        times.0.push(collected(&ours, number, length, policy).await);
        times.1.push(collected(&upstream, number, length, policy).await);
    }
    times
}

/// Deletes the first object of a chain. Returns the milliseconds from the answer until no object of it is left.
async fn collected(running: &Running, number: usize, length: usize, policy: &DeleteParams) -> f64 {
    let (maps, mut chain) = (&running.maps, Vec::new());
    for at in 0..length {
        let owner = chain.last().cloned();
        chain.push(create(maps, vec![(format!("chain-{number}-{at}"), owner)]).await.remove(0));
    }
    maps.delete(&chain[0].0, policy).await.unwrap();
    let begun = Instant::now();
    for (name, _) in chain.iter().rev() {
        await_end(maps, name).await;
    }
    begun.elapsed().as_secs_f64() * 1000.0
}

async fn await_end(maps: &Api<ConfigMap>, name: &str) {
    while maps.get_metadata_opt(name).await.unwrap().is_some() {}
}
