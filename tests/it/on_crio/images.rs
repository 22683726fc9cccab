//! The removal of images.

use serde_json::Value as Json;

use crate::rig::{APP, Image, Layer, Rig};

const SETTINGS: [&str; 3] = ["--set=pods.source=none", "--set=guards.settle=0s", "--set=images.min_age=0s"];

/// An image whose inodes are not known would be as good as one without any.
#[tokio::test]
async fn a_target_in_inodes_plans_no_more_than_it_needs() {
    let rig = Rig::start_crio_on_small_disk(512).await;
    for name in ["a", "b", "c"] {
        let tag = format!("docker.io/library/{name}:1");
        rig.import(&[Image::new(&[&tag], &[Layer::busybox(), Layer::small_files(name, 4000, 10)])]).await;
    }
    let target = "--set=images.targets=['inodes 30%..25%']"; // of 32,768: about 37 % are used
    let plan = rig.kubegc(&with(&["plan", target, "-o", "json"])).json();
    assert_eq!(plan["images"]["triggered_by"], "inodes_percent", "{:#}", plan["images"]);
    assert_eq!(planned(&plan).len(), 1, "{:#}", plan["actions"]);
    rig.kubegc(&with(&["collect", target])).ok();
    assert_eq!(tags(&rig).await.len(), 4);
}

/// The store shows who uses an image. Its disk usage is below all thresholds.
#[tokio::test]
async fn why_names_the_other_client_that_uses_an_image() {
    let rig = Rig::start_crio(&[]).await;
    let other = rig.container_of_another_client(APP, "theirs");
    let why = rig.kubegc(&with(&["why", APP])).ok();
    assert!(why.stdout.contains(&format!("container {other} ")), "{why:#?}");
    let disk = rig.kubegc(&with(&["disk"])).ok();
    assert!(!disk.stdout.contains("compressed blobs"), "CRI-O has none: {disk:#?}");
    rig.kubegc(&with(&["collect", "--set=images.all_unused=true"])).ok();
    assert!(tags(&rig).await.contains(&APP.to_owned()));
}

fn planned(plan: &Json) -> Vec<&Json> {
    plan["actions"].as_array().unwrap().iter().filter(|action| action["action"] == "remove_image").collect()
}

async fn tags(rig: &Rig) -> Vec<String> {
    rig.list_images().await.into_iter().flat_map(|image| image.repo_tags).collect()
}

fn with<'a>(args: &[&'a str]) -> Vec<&'a str> {
    [args, &SETTINGS].concat()
}
