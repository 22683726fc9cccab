//! Removed images that are restored from the leases that kept them.

use std::process::Command;

use jiff::SignedDuration;
use kubegc::cri::{CriOptions, InProgress, RuntimeReader, RuntimeWriter};
use kubegc::model::PullRecord;
use serde_json::Value as Json;

use crate::rig::{Image, Layer, Registry, Rig, Version, becomes_true, run};

/// The settings of all passes. A rule removes all images of builds.
const SETTINGS: [&str; 5] = [
    "--set=images.min_age=0s",
    "--set=guards.settle=0s",
    "--set=pods.source=none",
    "--set=images.undo=24h",
    "--set=rule=[{name = 'builds', for = 'image', when = \"image.repository.startsWith('docker.io/build/')\", then = 'remove'}]",
];

/// A rule that removes the images of builds of any registry.
const ALL_BUILDS: &str =
    "--set=rule=[{name = 'builds', for = 'image', when = \"image.repository.contains('/build/')\", then = 'remove'}]";

#[tokio::test]
async fn a_removed_image_is_restored_on_1_6() {
    a_removed_image_is_restored(Version::V1_6).await;
}

#[tokio::test]
async fn a_removed_image_is_restored_on_1_7() {
    a_removed_image_is_restored(Version::V1_7).await;
}

#[tokio::test]
async fn a_removed_image_is_restored_on_2() {
    a_removed_image_is_restored(Version::V2).await;
}

async fn a_removed_image_is_restored(version: Version) {
    let rig = Rig::start_on_small_disk(version, 512).await;
    rig.import(&[
        image("a", &["docker.io/build/a:1", "docker.io/build/a:stable"]),
        image("b", &["docker.io/build/b:1"]),
    ])
    .await;
    let before = rig.used_percent();
    explains_the_disk(&rig, "imported");
    collect(&rig, &[]);
    explains_the_disk(&rig, "removed");
    assert_eq!(builds(&rig).await, Vec::<String>::new(), "for the CRI they are gone");
    assert!(rig.used_percent() > before - 2.0, "their content is kept: {before} % and {} %", rig.used_percent());
    let kept = kept_for_undo(&rig);
    assert!((110 << 20..140 << 20).contains(&kept), "{kept} bytes of two images of 60 MiB on the disk");
    let history = rig.kubegc(&["history", "--kind=image"]).ok().stdout;
    assert!(history.contains("kept for undo until "), "{history}");
    assert_eq!(kubegc(&rig, &["undo"]).ok().stdout.lines().count(), 3, "a header and two images");

    kubegc(&rig, &["undo", "build/a:stable"]).ok();
    explains_the_disk(&rig, "one restored");
    assert_eq!(builds(&rig).await, ["docker.io/build/a:1", "docker.io/build/a:stable"]);
    rig.pod("default", "web-0", "uid-web").await.with_image("docker.io/build/a:1").created("app").await;
    let again = kubegc(&rig, &["undo", "build/a:1"]);
    assert_eq!((again.code, again.stderr.contains("no such removal is kept for undo")), (2, true), "{}", again.stderr);

    kubegc(&rig, &["undo", "--last"]).ok();
    assert_eq!(builds(&rig).await.len(), 3);
    assert_eq!((leases(&rig), kept_for_undo(&rig)), (Vec::new(), 0), "what is restored needs no lease");
    explains_the_disk(&rig, "all restored");
}

/// The kubelet's record of the pull stays where it is. Without it any pod could use the image, so the image does not come back (I21).
#[tokio::test]
async fn i21_an_image_comes_back_only_with_its_pull_record() {
    let rig = Rig::start_with_leftovers(Version::V2, 512).await;
    rig.import(&[image("a", &["docker.io/build/a:1"]), image("b", &["docker.io/build/b:1"])]).await;
    let images = rig.list_images().await;
    let of_a = images.iter().find(|image| image.repo_tags == ["docker.io/build/a:1"]).unwrap();
    let record = rig.dir().join("kubelet/image_manager/pulled").join(PullRecord::file_name(&of_a.id));
    std::fs::create_dir_all(record.parent().unwrap()).unwrap();
    std::fs::write(&record, "{}").unwrap();
    collect(&rig, &["--set=leftovers.remove=pull_record"]);
    collect(&rig, &["--set=leftovers.remove=pull_record"]);
    assert!(record.exists() && builds(&rig).await.is_empty());
    let elsewhere = record.with_extension("old");
    std::fs::rename(&record, &elsewhere).unwrap();
    let all = kubegc(&rig, &["undo", "--last"]);
    assert_eq!((all.code, builds(&rig).await), (1, vec!["docker.io/build/b:1".to_owned()]), "{}", all.stderr);
    assert!(all.stderr.contains("record of its pull is not there any more"), "{}", all.stderr);
    std::fs::rename(&elsewhere, &record).unwrap();
    kubegc(&rig, &["undo", "build/a:1"]).ok();
    assert_eq!((builds(&rig).await.len(), std::fs::read_to_string(record).unwrap()), (2, "{}".to_owned()));
}

