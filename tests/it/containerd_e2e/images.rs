//! Image removal on a disk that is really full.

use crate::rig::{APP, Image, Layer, Rig, Version};

/// The image of a container that always runs.
const IN_USE: &str = "docker.io/library/in-use:1";
/// The other images, least recently used first. `m` and `x` share their largest layer.
const BY_USE: [&str; 6] = [
    "docker.io/library/m:1",
    "docker.io/library/d:1",
    "docker.io/library/x:1",
    "docker.io/library/a:1",
    "docker.io/library/k:1",
    "docker.io/library/b:1",
];

#[tokio::test]
async fn image_removal_reaches_the_low_threshold_on_1_6() {
    images_are_removed_from_a_full_disk_down_to_the_low_threshold(Version::V1_6).await;
}

#[tokio::test]
async fn image_removal_reaches_the_low_threshold_on_1_7() {
    images_are_removed_from_a_full_disk_down_to_the_low_threshold(Version::V1_7).await;
}

#[tokio::test]
async fn image_removal_reaches_the_low_threshold_on_2() {
    images_are_removed_from_a_full_disk_down_to_the_low_threshold(Version::V2).await;
}

async fn images_are_removed_from_a_full_disk_down_to_the_low_threshold(version: Version) {
    let rig = Rig::start_on_small_disk(version, 512).await;
    import(&rig).await;
    use_in_turn(&rig).await;
    let full = rig.used_percent();
    assert!((80.0..90.0).contains(&full), "{full} % used");
    let names = rig.names().await;

    collect(&rig, &["--set=images.high_threshold_percent=80", "--set=images.low_threshold_percent=55"]);
    // `app` is used least recently, but all of its layers are those of an image in use. `m` and `d` are not enough: `m` reclaims
    // little while `x` has the same layer. The removal of `x` reclaims that layer too.
    let used = rig.used_percent();
    assert!((45.0..55.0).contains(&used), "{used} % used");
    let removed: Vec<_> = rig.removed_images().iter().map(|id| names.of(id).to_owned()).collect();
    let expected = [BY_USE[0], BY_USE[1], BY_USE[2]].map(|tag| format!("image {tag}"));
    assert_eq!(removed, expected, "the least recently used that reclaim something, and no more than needed");
    assert!(names_of(&rig).await.contains(&APP.to_owned()));
}

async fn names_of(rig: &Rig) -> Vec<String> {
    rig.list_images().await.into_iter().flat_map(|image| image.repo_tags).collect()
}

/// Imports images of 60 MiB on disk each; of `m` and `x` together 108, of which 60 are shared.
async fn import(rig: &Rig) {
    let busybox = Layer::busybox();
    let shared = Layer::filled("shared", 30);
    for tag in BY_USE.into_iter().chain([IN_USE]) {
        let layers = match tag {
            "docker.io/library/m:1" | "docker.io/library/x:1" => {
                vec![busybox.clone(), shared.clone(), Layer::filled(tag, 12)]
            }
            _ => vec![busybox.clone(), Layer::filled(tag, 30)],
        };
        rig.import(&[Image::new(&[tag], &layers)]).await;
    }
}

/// Runs one image after the other, with a pass during each that records it as in use.
async fn use_in_turn(rig: &Rig) {
    let mut pod = rig.pod("default", "web-0", "uid-web").await.with_image(IN_USE);
    pod.running("always").await;
    for tag in BY_USE {
        pod = pod.with_image(tag);
        let container = pod.created("for-a-while").await;
        collect(rig, &["--set=images.high_threshold_percent=100"]);
        rig.remove_container(&container).await;
    }
}

fn collect(rig: &Rig, args: &[&str]) {
    let settings = ["collect", "--set=images.min_age=0s", "--set=guards.settle=0s", "--set=pods.source=none"];
    rig.kubegc(&[&settings, args].concat()).ok();
}

#[tokio::test]
async fn an_image_that_was_pulled_again_is_known_and_kept_on_1_6() {
    an_image_that_was_pulled_again_is_known_and_kept(Version::V1_6).await;
}

#[tokio::test]
async fn an_image_that_was_pulled_again_is_known_and_kept_on_2() {
    an_image_that_was_pulled_again_is_known_and_kept(Version::V2).await;
}

/// A rule removes an image, which is pulled again. Another image that then has the same tag does not count as pulled again.
async fn an_image_that_was_pulled_again_is_known_and_kept(version: Version) {
    let rig = Rig::start(version).await;
    let image = |tag| Image::new(&[tag], &[Layer::busybox()]);
    rig.import(&["docker.io/build/a:1", "docker.io/build/b:1"].map(image)).await;
    let rule = "--set=rule=[{name = 'builds', for = 'image', when = \"image.repository.startsWith('docker.io/build/')\", then = 'remove'}]";
    let metrics = rig.dir().join("kubegc.prom");
    let metrics = format!("--metrics-file={}", metrics.display());
    collect(&rig, &[rule, &metrics]);
    assert_eq!(rig.removed_images().len(), 2);
    let other = Image::built("2021-01-01", &["docker.io/build/b:1"], &[Layer::busybox()]);
    let a = image("docker.io/build/a:1");
    let id = a.id();
    rig.import(&[a, other]).await;
    collect(&rig, &[rule, &metrics]);

    let history = rig.kubegc(&["history", "--pulled-again", "-o", "json"]).ok();
    let entry: serde_json::Value = serde_json::from_str(&history.stdout).expect("one entry");
    assert_eq!((&entry["id"], &entry["rule"]), (&id.into(), &"builds".into()), "{entry}");
    assert_eq!(names_of(&rig).await.iter().filter(|name| name.contains("/build/")).count(), 1, "b was removed again");
    let why = rig
        .kubegc(&["why", "docker.io/build/a:1", rule, "--set=pods.source=none", "--set=guards.settle=0s"])
        .ok()
        .stdout;
    assert!(
        why.contains("(rule \"builds\"), pulled again after ")
            && why.contains("keep: it was pulled again after its removal"),
        "{why}"
    );
    let counted = std::fs::read_to_string(rig.dir().join("kubegc.prom")).unwrap();
    assert!(counted.contains("kubegc_images_pulled_again_total{reason=\"rule\"} 1"), "{counted}");
}
