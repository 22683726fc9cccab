//! `controller collect` on much garbage, beside a client that only deletes, on one real API server. Such a client knows all
//! names beforehand, decides nothing and reads nothing.

use std::time::Instant;

use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, Preconditions};

use crate::aim::Aim;
use crate::contest::{IN_FLIGHT, Named, create, left};
use crate::figures::median;
use crate::filled::filled;
use crate::rig::{NodeRig, kubernetes_minor, kubernetes_version};
use crate::ways::WAYS;

pub const GARBAGE: usize = 10_000;
/// Absent owners of the garbage.
pub const OWNERS: usize = 200;
const ROUNDS: usize = 2;

/// With few owners, and with one for each object, which is a live read more (G1).
pub async fn measure(owners: usize) {
    let node = NodeRig::start_api_alone().await;
    let maps: Api<ConfigMap> = Api::namespaced(node.kube(), "default");
    println!("{GARBAGE} objects of absent owners, real API server {}; {ROUNDS} rounds", kubernetes_version());
    compare(&node, &maps, owners).await;
}

/// The first deletion beside as many other objects, and bare lists of them.
pub async fn measure_first(others: usize) {
    let node = filled(others).await;
    let maps: Api<ConfigMap> = Api::namespaced(node.kube(), "default");
    garbage(&maps, ROUNDS, OWNERS).await;
    let (mut first, mut lists) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        first.push(collect(&node, &["--max", "1"]));
        lists.push(WAYS[0].seconds(&node.kube()).await);
    }
    println!("first deletion beside {others} objects, real API server {}; {ROUNDS} rounds", kubernetes_version());
    let ratio = median(first.iter().zip(&lists).map(|(ours, bare)| ours / bare));
    println!("collect --max 1: {:.2} s, of bare lists {}", median(first), Aim::AtMost(1.1).text(ratio));
    println!("bare lists, {:<28} {:.2} s", WAYS[0].name, median(lists));
    for way in WAYS[1..].iter().filter(|way| way.since <= kubernetes_minor()) {
        println!("bare lists, {:<28} {:.2} s", way.name, way.seconds(&node.kube()).await);
    }
}

/// Compares `collect` with bare deletions of the same objects.
async fn compare(node: &NodeRig, maps: &Api<ConfigMap>, owners: usize) {
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        garbage(maps, GARBAGE, owners).await;
        ours.push(collect(node, &["--timeout", "10m"]));
        assert_eq!(left(maps).await, 0, "the garbage is deleted");
        let named = garbage(maps, GARBAGE, owners).await;
        bare.push(delete(maps, &named).await);
    }
    let ratio = median(ours.iter().zip(&bare).map(|(ours, bare)| ours / bare));
    let (ours, bare) = (median(ours.iter().copied()), median(bare.iter().copied()));
    println!(
        "{owners} owners: collect: {ours:.2} s; bare deletions, {IN_FLIGHT} in flight: {bare:.2} s; ratio {}",
        Aim::AtMost(1.25).text(ratio)
    );
}

/// Creates dependents of absent owners.
async fn garbage(maps: &Api<ConfigMap>, count: usize, owners: usize) -> Vec<Named> {
    let owner = |number: usize| format!("owner-{}", number % owners);
    let uid = |number: usize| format!("00000000-0000-4000-8000-{:012}", number % owners);
    let object = |number| (format!("garbage-{number}"), Some((owner(number), uid(number))));
    create(maps, (0..count).map(object).collect()).await
}

/// Runs `collect` without a limit on its calls; seconds.
fn collect(node: &NodeRig, args: &[&str]) -> f64 {
    let (kubeconfig, begun) = (node.kubeconfig("admin").display().to_string(), Instant::now());
    let command = ["controller", "collect", "--kube-api-qps", "0", "--kubeconfig", &kubeconfig];
    node.kubegc(&[&command, args].concat()).ok();
    begun.elapsed().as_secs_f64()
}

/// Deletes objects by name and uid; seconds.
pub async fn delete(maps: &Api<ConfigMap>, objects: &[Named]) -> f64 {
    let begun = Instant::now();
    let deleted = objects.iter().map(async |(name, uid)| {
        let only = DeleteParams::background()
            .preconditions(Preconditions { uid: Some(uid.clone()), ..Preconditions::default() });
        maps.delete(name, &only).await.unwrap()
    });
    stream::iter(deleted).buffer_unordered(IN_FLIGHT).for_each(async |_| ()).await;
    begun.elapsed().as_secs_f64()
}
