//! The CRI reader on a real runtime: it works with every version, and survives a restart of the runtime.

use kubegc::cri::{CriOptions, Only, RuntimeReader};
use kubegc::model::{Container, ContainerState, Image as Listed};

use crate::rig::{Image, Layer, Rig, Version};

#[tokio::test]
async fn a_reader_reads_1_6_before_and_after_restarts() {
    a_reader_reads_before_and_after_restarts(Version::V1_6).await;
}

#[tokio::test]
async fn a_reader_reads_1_7_before_and_after_restarts() {
    a_reader_reads_before_and_after_restarts(Version::V1_7).await;
}

#[tokio::test]
async fn a_reader_reads_2_before_and_after_restarts() {
    a_reader_reads_before_and_after_restarts(Version::V2).await;
}

async fn a_reader_reads_before_and_after_restarts(version: Version) {
    let rig = Rig::start(version).await;
    let image = Image::new(&["docker.io/library/one:1", "docker.io/library/one:2"], &[Layer::filled("one", 1)]);
    rig.import(std::slice::from_ref(&image)).await;
    let pod = rig.pod("default", "web-0", "uid-web").await;
    let running = pod.running("app").await;
    let crashed = pod.crash_looped("sidecar", 2).await;

    let reader = RuntimeReader::new(&rig.endpoint(), &rig.endpoint(), CriOptions::default());
    let containers = sorted(reader.containers(Only::All).await.unwrap());
    let facts = |id: &String| {
        let found = containers.iter().find(|container| container.id.as_str() == id).unwrap();
        (found.name.as_str(), found.attempt, found.state, found.pod.as_ref().unwrap().uid.as_str())
    };
    assert_eq!(facts(&running), ("app", 0, ContainerState::Running, "uid-web"));
    assert_eq!(facts(&crashed[1]), ("sidecar", 1, ContainerState::Exited, "uid-web"));
    assert_eq!(tags_of(&reader.images().await.unwrap(), &image), image.tags());

    rig.restart().await;
    assert_eq!(sorted(reader.containers(Only::All).await.unwrap()), containers, "after a restart");
    rig.crash_and_restart().await;
    assert_eq!(sorted(reader.containers(Only::All).await.unwrap()), containers, "after a crash");
}

fn sorted(mut containers: Vec<Container>) -> Vec<Container> {
    containers.sort_by(|a, b| a.id.cmp(&b.id));
    containers
}

fn tags_of(listed: &[Listed], image: &Image) -> Vec<String> {
    let found = listed.iter().find(|listed| listed.id.as_str() == image.id()).unwrap();
    let mut tags = found.tags.clone();
    tags.sort();
    tags
}
