//! The sizes in the account of the image file system, compared with those of the files on the disk.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use serde_json::{Value as Json, json};

use crate::rig::{APP, Image, Layer, Rig};

const MIB: u64 = 1 << 20;
/// An image of many small files: their blocks are four times their contents.
const SMALL: &str = "docker.io/library/small-files:1";

/// CRI-O measures the layers of running containers only.
#[tokio::test]
async fn the_layer_of_a_dead_container_has_its_size() {
    let rig = Rig::start_crio_on_small_disk(256).await;
    let pod = rig.pod("shop", "web-0", "uid-web").await;
    let id = pod.having_written("app", 40).await;
    let account = account(&rig);
    assert_eq!(account["missing"], json!([]), "{account:#}");
    let layers = account["writable_layers"].as_array().unwrap();
    let layer = layers.iter().find(|layer| layer["id"] == *id).unwrap();
    assert!((40 * MIB..41 * MIB).contains(&layer["bytes"].as_u64().unwrap()), "{layer:#}");
    assert!(layer["inodes"].as_u64().is_some_and(|inodes| (2..100).contains(&inodes)), "{layer:#}");
    let rule =
        "--set=rule=[{name = 'big', for = 'container', when = 'container.layer_bytes > 30000000', then = 'keep'}]";
    let why = rig.kubegc(&["why", &id, rule, "--set=pods.source=none", "--set=guards.settle=0s"]).ok();
    assert!(why.stdout.contains("\"big\""), "{why:#?}");
}

#[tokio::test]
async fn an_image_of_small_files_has_the_size_of_its_blocks_with_overlay() {
    an_image_of_small_files_has_the_size_of_its_blocks("overlay", "overlay").await;
}

/// Each layer is a full copy of those below it.
#[tokio::test]
async fn an_image_of_small_files_has_the_size_of_its_blocks_with_vfs() {
    an_image_of_small_files_has_the_size_of_its_blocks("vfs", "vfs/dir").await;
}

async fn an_image_of_small_files_has_the_size_of_its_blocks(driver: &str, layers: &str) {
    let driver = format!("storage_driver = \"{driver}\"");
    let rig = Rig::start_crio(&[("storage_driver = \"overlay\"", &driver)]).await;
    let before = blocks(&rig.storage()[0].join(layers));
    rig.import(&[Image::new(&[SMALL], &[Layer::busybox(), Layer::small_files("f", 8000, 100)])]).await;
    let on_disk = blocks(&rig.storage()[0].join(layers)) - before;
    assert!(on_disk > 31 * MIB, "{on_disk}");
    let account = account(&rig);
    let image = account["images"].as_array().unwrap().iter().find(|image| image["name"] == SMALL).unwrap();
    let alone = image["own_bytes"].as_u64().unwrap();
    assert!(alone.abs_diff(on_disk) < MIB, "{alone} bytes, {on_disk} on the disk: {image:#}");
    assert!(image["own_inodes"].as_u64().is_some_and(|inodes| (8000..8100).contains(&inodes)), "{image:#}");
}

/// With `imagestore`, images and their layers are in another directory than containers and their layers, and here on another
/// disk.
#[tokio::test]
async fn a_split_store_has_the_layers_of_containers_and_those_of_other_clients() {
    let rig = Rig::start_crio_with_a_store_of_images(256).await;
    let pod = rig.pod("shop", "web-0", "uid-web").await;
    let id = pod.having_written("app", 10).await;
    let account = account(&rig);
    assert_eq!(account["missing"], json!([]), "{account:#}");
    let layers = account["writable_layers"].as_array().unwrap();
    let layer = layers.iter().find(|layer| layer["id"] == *id).unwrap_or_else(|| panic!("{account:#}"));
    assert!((10 * MIB..11 * MIB).contains(&layer["bytes"].as_u64().unwrap()), "{layer:#}");
    let on_disk = account["categories"].as_array().unwrap().iter().find(|entry| entry["category"] == "writable_layers");
    assert_eq!(on_disk.unwrap()["bytes"], 0, "it is on the other disk: {account:#}");
    let app = account["images"].as_array().unwrap().iter().find(|image| image["name"] == APP).unwrap();
    assert!(app["all_bytes"].as_u64().is_some_and(|bytes| bytes > MIB), "{app:#}");
    rig.import(&[Image::new(&[SMALL], &[Layer::busybox(), Layer::small_files("f", 10, 100)])]).await;
    let other = rig.container_of_another_client(SMALL, "theirs");
    let why = rig.kubegc(&["why", SMALL, "--set=pods.source=none", "--set=guards.settle=0s"]).ok();
    assert!(why.stdout.contains(&format!("container {other} ")), "{why:#?}");
}

fn account(rig: &Rig) -> Json {
    let json = ["disk", "--set=pods.source=none", "--set=guards.settle=0s", "--top=0", "-o", "json"];
    let roots = rig.roots_on_its_disk();
    rig.kubegc(&[&json[..], &roots.each_ref().map(String::as_str)].concat()).ok().json()
}

/// Returns the bytes in blocks of a directory. The mounts of running containers are not in it.
fn blocks(dir: &Path) -> u64 {
    let entries = walkdir::WalkDir::new(dir).same_file_system(true).into_iter();
    entries.map(|entry| entry.unwrap().metadata().unwrap().blocks() * 512).sum()
}
