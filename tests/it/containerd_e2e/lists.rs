//! Lists that are too large for one message of the runtime (kubernetes#134750).

use std::time::Duration;

use kubegc::cri::generated as pb;
use tonic::Code;

use crate::rig::{Image, Layer, Rig, Version};

/// The limit of the runtime on one message, in bytes: less than the list of the containers, more than the containers of
/// one pod and than the list of the sandboxes.
const LIMIT: usize = 60_000;
/// The number of pods with dead containers.
const PODS: usize = 20;
/// The unused image.
const UNUSED: &str = "docker.io/library/unused:1";
/// The longest wait for a pass: some hundred removals, one after the other.
const PATIENCE: Duration = Duration::from_mins(10);

const SETTINGS: [&str; 5] = [
    "--set=pods.source=runtime",
    "--set=guards.settle=0s",
    "--set=guards.created_grace=0s",
    "--set=images.min_age=0s",
    "--set=images.all_unused=true",
];

#[tokio::test]
async fn large_lists_are_read_in_parts_on_1_6() {
    a_list_that_is_too_large_to_send_is_collected_in_parts(Version::V1_6, 1000).await;
}

#[tokio::test]
async fn large_lists_are_read_in_parts_on_1_7() {
    a_list_that_is_too_large_to_send_is_collected_in_parts(Version::V1_7, 200).await;
}

#[tokio::test]
async fn large_lists_are_read_in_parts_on_2() {
    a_list_that_is_too_large_to_send_is_collected_in_parts(Version::V2, 200).await;
}

/// The list of `dead` containers is too large for a client without filters, such as the kubelet. After the pass each
/// pod has its newest instance, and the list fits into one message again.
async fn a_list_that_is_too_large_to_send_is_collected_in_parts(version: Version, dead: usize) {
    let rig = Rig::start_with_send_limit(version, LIMIT).await;
    rig.import(&[Image::new(&[UNUSED], &[Layer::busybox()])]).await;
    let mut newest = Vec::new();
    for number in 0..PODS {
        let pod = rig.pod("default", &format!("web-{number}"), &format!("uid-{number}")).await;
        let times = u32::try_from(dead / PODS).unwrap();
        newest.extend(pod.created_again_and_again("app", times).await.pop());
    }
    let plain = rig.runtime().list_containers(pb::ListContainersRequest::default()).await.unwrap_err();
    assert_eq!(plain.code(), Code::ResourceExhausted, "{plain:?}");

    let plan = rig.kubegc_within(PATIENCE, &with_settings(&["plan", "-o", "json"])).ok().json();
    let note = &plan["lists"][0];
    assert_eq!((note["list"].as_str(), note["complete"].as_bool()), (Some("containers"), Some(true)), "{note}");
    let status = rig.kubegc_within(PATIENCE, &with_settings(&["status"]));
    assert_eq!(status.code, 1, "no agent runs: {status:#?}");
    assert!(status.stdout.contains("Warning:") && status.stdout.contains("larger than max"), "{status:#?}");

    rig.kubegc_within(PATIENCE, &with_settings(&["collect"])).ok();
    let mut left: Vec<_> = rig.list_containers().await.into_iter().map(|container| container.id).collect();
    left.sort();
    newest.sort();
    assert_eq!(left, newest, "the newest instance of each container remains");
    rig.kubegc(&with_settings(&["collect"])).ok();
    let images = rig.list_images().await;
    assert!(images.iter().all(|image| !image.repo_tags.iter().any(|tag| tag == UNUSED)), "{images:?}");
    let plan = rig.kubegc(&with_settings(&["plan", "-o", "json"])).ok().json();
    assert!(plan.get("lists").is_none(), "the list fits into one message again: {plan}");
}

fn with_settings<'a>(args: &[&'a str]) -> Vec<&'a str> {
    [args, &SETTINGS].concat()
}
