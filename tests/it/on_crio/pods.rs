//! Passes over a node with pods in every state.

use kubegc::cri::generated as pb;

use crate::containerd_e2e::pods::{SECOND, STAYS, only_objects_without_a_reason_to_stay_are_removed};
use crate::rig::{Rig, Version};

/// What CRI-O lists in another way: conmon creates the log of a container before its start, and a stop ends created containers
/// too.
const CREATED_LOG: &str = "file default_web-0_uid-web/late/0.log";
const STOPPED: [&str; 5] = [
    "container half-0/app#0 exited",
    "sandbox half-0#0 notready",
    "dir default_half-0_uid-half",
    "file default_half-0_uid-half/app/0.log",
    "link to default_half-0_uid-half/app/0.log",
];

#[tokio::test]
async fn only_unneeded_objects_are_removed() {
    let stays: Vec<_> = STAYS.into_iter().filter(|name| !name.contains("half-0")).chain([CREATED_LOG]).collect();
    let second = [&SECOND[..], &STOPPED].concat();
    only_objects_without_a_reason_to_stay_are_removed(Version::Crio, &stays, &second).await;
}

#[tokio::test]
async fn pods_survive_a_crash_of_the_runtime() {
    let rig = Rig::start_crio(&[]).await;
    let pod = rig.pod("default", "web-0", "uid-web").await;
    let running = pod.running("app").await;
    pod.exited("job", 0).await;
    let before = rig.names().await.words();
    rig.crash_and_restart().await;
    assert_eq!(rig.names().await.words(), before);
    rig.restart().await;
    assert_eq!(rig.state(&running).await, Some(pb::ContainerState::ContainerRunning));
}
