//! Passes over a node with pods in every state.

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;

use kubegc::cri::generated as pb;
use serde_json::{Value, json};

use crate::rig::{Image, Layer, Names, Rig, Version};

/// Pods as the runtime lists them, and ages that a test can wait for.
pub const SETTINGS: [&str; 6] = [
    "--set=pods.source=runtime",
    "--set=guards.gone_after=1ms",
    "--set=guards.sandbox_grace=0s",
    "--set=guards.settle=0s",
    "--set=images.min_age=0s",
    "--set=images.all_unused=true",
];

/// What no pass may remove, and the sandbox image.
pub const STAYS: [&str; 25] = [
    // A running pod, with the newest instance of a crashed container and one container that may be about to start.
    "container web-0/app#0 running",
    "container web-0/sidecar#3 exited",
    "container web-0/late#0 created",
    "sandbox web-0#0 ready",
    "dir default_web-0_uid-web",
    "file default_web-0_uid-web/app/0.log",
    "file default_web-0_uid-web/sidecar/3.log",
    "link to default_web-0_uid-web/app/0.log",
    "link to default_web-0_uid-web/sidecar/3.log",
    "link to default_web-0_uid-web/late/0.log",
    "image docker.io/library/app:1",
    "image docker.io/library/sidecar:1",
    // A pod in its second sandbox.
    "container db-0/app#0 running",
    "sandbox db-0#1 ready",
    "dir default_db-0_uid-db",
    "file default_db-0_uid-db/app/0.log",
    "link to default_db-0_uid-db/app/0.log",
    // Nothing of it runs, but one of its containers may be about to start.
    "container half-0/app#0 created",
    "sandbox half-0#0 notready",
    "dir default_half-0_uid-half",
    "link to default_half-0_uid-half/app/0.log",
    // Not created by a kubelet.
    "container other/job#0 exited",
    "sandbox other#0 notready",
    "dir lost+found",
    "link to /nowhere",
];

/// What the first pass removes.
const FIRST: [&str; 12] = [
    "container web-0/sidecar#0 exited",
    "container web-0/sidecar#1 exited",
    "container web-0/sidecar#2 exited",
    "file default_web-0_uid-web/sidecar/0.log",
    "file default_web-0_uid-web/sidecar/1.log",
    "file default_web-0_uid-web/sidecar/2.log",
    "link to default_web-0_uid-web/sidecar/0.log",
    "link to default_web-0_uid-web/sidecar/1.log",
    "link to default_web-0_uid-web/sidecar/2.log",
    "sandbox db-0#0 notready",
    "link to default_older-0_uid-older/app/0.log",
    "image docker.io/library/unused:1 docker.io/library/unused:2",
];

/// What a later pass removes, when the pod is proven deleted.
pub const SECOND: [&str; 10] = [
    "container job-0/work#0 exited",
    "container job-0/helper#0 exited",
    "sandbox job-0#0 notready",
    "dir default_job-0_uid-job",
    "file default_job-0_uid-job/work/0.log",
    "file default_job-0_uid-job/helper/0.log",
    "link to default_job-0_uid-job/work/0.log",
    "link to default_job-0_uid-job/helper/0.log",
    "dir default_old-0_uid-old",
    "file default_old-0_uid-old/app/0.log",
];

/// What is unused after the second pass.
const THIRD: [&str; 2] = ["link to default_old-0_uid-old/app/0.log", "image docker.io/library/job:1"];

#[tokio::test]
async fn only_unneeded_objects_are_removed_on_1_6() {
    only_objects_without_a_reason_to_stay_are_removed(Version::V1_6, &STAYS, &SECOND).await;
}

#[tokio::test]
async fn only_unneeded_objects_are_removed_on_1_7() {
    only_objects_without_a_reason_to_stay_are_removed(Version::V1_7, &STAYS, &SECOND).await;
}

#[tokio::test]
async fn only_unneeded_objects_are_removed_on_2() {
    only_objects_without_a_reason_to_stay_are_removed(Version::V2, &STAYS, &SECOND).await;
}

