//! The dependents of many owners on a real API server, deleted by kubegc and by kube-controller-manager in turn,
//! each on an API server of its own and with its limits on calls raised. Bare deletions, of which the client knows all names
//! beforehand, show what the API server itself takes on this machine.

use std::time::{Duration, Instant};

use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use serde_json::json;

use crate::aim::Aim;
use crate::figures::{median, mib};
use crate::garbage::delete;
use crate::process::{Usage, usage, with_argument};
use crate::rig::{Daemon, NodeRig, Program, becomes_true_within, kubernetes_version};

const OWNERS: usize = 200;
const DEPENDENTS: usize = 20_000;
/// How often both collect. The machine may be busy in one of them.
const ROUNDS: usize = 3;
/// Calls of this process at once.
const AT_ONCE: usize = 16;
const PATIENCE: Duration = Duration::from_mins(10);

/// Deletions of the bare client at once, as many as kubegc has workers.
pub const IN_FLIGHT: usize = 20;

/// The name and the uid of an object.
pub type Named = (String, String);

/// A collector at work.
pub struct Running {
    pub maps: Api<ConfigMap>,
    /// The process of the collector.
    pub pid: u32,
    _ours: Option<Daemon>,
}

/// What a collector needed.
struct Result {
    per_second: f64,
    usage: Usage,
    /// The memory before the first deletion.
    idle: u64,
}

pub async fn measure() {
    let (mut rounds, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        rounds.push((collected_by(Collector::Ours).await, collected_by(Collector::Upstream).await));
        bare.push(bare_deletions().await);
    }
    println!(
        "{DEPENDENTS} dependents of {OWNERS} owners, background, real API server {}; medians of {ROUNDS} rounds",
        kubernetes_version()
    );
    println!("                        kubegc  kube-controller-manager  ratio in a round");
    row("deletions per second", &rounds, |it| it.per_second, Aim::AtLeast(1.0));
    row("peak memory, MiB", &rounds, |it| mib(it.usage.peak), Aim::AtMost(0.2));
    row("memory before, MiB", &rounds, |it| mib(it.idle), Aim::AtMost(0.2));
    row("CPU time, s", &rounds, |it| it.usage.cpu.as_secs_f64(), Aim::AtMost(0.33));
    let shares = rounds.iter().zip(&bare).map(|((ours, _), bare)| ours.per_second / bare);
    println!(
        "bare deletions per second, {IN_FLIGHT} in flight: {:.0}; kubegc reaches {:.2} of them",
        median(bare.iter().copied()),
        median(shares)
    );
}

fn row(what: &str, rounds: &[(Result, Result)], of: fn(&Result) -> f64, aim: Aim) {
    let ours = median(rounds.iter().map(|(ours, _)| of(ours)));
    let upstream = median(rounds.iter().map(|(_, upstream)| of(upstream)));
    let ratio = median(rounds.iter().map(|(ours, upstream)| of(ours) / of(upstream)));
    println!("{what:<20} {ours:>9.1}  {upstream:>23.1}  {}", aim.text(ratio));
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Collector {
    Upstream,
    Ours,
}

async fn collected_by(collector: Collector) -> Result {
    let node = NodeRig::start_api_alone().await;
    let (owners, _) = create_all(&Api::namespaced(node.kube(), "default")).await;
    let Running { maps, pid, .. } = &start(&node, collector).await;
    let idle = usage(*pid).now;
    let begun = Instant::now();
    let deleted = owners.iter().map(async |(name, _)| maps.delete(name, &DeleteParams::background()).await.unwrap());
    stream::iter(deleted).buffer_unordered(AT_ONCE).for_each(async |_| ()).await;
    assert!(becomes_true_within(PATIENCE, async || left(maps).await == 0).await, "{collector:?} does not end");
    let per_second = DEPENDENTS as f64 / begun.elapsed().as_secs_f64();
    Result { per_second, usage: usage(*pid), idle }
}

/// Starts a collector with its limits on calls raised, and waits until it works.
pub async fn start(node: &NodeRig, collector: Collector) -> Running {
    let limits = ["--owners-only", "--profile", "upstream", "--kube-api-qps", "5000"];
    if collector == Collector::Upstream {
        node.launch(Program::ControllerManager);
    }
    let ours = (collector == Collector::Ours).then(|| node.controller("run", &limits));
    let maps = Api::namespaced(node.kube(), "default");
    await_collector(&maps).await;
    let of_upstream = || with_argument(&format!("--kubeconfig={}", node.kubeconfig("admin").display()));
    Running { maps, pid: ours.as_ref().map_or_else(of_upstream, Daemon::id), _ours: ours }
}

/// Returns how many dependents per second a client deletes that decides nothing.
async fn bare_deletions() -> f64 {
    let node = NodeRig::start_api_alone().await;
    let maps: Api<ConfigMap> = Api::namespaced(node.kube(), "default");
    let (_, dependents) = create_all(&maps).await;
    DEPENDENTS as f64 / delete(&maps, &dependents).await
}

/// Creates the owners and their dependents.
async fn create_all(maps: &Api<ConfigMap>) -> (Vec<Named>, Vec<Named>) {
    let owners = create(maps, (0..OWNERS).map(|number| (format!("owner-{number}"), None)).collect()).await;
    let owned = |number: usize| (format!("dependent-{number}"), Some(owners[number % OWNERS].clone()));
    let dependents = create(maps, (0..DEPENDENTS).map(owned).collect()).await;
    (owners, dependents)
}

/// Creates objects, each with its owner, and returns their names and uids in order.
pub async fn create(maps: &Api<ConfigMap>, objects: Vec<(String, Option<Named>)>) -> Vec<Named> {
    let made = objects.into_iter().map(async |(name, owner)| {
        let owner = owner.map(|(name, uid)| {
            json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid, "blockOwnerDeletion": true})
        });
        let metadata = json!({"name": name, "ownerReferences": owner.into_iter().collect::<Vec<_>>()});
        let object = serde_json::from_value(json!({"metadata": metadata, "data": {"key": "value"}})).unwrap();
        let made = maps.create(&PostParams::default(), &object).await.unwrap();
        (made.metadata.name.unwrap(), made.metadata.uid.unwrap())
    });
    stream::iter(made).buffered(AT_ONCE).collect().await
}

/// Waits until the collector works: it deletes an object without its owner.
async fn await_collector(maps: &Api<ConfigMap>) {
    let absent = ("absent".to_owned(), "00000000-0000-4000-8000-000000000001".to_owned());
    create(maps, vec![("sentinel".to_owned(), Some(absent))]).await;
    let is_deleted = async || maps.get_metadata_opt("sentinel").await.unwrap().is_none();
    assert!(becomes_true_within(PATIENCE, is_deleted).await, "the collector does not work");
}

/// Returns the number of objects that are left.
pub async fn left(maps: &Api<ConfigMap>) -> usize {
    let list = maps.list_metadata(&ListParams::default().limit(1)).await.unwrap();
    list.items.len() + usize::try_from(list.metadata.remaining_item_count.unwrap_or(0)).unwrap()
}