#[tokio::test]
async fn leases_go_before_images_where_space_is_needed_on_1_6() {
    leases_go_before_images_where_space_is_needed(Version::V1_6).await;
}

#[tokio::test]
async fn leases_go_before_images_where_space_is_needed_on_2() {
    leases_go_before_images_where_space_is_needed(Version::V2).await;
}

/// The disk has 60 MiB of each of two removed images, and of one that is unused. One lease is enough.
async fn leases_go_before_images_where_space_is_needed(version: Version) {
    let rig = Rig::start_on_small_disk(version, 512).await;
    for name in ["old", "new"] {
        rig.import(&[image(name, &[&format!("docker.io/build/{name}:1")])]).await;
        collect(&rig, &[]);
    }
    rig.import(&[image("unused", &["docker.io/other/unused:1"])]).await;
    let [old, new] = &leases(&rig)[..] else { panic!("{:?}", leases(&rig)) };
    let full = rig.used_percent();
    assert!((35.0..50.0).contains(&full), "{full} % used");

    let [high, low] = thresholds(full, 6.0);
    let plan = kubegc(&rig, &[&["plan"], &SETTINGS[..4], &[&high, &low]].concat()).ok().stdout;
    assert!(plan.contains("image kept for undo"), "{plan}");
    collect(&rig, &[&high, &low]);
    assert_eq!(leases(&rig), std::slice::from_ref(new), "the oldest, {old}, and no more");
    explains_the_disk(&rig, "a lease deleted");
    assert!(rig.used_percent() < full - 6.0, "{} % used", rig.used_percent());
    let has = rig.list_images().await.iter().any(|image| image.repo_tags == ["docker.io/other/unused:1"]);
    assert!(has, "no image was removed");

    // An image that a rule removes while space is needed is removed for good.
    rig.import(&[image("late", &["docker.io/build/late:1"])]).await;
    let full = rig.used_percent();
    let [high, low] = thresholds(full, 20.0);
    collect(&rig, &[&high, &low]);
    assert_eq!(leases(&rig), Vec::<String>::new());
    assert!(rig.used_percent() < full - 20.0, "{} % used", rig.used_percent());
}

/// 100 images of a registry are removed, and 20 of them are pulled again: the registry sends no blob.
#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_is_kept_for_undo_is_pulled_again_without_its_blobs() {
    let rig = Rig::start(Version::V2).await;
    let registry = Registry::start("127.0.0.1").await;
    let names: Vec<_> = (0..100).map(|number| registry.name(&format!("build/i{number}"))).collect();
    for name in &names {
        registry.push(&Image::new(&[name], &[Layer::small_files(name, 1, 4096)]));
        pull(&rig, name).await;
    }
    assert_eq!(registry.blobs(), 200, "a configuration and a layer of each");
    kubegc(&rig, &[&["collect"], &SETTINGS[..4], &[ALL_BUILDS]].concat()).ok();
    assert_eq!(rig.list_images().await.len(), 2, "those of the rig");
    assert_eq!(leases(&rig).len(), 100);
    for name in &names[..20] {
        pull(&rig, name).await;
    }
    assert_eq!((rig.list_images().await.len(), registry.blobs()), (22, 200));
    drop(registry);
    kubegc(&rig, &["undo", &names[50]]).ok();
    assert_eq!(rig.list_images().await.len(), 23, "no registry is needed");
}

