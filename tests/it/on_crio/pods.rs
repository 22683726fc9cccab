//! Passes over a node with pods in every state.

use kubegc::cri::generated as pb;

use crate::containerd_e2e::pods::{SECOND, SETTINGS, STAYS, only_objects_without_a_reason_to_stay_are_removed};
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

/// A pod whose containers share their process ids has a process of its own, and conmon writes a log of it beside the directories of
/// the containers.
#[tokio::test]
async fn the_log_of_a_sandbox_is_kept_until_its_pod_is_deleted() {
    let rig = Rig::start_crio(&[]).await;
    let mut config = rig.sandbox_config("default", "web-0", "uid-web");
    let security = config.linux.as_mut().and_then(|linux| linux.security_context.as_mut()).unwrap();
    security.namespace_options.as_mut().unwrap().pid = pb::NamespaceMode::Pod.into();
    let pod = rig.run_sandbox(config).await;
    pod.running("app").await;
    let log = pod.log_dir().join(format!("{}.log", pod.sandbox));
    assert!(log.is_file(), "conmon writes no {}", log.display());
    let before = rig.names().await.words();
    for _ in 0..2 {
        rig.kubegc(&[&["collect"], &SETTINGS[..]].concat()).ok();
    }
    assert_eq!(rig.names().await.words(), before);
    pod.stop_sandbox().await;
    for _ in 0..2 {
        rig.kubegc(&[&["collect"], &SETTINGS[..]].concat()).ok();
    }
    assert!(!pod.log_dir().exists(), "{:?}", rig.names().await.words());
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
