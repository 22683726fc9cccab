//! A container that lost its status file. After a restart containerd lists it as UNKNOWN and created in 1970, while it runs.

use kubegc::cri::generated::ContainerState;
use walkdir::WalkDir;

use crate::rig::{Rig, Version};

/// Pods as the runtime lists them, and no waits.
const SETTINGS: [&str; 3] = ["--set=pods.source=runtime", "--set=guards.settle=0s", "--set=guards.sandbox_grace=0s"];

#[tokio::test]
async fn running_containers_without_status_are_kept_on_1_6() {
    a_running_container_without_a_status_is_kept(Version::V1_6).await;
}

#[tokio::test]
async fn running_containers_without_status_are_kept_on_1_7() {
    a_running_container_without_a_status_is_kept(Version::V1_7).await;
}

#[tokio::test]
async fn running_containers_without_status_are_kept_on_2() {
    a_running_container_without_a_status_is_kept(Version::V2).await;
}

async fn a_running_container_without_a_status_is_kept(version: Version) {
    let rig = Rig::start(version).await;
    let pod = rig.pod("default", "web-0", "uid-web").await;
    let dead = pod.crash_looped("app", 2).await;
    let running = pod.running_again("app", 2).await;
    rig.stop();
    lose_status(&rig, &running);
    rig.begin().await;
    assert_eq!(rig.state(&running).await, Some(ContainerState::ContainerUnknown));
    for _ in 0..2 {
        rig.kubegc(&[&["collect"], &SETTINGS[..]].concat()).ok();
    }
    assert_eq!(rig.state(&running).await, Some(ContainerState::ContainerUnknown));
    let tasks = rig.ctr(&["tasks", "ls"]);
    assert!(tasks.lines().any(|line| line.starts_with(&running) && line.contains("RUNNING")), "{tasks}");
    assert_eq!((rig.state(&dead[0]).await, rig.state(&dead[1]).await), (None, Some(ContainerState::ContainerExited)));
    let why = rig.kubegc(&[&["why", &running], &SETTINGS[..]].concat()).ok().stdout;
    assert!(why.contains("it may be running") && !why.contains("56y"), "{why}");
}

/// Empties the file from which containerd reads the status of a container.
fn lose_status(rig: &Rig, id: &str) {
    let files = WalkDir::new(rig.dir()).into_iter().flatten();
    let status = files.map(walkdir::DirEntry::into_path).find(|path| path.ends_with(format!("{id}/status")));
    std::fs::write(status.expect("a status file"), "").unwrap();
}