/// Pulls an image, and waits until the CRI lists it.
async fn pull(rig: &Rig, name: &str) {
    pull_without_waiting(rig, name);
    let is_listed = async || rig.list_images().await.iter().any(|image| image.repo_tags.iter().any(|tag| tag == name));
    assert!(becomes_true(is_listed).await, "{name}");
}

/// Something pulls each image while it is restored.
#[tokio::test(flavor = "multi_thread")]
async fn images_are_restored_while_they_are_pulled() {
    let rig = Rig::start(Version::V2).await;
    let registry = Registry::start("127.0.0.1").await;
    let names: Vec<_> = (0..8).map(|number| registry.name(&format!("build/i{number}"))).collect();
    for name in &names {
        registry.push(&Image::new(&[name], &[Layer::busybox(), Layer::small_files(name, 1, 4096)]));
        pull(&rig, name).await;
    }
    let blobs = registry.blobs();
    kubegc(&rig, &[&["collect"], &SETTINGS[..4], &[ALL_BUILDS]].concat()).ok();
    std::thread::scope(|threads| {
        let pulls = threads.spawn(|| names.iter().for_each(|name| pull_without_waiting(&rig, name)));
        let restored: Vec<_> = names.iter().map(|name| kubegc(&rig, &["undo", name])).collect();
        pulls.join().unwrap();
        for ran in restored {
            ran.ok();
        }
    });
    assert_eq!((rig.list_images().await.len(), registry.blobs()), (names.len() + 2, blobs));
    assert_eq!(leases(&rig), Vec::<String>::new());
    for (number, name) in names.iter().enumerate() {
        rig.pod("default", &format!("web-{number}"), &format!("uid-{number}"))
            .await
            .with_image(name)
            .created("app")
            .await;
    }
}

fn pull_without_waiting(rig: &Rig, name: &str) {
    rig.ctr(&["images", "pull", "--local", "--plain-http", "--snapshotter", "overlayfs", name]);
}

/// A kill between the lease and the removal leaves a lease on an image that is still there.
#[tokio::test]
async fn a_lease_without_a_removal_does_no_harm_and_ends_by_itself() {
    let rig = Rig::start(Version::V2).await;
    rig.import(&[image("a", &["docker.io/build/a:1"])]).await;
    let endpoint = rig.endpoint();
    let reader = RuntimeReader::new(&endpoint, &endpoint, CriOptions::default());
    let writer = RuntimeWriter::new(&reader, &InProgress::default());
    let listed = reader.image("docker.io/build/a:1").await.unwrap().unwrap();
    let now = kubegc::daemon::now();
    writer.keep_for_undo(&listed, now, now + SignedDuration::from_hours(1), false).await.unwrap();
    kubegc(&rig, &["undo", "build/a:1"]).ok();
    assert_eq!((builds(&rig).await.len(), leases(&rig).len()), (1, 0), "it was there, and the lease is gone");

    writer.keep_for_undo(&listed, now, now + SignedDuration::from_millis(1), false).await.unwrap();
    assert_eq!(kubegc(&rig, &["undo"]).ok().stdout, "no removed image is kept for undo\n", "it has ended");
    // containerd deletes leases that have ended with its next collection.
    let ended = async || {
        writer.collect_garbage(kubegc::daemon::now() + SignedDuration::from_hours(1)).await.unwrap();
        leases(&rig).is_empty()
    };
    assert!(becomes_true(ended).await, "{:?}", leases(&rig));
    assert_eq!(builds(&rig).await.len(), 1);
}

/// An image of 60 MiB on the disk: 30 as a blob, and unpacked.
fn image(name: &str, tags: &[&str]) -> Image {
    Image::new(tags, &[Layer::busybox(), Layer::filled(name, 30)])
}

/// Returns the thresholds at which a disk that is so full must free so many percent.
fn thresholds(full: f64, less: f64) -> [String; 2] {
    let percent = |of: f64| format!("{:.0}", of.floor());
    [
        format!("--set=images.high_threshold_percent={}", percent(full)),
        format!("--set=images.low_threshold_percent={}", percent(full - less)),
    ]
}

fn collect(rig: &Rig, args: &[&str]) {
    kubegc(rig, &[&["collect"], &SETTINGS[..], args].concat()).ok();
}

fn kubegc(rig: &Rig, args: &[&str]) -> crate::rig::Ran {
    rig.kubegc(args)
}

