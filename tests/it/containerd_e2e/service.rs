//! The service on a node that continues to run.

use std::time::Duration;

use crate::rig::{Image, Layer, Rig, Version, becomes_true};

const SETTINGS: [&str; 7] = [
    "--set=pods.source=none",
    "--set=containers.interval=1s",
    "--set=images.interval=1s",
    "--set=guards.settle=0s",
    "--set=images.min_age=0s",
    "--set=images.all_unused=true",
    "--set=guards.created_grace=0s",
];

#[tokio::test]
async fn the_service_survives_runtime_restarts_on_1_6() {
    the_service_survives_a_restart_of_the_runtime(Version::V1_6).await;
}

#[tokio::test]
async fn the_service_survives_runtime_restarts_on_1_7() {
    the_service_survives_a_restart_of_the_runtime(Version::V1_7).await;
}

#[tokio::test]
async fn the_service_survives_runtime_restarts_on_2() {
    the_service_survives_a_restart_of_the_runtime(Version::V2).await;
}

/// Both loops work, before and after a crash of the runtime. Then the service stops on request.
async fn the_service_survives_a_restart_of_the_runtime(version: Version) {
    let rig = Rig::start(version).await;
    leave_garbage(&rig, "before").await;
    let service = rig.daemon(&SETTINGS);
    assert!(is_collected(&rig, "before").await, "{}", service.log());

    rig.crash_and_restart().await;
    leave_garbage(&rig, "after").await;
    assert!(is_collected(&rig, "after").await, "{}", service.log());
    assert_eq!(service.terminate(), 0);
}

#[tokio::test]
async fn a_node_has_one_agent_at_a_time() {
    let rig = Rig::start(Version::V1_6).await;
    leave_garbage(&rig, "some").await;
    let service = rig.daemon(&SETTINGS);
    assert!(is_collected(&rig, "some").await, "{}", service.log());
    let refused = rig.kubegc(&["run"]);
    assert_eq!(refused.code, 5, "{refused:?}");
    assert!(refused.stderr.contains("another"), "{refused:?}");
    assert_eq!(service.terminate(), 0);
    rig.kubegc(&["collect", "--set=pods.source=none"]).ok();
}

/// The current action is completed and recorded, and no other is started.
#[tokio::test]
async fn a_service_that_is_stopped_has_recorded_its_removals() {
    const DEAD: usize = 120;
    let rig = Rig::start(Version::V1_6).await;
    rig.pod("default", "web-0", "uid-web").await.created_again_and_again("app", 120).await;
    let service = rig.daemon(&SETTINGS);
    assert!(becomes_true(async || rig.list_containers().await.len() < DEAD).await, "{}", service.log());
    assert_eq!(service.terminate(), 0);

    let left = rig.list_containers().await.len();
    assert!((2..DEAD).contains(&left), "{left} left: the end came before or after the removals");
    let history = rig.kubegc(&["history", "-o", "json", "--kind", "container", "--limit", "1000"]).ok();
    assert_eq!(history.lines().filter(|entry| entry["outcome"] == "removed").count(), DEAD - left);

    rig.kubegc(&[&["collect"], &SETTINGS[..]].concat()).ok();
    assert_eq!(rig.list_containers().await.len(), 1, "the next pass does the rest");
}

#[tokio::test]
async fn a_service_without_its_runtime_waits_without_busy_looping() {
    let rig = Rig::start(Version::V1_6).await;
    leave_garbage(&rig, "before").await;
    let service = rig.daemon(&SETTINGS);
    assert!(is_collected(&rig, "before").await, "{}", service.log());

    rig.stop();
    let before = service.cpu_time();
    tokio::time::sleep(Duration::from_secs(2)).await; // there is no event to wait for: nothing must happen
    let spent = service.cpu_time().saturating_sub(before);
    assert!(spent < Duration::from_millis(200), "{spent:?} of 2 s\n{}", service.log());

    rig.begin().await;
    leave_garbage(&rig, "after").await;
    assert!(is_collected(&rig, "after").await, "{}", service.log());
    assert_eq!(service.terminate(), 0);
}

/// Creates a slot with two dead instances, one too many, and an unused image.
async fn leave_garbage(rig: &Rig, name: &str) {
    let tag = format!("docker.io/library/{name}:1");
    rig.import(&[Image::new(&[&tag], &[Layer::busybox()])]).await;
    rig.pod("default", name, name).await.created_again_and_again("app", 2).await;
}

async fn is_collected(rig: &Rig, name: &str) -> bool {
    let words = [format!("container {name}/app#0 created"), format!("image docker.io/library/{name}:1")];
    becomes_true(async || {
        let here = rig.names().await.words();
        words.iter().all(|word| !here.contains(word))
    })
    .await
}
