//! The removal of 280 of 300 dead containers on a real containerd 2, beside a client that makes only the `RemoveContainer`
//! calls, with one, four and eight in flight.
//!
//! `cargo bench --bench removal`, as root; `-- collect_1_6` and `collect_1_7` are the same on an older one. Each measurement has a
//! containerd of its own with the same pods. `kubegc collect` is timed as a whole command: the lists, the plan, the log files and the
//! records are in its figure.
//!
//! Then the two times that a person on call waits for: from the start of the first command on a full disk to the first free byte,
//! and from the start of `kubegc pause` to the last removal.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    reason = "a benchmark may fail loudly, asks the clock and starts programs"
)]

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
use std::thread;
use std::time::{Duration, Instant};

use figures::{is_chosen, is_named, median, row};
use futures::{StreamExt as _, stream};
use kubegc::cri::generated as pb;
use rig::{Image, Layer, Rig, Version};

const PODS: usize = 20;
const INSTANCES: u32 = 15;
/// How many containers are created at once.
const AT_ONCE: usize = 4;
const ROUNDS: usize = 3;
/// How often is looked whether something was removed.
const POLL: Duration = Duration::from_millis(1);
/// Nothing is removed so long after a pause.
const SETTLED: Duration = Duration::from_secs(5);

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
    if is_chosen("collect") {
        collect(Version::V2).await;
    }
    for (part, version) in [("collect_1_6", Version::V1_6), ("collect_1_7", Version::V1_7)] {
        if is_named(part) {
            collect(version).await;
        }
    }
    if is_chosen("waits") {
        waits().await;
    }
}

async fn collect(version: Version) {
    let rows = [
        ("bare calls, 1 in flight", By::Calls(1)),
        ("bare calls, 4 in flight", By::Calls(4)),
        ("bare calls, 8 in flight", By::Calls(8)),
        ("kubegc collect", By::Kubegc),
    ];
    let mut seconds = vec![Vec::new(); rows.len()];
    for _ in 0..ROUNDS {
        for (times, (_, by)) in seconds.iter_mut().zip(rows) {
            times.push(removed_by(by, version).await);
        }
    }
    let [ref bare @ .., ref ours] = seconds[..] else { unreachable!("rows") };
    let fastest: Vec<_> = (0..ROUNDS).map(|round| bare.iter().map(|by| by[round]).fold(f64::MAX, f64::min)).collect();
    let ratio = median(ours.iter().zip(&fastest).map(|(ours, bare)| ours / bare));
    let times = seconds.iter().map(|times| format!("{:.2} s", median(times.iter().copied()))).collect::<Vec<_>>();
    let peer = format!("bare calls, 1, 4 and 8 in flight: {}", times[..3].join(", "));
    let what = format!("`collect`: 280 of 300 dead containers, containerd {}", version.name());
    row(&what, &times[3], &peer, ratio, 1.3);
}

async fn waits() {
    let (mut freed, mut paused) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        freed.push(first_free_byte().await);
        paused.push(last_removal().await);
    }
    let [freed, paused] = [freed, paused].map(median);
    row("first command to the first free byte, 20 unused images, seconds", &format!("{freed:.2} s"), "", freed, 1.0);
    row(
        "pause to the last removal, with the start of the command, seconds",
        &format!("{paused:.2} s"),
        "",
        paused,
        1.0,
    );
}

/// Returns the seconds from the start of a command that removes unused images to the moment when the disk has more space.
async fn first_free_byte() -> f64 {
    let rig = Rig::start_on_small_disk(Version::V2, 256).await;
    for number in 0..20 {
        let (tag, layer) = (format!("docker.io/library/old:{number}"), Layer::filled(&number.to_string(), 4));
        rig.import(&[Image::new(&[&tag], &[layer])]).await;
    }
    let before = rig.used_percent();
    let settings = [
        "collect",
        "--set=pods.source=none",
        "--set=images.all_unused=true",
        "--set=images.min_age=0s",
        "--set=guards.settle=0s",
    ];
    let (start, rig) = (Instant::now(), &rig);
    thread::scope(|scope| {
        let command = scope.spawn(|| rig.kubegc(&settings).ok());
        while rig.used_percent() >= before {
            assert!(!command.is_finished(), "nothing was freed");
            thread::sleep(POLL);
        }
        start.elapsed().as_secs_f64()
    })
}

/// Returns the seconds from the start of `kubegc pause`, in the middle of a pass of the service, to the last removal.
async fn last_removal() -> f64 {
    let rig = node(Version::V2).await;
    let all = rig.list_containers().await.len();
    let service = rig.daemon(&["--set=pods.source=none"]);
    while rig.list_containers().await.len() > all - all / 10 {
        tokio::time::sleep(POLL).await;
    }
    let start = Instant::now();
    let pause = tokio::task::spawn_blocking({
        let command = rig.command(&["pause", "--reason=bench"]);
        move || {
            let mut command = command;
            command.output().unwrap()
        }
    });
    let (mut left, mut last) = (rig.list_containers().await.len(), 0.0);
    while start.elapsed() < SETTLED {
        let now = rig.list_containers().await.len();
        if now < left {
            (left, last) = (now, start.elapsed().as_secs_f64());
        }
    }
    let answer = pause.await.unwrap();
    assert!(answer.status.success() && left > PODS, "{answer:?}, {left} left");
    service.terminate();
    last
}

/// Removes all but the newest instance of each container on a new node; seconds.
async fn removed_by(by: By, version: Version) -> f64 {
    let rig = node(version).await;
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
async fn node(version: Version) -> Rig {
    let rig = Rig::start(version).await;
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