/// Returns the names of the images of builds that the CRI lists.
async fn builds(rig: &Rig) -> Vec<String> {
    let tags = rig.list_images().await.into_iter().flat_map(|image| image.repo_tags);
    let mut builds: Vec<_> = tags.filter(|tag| tag.starts_with("docker.io/build/")).collect();
    builds.sort();
    builds
}

/// Returns the names of the leases for undo, oldest first.
fn leases(rig: &Rig) -> Vec<String> {
    let lines = rig.ctr(&["leases", "list"]);
    let mut leases: Vec<_> = lines.lines().filter(|line| line.starts_with("kubegc-undo-")).collect();
    leases.sort_by_key(|line| line.split_once("undo.pass=").map(|(_, pass)| pass.to_owned()));
    leases.into_iter().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

/// An image is removed and restored again and again: its records are as before, and it has one lease.
#[tokio::test]
async fn a_restored_image_has_its_labels_and_one_lease() {
    let rig = Rig::start(Version::V2).await;
    let name = "docker.io/build/a:1";
    rig.import(&[Image::new(&[name], &[Layer::busybox(), Layer::small_files("a", 1, 4096)])]).await;
    rig.ctr(&["images", "label", name, "team=shop", "example.com/of=a long text, with commas"]);
    let labels = || {
        let lines = rig.ctr(&["images", "list", &format!("name=={name}")]);
        lines.lines().last().unwrap().split_whitespace().skip(5).collect::<Vec<_>>().join(" ")
    };
    let before = labels();
    assert!(before.contains("team=shop") && before.contains("io.cri-containerd.image=managed"), "{before}");
    collect(&rig, &[]);
    kubegc(&rig, &["undo", "build/a:1"]).ok();
    assert_eq!((labels(), leases(&rig)), (before, Vec::new()));
    let plan = kubegc(&rig, &[&["plan", "-o", "wide"], &SETTINGS[..]].concat()).ok().stdout;
    assert!(plan.contains("pulled again"), "what a person restored is kept: {plan}");
    for _ in 0..2 {
        kubegc(&rig, &[&["collect", &format!("image/{name}")], &SETTINGS[..4]].concat()).ok();
        assert_eq!((builds(&rig).await.len(), leases(&rig).len()), (0, 1), "one lease, however often");
        rig.import(&[Image::new(&[name], &[Layer::busybox(), Layer::small_files("a", 1, 4096)])]).await;
    }
    let history = kubegc(&rig, &["history"]).ok().stdout;
    assert!(history.contains("restored"), "{history}");
    assert_eq!(kubegc(&rig, &["history", "--pulled-again"]).ok().stdout, "no entry matches\n", "{history}");
    kubegc(&rig, &["undo", "build/a:1"]).ok();
    assert_eq!((builds(&rig).await.len(), leases(&rig).len()), (1, 0));
}

/// Returns the bytes of the category in the account of the disk.
fn kept_for_undo(rig: &Rig) -> u64 {
    bytes_of(&account(rig), "kept_for_undo")
}

/// The categories of the account are what `du` counts, except for 2 %: the runtime's database and directories.
fn explains_the_disk(rig: &Rig, step: &str) {
    let account = account(rig);
    let all: u64 = account["categories"].as_array().unwrap().iter().map(|entry| entry["bytes"].as_u64().unwrap()).sum();
    let explained = all - bytes_of(&account, "not_of_the_runtime") - bytes_of(&account, "reserved_blocks");
    let du = run(Command::new("du").args(["-sx", "--block-size=1"]).arg(rig.dir().join("containerd")));
    let du: u64 = du.split_whitespace().next().unwrap().parse().unwrap();
    assert!(explained.abs_diff(du) * 50 <= du, "{step}: {explained} of {du} bytes: {account:#}");
}

fn account(rig: &Rig) -> Json {
    let roots = rig.roots_on_its_disk();
    let roots = roots.each_ref().map(String::as_str);
    rig.kubegc(&[&["disk", "-o", "json", "--set=pods.source=none"], &roots[..]].concat()).ok().json()
}

fn bytes_of(account: &Json, category: &str) -> u64 {
    let categories = account["categories"].as_array().unwrap();
    let entry = categories.iter().find(|entry| entry["category"] == category);
    entry.map_or(0, |entry| entry["bytes"].as_u64().unwrap())
}
