//! Reclaimed bytes of containers on a disk that is really measured.

use kubegc::cri::generated as pb;

use crate::rig::{Rig, Version, becomes_true};

const MIB: u64 = 1 << 20;
const SETTINGS: [&str; 4] = [
    "--set=pods.source=runtime",
    "--set=guards.gone_after=1ms",
    "--set=guards.sandbox_grace=0s",
    "--set=guards.settle=0s",
];

#[tokio::test]
async fn writable_layers_are_reported_as_reclaimed_on_1_6() {
    the_writable_layer_of_a_dead_container_is_reported_as_reclaimed(Version::V1_6).await;
}

#[tokio::test]
async fn writable_layers_are_reported_as_reclaimed_on_1_7() {
    the_writable_layer_of_a_dead_container_is_reported_as_reclaimed(Version::V1_7).await;
}

#[tokio::test]
async fn writable_layers_are_reported_as_reclaimed_on_2() {
    the_writable_layer_of_a_dead_container_is_reported_as_reclaimed(Version::V2).await;
}

/// The container has 80 MiB in the writable layer, on a disk of its own.
async fn the_writable_layer_of_a_dead_container_is_reported_as_reclaimed(version: Version) {
    let rig = Rig::start_on_small_disk(version, 512).await;
    let pod = rig.pod("default", "job-0", "uid-job").await;
    let id = pod.having_written("work", 80).await;
    pod.stop_sandbox().await;
    assert!(becomes_true(async || size(&rig, &id).await > 0).await, "containerd does not report the layer's size");
    rig.kubegc(&with_settings(&["collect", "-o", "json"])).ok(); // the first pass: the pod is missing, not yet deleted

    let document = rig.kubegc(&with_settings(&["collect", "-o", "json"])).ok().json();
    let (summary, reports) = (&document["summary"], document["reports"].as_array().unwrap());
    let bytes = summary["freed_bytes"]["container"].as_u64().unwrap();
    assert!((70 * MIB..120 * MIB).contains(&bytes), "{document:#}");
    assert_eq!(summary["measure"]["container"], "measured", "{document:#}");
    let container = reports.iter().find(|report| report["action"]["id"] == *id).unwrap();
    let estimate = container["freed_bytes"].as_u64().unwrap();
    assert!((70 * MIB..120 * MIB).contains(&estimate), "{document:#}");
    assert_eq!(container["measure"], "estimated", "{document:#}");

    let runs = rig.kubegc(&["history", "--runs", "-o", "json"]).ok();
    let recorded = runs.lines().map(|run| run["freed_bytes"].as_u64().unwrap()).max();
    assert_eq!(recorded, Some(bytes + summary["freed_bytes"]["log_dir"].as_u64().unwrap_or_default()));
}

/// Returns the bytes that containerd reports for a container's writable layer; 0 = it has not determined them yet.
async fn size(rig: &Rig, id: &str) -> u64 {
    let list = rig.runtime().list_container_stats(pb::ListContainerStatsRequest::default()).await.unwrap();
    let stats = list.into_inner().stats;
    let of_container = stats.into_iter().find(|stats| stats.attributes.as_ref().is_some_and(|it| it.id == id));
    of_container.and_then(|stats| stats.writable_layer?.used_bytes).map_or(0, |bytes| bytes.value)
}

fn with_settings<'a>(args: &[&'a str]) -> Vec<&'a str> {
    [args, &SETTINGS].concat()
}