/// Makes passes over a node. `stays` are the names of what no pass removes, `second` of what the second removes.
pub async fn only_objects_without_a_reason_to_stay_are_removed(
    version: Version,
    stays: &[&'static str],
    second: &[&'static str],
) {
    let rig = Rig::start(version).await;
    fill(&rig).await;
    let sandbox_image = format!("image {}", version.sandbox_image());
    let names = |parts: &[&[&'static str]]| -> BTreeSet<String> {
        let names = parts.concat().into_iter().map(str::to_owned);
        names.chain([sandbox_image.clone()]).collect()
    };
    assert_eq!(rig.names().await.words(), names(&[stays, &FIRST, second, &THIRD]), "before");
    nothing_changes_in_a_dry_run(&rig).await;
    for left in [names(&[stays, second, &THIRD]), names(&[stays, &THIRD]), names(&[stays])] {
        let before = rig.names().await;
        let plan = rig.kubegc(&with_settings(&["plan", "-o", "json"])).ok().json();
        rig.kubegc(&with_settings(&["collect"])).ok();
        let after = rig.names().await;
        assert_eq!(after.words(), left);
        let gone: BTreeSet<_> =
            before.missing_in(&after).into_iter().filter(|name| is_planned_by_itself(name)).collect();
        assert_eq!(planned(&plan, &before), gone, "what is planned goes, and nothing else");
    }
    let plan = rig.kubegc(&with_settings(&["plan", "-o", "json"])).ok().json();
    assert_eq!(plan["actions"], json!([]), "nothing is left to do");
}

async fn nothing_changes_in_a_dry_run(rig: &Rig) {
    let before = rig.contents().await;
    rig.kubegc(&with_settings(&["plan"])).ok();
    rig.kubegc(&with_settings(&["collect", "--dry-run"])).ok();
    assert_eq!(rig.changes_since(&before).await, Vec::<String>::new());
    assert!(!rig.dir().join("state/kubegc.db").exists(), "nothing is remembered");
}

/// A container that someone removes, as with `crictl rm`, leaves its log: a crash loop leaves one for each restart.
#[tokio::test]
async fn the_logs_of_instances_that_someone_removed_are_kept_unless_a_setting_removes_them() {
    let rig = Rig::start(Version::V2).await;
    let pod = rig.pod("default", "web-0", "uid-web").await;
    let loops = pod.crash_looped("app", 5).await;
    let rotated = pod.log_dir().join("app/1.log.20261122-120000.gz");
    std::fs::write(&rotated, "an old line").unwrap();
    for id in &loops[..3] {
        let request = pb::RemoveContainerRequest { container_id: id.clone() };
        rig.runtime().remove_container(request).await.unwrap();
    }
    let log = |attempt| pod.log_file("app", attempt);
    let hour_ago = std::time::SystemTime::now() - std::time::Duration::from_hours(1);
    for old in [log(0), log(1), log(2), rotated.clone()] {
        std::fs::File::options().append(true).open(old).unwrap().set_modified(hour_ago).unwrap();
    }
    let plan = rig.kubegc(&with_settings(&["plan", "-o", "json"])).ok().json();
    let logs = |plan: &Value| {
        plan["actions"].as_array().unwrap().iter().filter(|it| it["action"] == "remove_log_file").count()
    };
    assert_eq!(logs(&plan), 0, "the pod exists: {plan:#}");

    let plan = rig.kubegc(&with_age(&["plan", "-o", "json"])).ok().json();
    let actions = plan["actions"].as_array().unwrap();
    let files: Vec<_> = actions.iter().filter(|action| action["action"] == "remove_log_file").collect();
    let expected = [0, 1, 2].map(|attempt| json!(log(attempt)));
    assert_eq!(files.iter().map(|action| action["path"].clone()).collect::<Vec<_>>(), expected);
    assert!(files.iter().all(|action| action["reason"] == "over_max_per_pod_container"), "{files:?}");
    let why = rig.kubegc(&with_age(&["why", log(1).to_str().unwrap(), "-o", "json"])).ok().json();
    let decisions: Vec<_> = why.as_array().unwrap().iter().map(|found| (&found["kind"], &found["decision"])).collect();
    assert_eq!(decisions, [(&json!("log_dir"), &json!("keep")), (&json!("log_file"), &json!("remove"))], "{why:#}");
    rig.kubegc(&with_age(&["collect"])).ok();
    let left = [0, 1, 2, 3, 4].map(|attempt| log(attempt).exists());
    assert_eq!((left, rotated.exists()), ([false, false, false, false, true], false));
    let plan = rig.kubegc(&with_age(&["plan", "-o", "json"])).ok().json();
    assert_eq!(logs(&plan), 0, "{plan:#}");
    let history = rig.kubegc(&with_age(&["history", "--kind", "log-file", "-o", "json"])).ok();
    assert_eq!(history.lines().count(), 3);
}

/// Creates pods in every state, and objects of other pods.
async fn fill(rig: &Rig) {
    let image = |tags: &[&str]| Image::new(tags, &[Layer::busybox()]);
    let library = |name: &str| format!("docker.io/library/{name}");
    let (sidecar, job) = (library("sidecar:1"), library("job:1"));
    rig.import(&[image(&[&sidecar]), image(&[&job]), image(&[&library("unused:1"), &library("unused:2")])]).await;

    let web = rig.pod("default", "web-0", "uid-web").await;
    web.running("app").await;
    web.created("late").await;
    web.with_image(&sidecar).crash_looped("sidecar", 4).await;

    let db = rig.pod("default", "db-0", "uid-db").await;
    db.stop_sandbox().await;
    db.again().await.running("app").await;

    let done = rig.pod("default", "job-0", "uid-job").await.with_image(&job);
    done.exited("work", 0).await;
    done.running("helper").await;
    done.stop_sandbox().await;

    let half = rig.pod("default", "half-0", "uid-half").await;
    half.created("app").await;
    half.stop_sandbox().await;

    let other = rig.foreign_pod("other").await;
    other.exited("job", 0).await;
    other.stop_sandbox().await;

    leave_logs(rig);
}

/// Creates logs of pods that are not in the runtime any more, and entries that are no logs.
fn leave_logs(rig: &Rig) {
    let (pods, links) = (rig.pod_logs(), rig.container_logs());
    let old = pods.join("default_old-0_uid-old/app/0.log");
    std::fs::create_dir_all(old.parent().unwrap()).unwrap();
    std::fs::write(&old, "an old line\n").unwrap();
    std::fs::create_dir(pods.join("lost+found")).unwrap();
    let id = |digit: &str| digit.repeat(64);
    symlink(old, links.join(format!("old-0_default_app-{}.log", id("a")))).unwrap();
    let older = pods.join("default_older-0_uid-older/app/0.log");
    symlink(older, links.join(format!("older-0_default_app-{}.log", id("b")))).unwrap();
    symlink("/nowhere", links.join("strange.log")).unwrap();
}

/// Returns the names of what a plan removes.
fn planned(plan: &Value, names: &Names) -> BTreeSet<String> {
    let actions = plan["actions"].as_array().unwrap().iter();
    let keys = actions.map(|action| action["id"].as_str().or(action["path"].as_str()).unwrap());
    keys.map(|key| names.of(key).to_owned()).filter(|name| is_planned_by_itself(name)).collect()
}

/// Says whether a plan lists an object. It never lists log files, and lists a symlink only if it is not removed with a
/// container.
fn is_planned_by_itself(name: &str) -> bool {
    !name.starts_with("file ") && !name.starts_with("link ")
}

fn with_settings<'a>(args: &[&'a str]) -> Vec<&'a str> {
    [args, &SETTINGS].concat()
}

fn with_age<'a>(args: &[&'a str]) -> Vec<&'a str> {
    [&with_settings(args), &["--set", "logs.leftover_max_age=1m"][..]].concat()
}
