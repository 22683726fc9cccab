//! What the first lists of `controller run` cost beside 100,000 objects on a real API server: its peak memory over that
//! afterward is what a list in one stream (`sendInitialEvents`) could save at most. And the peak memory of a plan there.

use std::time::{Duration, Instant};

use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams};
use nix::sys::resource::{UsageWho, getrusage};
use serde_json::json;

use crate::figures::{median, mib};
use crate::process::{Usage, usage, with_argument};
use crate::rig::{NodeRig, becomes_true_within, kubernetes_version};

const OBJECTS: usize = 100_000;
const RUNS: usize = 3;
/// Calls of this process at once.
const AT_ONCE: usize = 16;

/// One start of the service.
struct Start {
    seconds: f64,
    usage: Usage,
}

pub async fn measure() {
    let node = NodeRig::start_api_alone().await;
    let server = with_argument(&format!("kube-apiserver\0--etcd-servers=http://{}:2379", node.name()));
    let empty = start(&node).await;
    fill(&Api::namespaced(node.kube(), "default")).await;
    let (before, mut starts) = (usage(server), Vec::new());
    for _ in 0..RUNS {
        starts.push(start(&node).await);
    }
    let after = usage(server);
    let of = |figure: fn(&Start) -> f64| median(starts.iter().map(figure));
    println!("{OBJECTS} ConfigMaps, real API server {}; medians of {RUNS} starts of run", kubernetes_version());
    println!("first lists:       {:>8.1} s, without objects {:.1} s", of(|it| it.seconds), empty.seconds);
    println!(
        "peak memory:       {:>8.1} MiB, without objects {:.1} MiB",
        of(|it| mib(it.usage.peak)),
        mib(empty.usage.peak)
    );
    println!(
        "memory afterward:  {:>8.1} MiB, without objects {:.1} MiB",
        of(|it| mib(it.usage.now)),
        mib(empty.usage.now)
    );
    println!("API server, peak:  {:>8.1} MiB before, {:.1} MiB after", mib(before.peak), mib(after.peak));
    println!(
        "peak of a plan:    {:>8.1} MiB at most, with labels {:.1} MiB",
        plan(&node, &[]),
        plan(&node, &["-L", "app"])
    );
    println!(
        "its CPU time:      {:>8.1} s a start",
        (after.cpu.as_secs_f64() - before.cpu.as_secs_f64()) / RUNS as f64
    );
}

/// Starts the service and waits until all lists are complete.
async fn start(node: &NodeRig) -> Start {
    let begun = Instant::now();
    let run = node.controller("lists", &["--owners-only"]);
    let lists = async || run.log().contains("collecting");
    assert!(becomes_true_within(Duration::from_mins(5), lists).await, "{}", run.log());
    Start { seconds: begun.elapsed().as_secs_f64(), usage: usage(run.id()) }
}

/// Returns the peak memory of a plan in MiB. It is that of the largest program that has ended, so of this one or of an earlier one.
fn plan(node: &NodeRig, arguments: &[&str]) -> f64 {
    let kubeconfig = node.kubeconfig("admin").display().to_string();
    node.kubegc(&[&["controller", "plan", "--kubeconfig", &kubeconfig], arguments].concat()).ok();
    let kilobytes = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap().max_rss();
    mib(u64::try_from(kilobytes).unwrap() * 1024)
}

async fn fill(maps: &Api<ConfigMap>) {
    let made = (0..OBJECTS).map(async |number| {
        let object = json!({"metadata": {"name": format!("map-{number}")}, "data": {"key": "value".repeat(100)}});
        maps.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    });
    stream::iter(made).buffer_unordered(AT_ONCE).for_each(async |()| ()).await;
}
