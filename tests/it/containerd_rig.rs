//! Tests the rig itself, on which the other tests depend. If these tests fail, check the machine first.

use kubegc::cri::generated::ContainerState;

use crate::rig::{Image, Layer, Rig, Version};

#[tokio::test]
async fn a_rig_has_pods_in_every_state() {
    let rig = Rig::start(Version::V1_6).await;
    let pod = rig.pod("default", "web-0", "uid-web").await;
    let running = pod.running("app").await;
    let crashed = pod.crash_looped("sidecar", 3).await;
    let created = pod.created("late").await;
    assert_eq!(rig.state(&running).await, Some(ContainerState::ContainerRunning));
    assert_eq!(rig.state(&crashed[2]).await, Some(ContainerState::ContainerExited));
    assert_eq!(rig.state(&created).await, Some(ContainerState::ContainerCreated));
    let log = std::fs::read_to_string(pod.log_link("sidecar", &crashed[2])).unwrap();
    assert!(log.ends_with("attempt 2\n"), "{log}");
    pod.stop_sandbox().await;
    assert_eq!(rig.state(&running).await, Some(ContainerState::ContainerExited));
    let again = pod.again().await;
    assert_ne!(again.sandbox, pod.sandbox);
}

#[tokio::test]
async fn pods_survive_a_crash_of_the_runtime() {
    let rig = Rig::start(Version::V2).await;
    let running = rig.pod("default", "web-0", "uid-web").await.running("app").await;
    rig.foreign_pod("somebody-else").await.exited("job", 0).await;
    let before = rig.contents().await;
    rig.crash_and_restart().await;
    assert_eq!(rig.changes_since(&before).await, Vec::<String>::new());
    rig.restart().await;
    assert_eq!(rig.state(&running).await, Some(ContainerState::ContainerRunning));
}

#[tokio::test]
async fn a_small_disk_fills_up() {
    let rig = Rig::start_on_small_disk(Version::V1_7, 128).await;
    let before = rig.used_percent();
    rig.import(&[Image::new(&["docker.io/library/big:1"], &[Layer::busybox(), Layer::filled("big", 16)])]).await;
    // The layer exists twice: as a blob and unpacked.
    assert!((24.0..35.0).contains(&(rig.used_percent() - before)), "{before} -> {}", rig.used_percent());
    rig.pod("default", "big-0", "uid-big").await.with_image("docker.io/library/big:1").exited("app", 0).await;
}
