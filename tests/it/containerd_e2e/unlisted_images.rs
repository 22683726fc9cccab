//! Images whose content was lost, as after a power loss.

use serde_json::Value as Json;

use crate::rig::{Image, Layer, Rig, Version};

const MIB: u64 = 1 << 20;
const DISK: [&str; 3] = ["disk", "--set=pods.source=none", "--top=0"];

#[tokio::test]
async fn an_image_without_its_configuration_is_not_listed_on_1_6() {
    an_image_without_its_configuration_is_not_listed(Version::V1_6).await;
}

#[tokio::test]
async fn an_image_without_its_configuration_is_not_listed_on_1_7() {
    an_image_without_its_configuration_is_not_listed(Version::V1_7).await;
}

#[tokio::test]
async fn an_image_without_its_configuration_is_not_listed_on_2() {
    an_image_without_its_configuration_is_not_listed(Version::V2).await;
}

async fn an_image_without_its_configuration_is_not_listed(version: Version) {
    let rig = Rig::start_on_small_disk(version, 256).await;
    let image = |name: &str| Image::new(&[&format!("docker.io/library/{name}:1")], &[Layer::filled(name, 6)]);
    rig.import(&[image("whole"), image("broken")]).await;
    let listed = rig.list_images().await;
    let broken = listed.iter().find(|image| image.repo_tags.concat().contains("broken")).unwrap();
    let blobs = rig.home().join("root/io.containerd.content.v1.content/blobs/sha256");
    rig.stop();
    std::fs::remove_file(blobs.join(broken.id.trim_start_matches("sha256:"))).unwrap();
    rig.begin().await;

    let account = rig.kubegc(&[&DISK[..], &["-o", "json"]].concat()).ok().json();
    let of = |category: &str| -> (u64, u64) {
        let entries = account["categories"].as_array().unwrap();
        let entry = entries.iter().find(|entry| entry["category"] == category).unwrap();
        (entry["bytes"].as_u64().unwrap(), entry["objects"].as_u64().unwrap())
    };
    let (bytes, objects) = of("unlisted_images");
    assert!((12 * MIB..13 * MIB).contains(&bytes) && objects >= 3, "layer and blobs: {account:#}");
    assert_eq!(of("other_clients"), (0, 0), "{account:#}");
    let is_broken = |part: &&Json| part["category"] == "unlisted_images";
    let mut parts = account["others"].as_array().unwrap().iter().filter(is_broken);
    assert!(parts.all(|part| part["held_by"] == "image docker.io/library/broken:1"), "{account:#}");

    let text = rig.kubegc(&DISK).ok().stdout;
    for part in
        ["images not listed by the CRI", "image docker.io/library/broken:1", "hint: `ctr -n k8s.io images check`"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
}
