//! `TestGarbageCollectorConstruction` and `TestGarbageCollectorSync`: the monitors that each discovery leaves.

use super::*;
use crate::controller::ControllerSettings;
use crate::controller::monitors::Monitors;

const PODS: (&str, &str) = ("v1", "pods");
const SECRETS: (&str, &str) = ("v1", "secrets");
const WIDGETS: (&str, &str) = ("example.com/v1", "widgets");

/// A discovery of these resources; `failed` are group-versions whose discovery failed.
fn discovered(resources: &[(&str, &str)], failed: &[&str]) -> Discovered {
    let resources = resources.iter().map(|(api_version, name)| resource_of(api_version, name, name, true, true));
    let failed = failed.iter().map(|version| ((*version).to_owned(), "no answer".to_owned()));
    Discovered { resources: resources.collect(), unavailable: failed.collect() }
}

async fn after(monitors: &mut Monitors, found: Discovered) -> Vec<String> {
    monitors.follow(&found).await;
    monitors.names()
}

#[tokio::test(start_paused = true)]
async fn a_failed_group_version_keeps_its_monitors() {
    let cluster = Cluster::new();
    let engine = Arc::new(cluster.engine);
    let mut monitors = Monitors::new(engine, &ControllerSettings::default());
    assert_eq!(after(&mut monitors, discovered(&[PODS, WIDGETS], &[])).await, ["pods", "widgets.example.com"]);
    let failed = discovered(&[PODS], &["example.com/v1"]);
    assert_eq!(after(&mut monitors, failed.clone()).await, ["pods", "widgets.example.com"]);
    tokio::time::advance(Duration::from_hours(1)).await;
    assert_eq!(after(&mut monitors, failed).await, ["pods", "widgets.example.com"], "what it serves is unknown");

    assert_eq!(after(&mut monitors, discovered(&[PODS, SECRETS], &[])).await.len(), 3, "it may only be starting");
    tokio::time::advance(Duration::from_mins(1)).await;
    assert_eq!(after(&mut monitors, discovered(&[PODS, SECRETS], &[])).await, ["pods", "secrets"]);
    assert_eq!(after(&mut monitors, discovered(&[PODS, WIDGETS], &[])).await.len(), 3);
    tokio::time::advance(Duration::from_secs(30)).await;
    assert_eq!(after(&mut monitors, discovered(&[PODS, SECRETS, WIDGETS], &[])).await.len(), 3);
    tokio::time::advance(Duration::from_secs(31)).await;
    let missing_again = discovered(&[PODS, WIDGETS], &[]);
    assert_eq!(after(&mut monitors, missing_again).await.len(), 3, "the minute starts again");
}

#[tokio::test(start_paused = true)]
async fn a_resource_in_another_version_is_monitored_again() {
    let cluster = Cluster::new();
    let engine = Arc::new(cluster.engine);
    let mut monitors = Monitors::new(Arc::clone(&engine), &ControllerSettings::default());
    after(&mut monitors, discovered(&[WIDGETS], &[])).await;
    let id = engine.number("example.com", "widgets");
    engine.has_list(id);
    let other = discovered(&[("example.com/v2", "widgets")], &[]);
    assert_eq!(after(&mut monitors, other).await, ["widgets.example.com"]);
    assert_eq!(
        engine.unlisted().first().map(|(unlisted, _)| unlisted.clone()),
        Some(engine.name(id)),
        "it is listed again"
    );
}

/// Listing widgets fails for ever: pods are listed all the same, and nothing waits longer than it may.
#[tokio::test(start_paused = true)]
async fn an_unlistable_resource_delays_the_start_within_limits() {
    let cluster = Cluster::new();
    let pods = json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": "1"},
        "items": []});
    cluster.server.answers_path("/api/v1/pods", 200, pods);
    let engine = Arc::new(cluster.engine);
    let mut monitors = Monitors::new(Arc::clone(&engine), &ControllerSettings::default());
    after(&mut monitors, discovered(&[PODS, WIDGETS], &[])).await;
    let begun = tokio::time::Instant::now();
    engine.all_listed(Duration::from_secs(30)).await;
    assert_eq!(begun.elapsed().as_secs(), 30);
    let unlisted: Vec<_> = engine.unlisted().into_iter().map(|(name, _)| name).collect();
    assert_eq!(unlisted, ["widgets.example.com"]);
}
