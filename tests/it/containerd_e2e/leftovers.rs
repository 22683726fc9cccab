//! What is left over on a node, of each kind, beside pods that are sound.

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

use kubegc::cri::{CriOptions, InProgress, RuntimeReader, RuntimeWriter, SnapshotUsages};
use kubegc::model::PullRecord;
use serde_json::Value as Json;
use tokio::time::Instant;

use super::disk::{ingest, leave_snapshot};
use crate::rig::{Image, Layer, Rig, Version, run};

/// The pods that are sound, each with an address, a termination log and a directory of the kubelet.
const PODS: usize = 30;

#[tokio::test]
async fn containerd_1_6_collects_when_asked() {
    containerd_collects_when_asked(Version::V1_6).await;
}

#[tokio::test]
async fn containerd_1_7_collects_when_asked() {
    containerd_collects_when_asked(Version::V1_7).await;
}

#[tokio::test]
async fn containerd_2_collects_when_asked() {
    containerd_collects_when_asked(Version::V2).await;
}

/// What nothing refers to goes, also what a lease holds that has ended. No lease is left.
async fn containerd_collects_when_asked(version: Version) {
    let rig = Rig::start_with_leftovers(version, 512).await;
    rig.pod("shop", "web-0", "uid-web").await.running("app").await;
    let held = ingest(&rig, "held", 1);
    rig.ctr(&["leases", "create", "--id", "theirs"]);
    rig.lease_blob("theirs", &held).await;
    ingest(&rig, "loose", 1);
    leave_snapshot(&rig, "loose");
    let reader = RuntimeReader::new(&rig.endpoint(), &rig.endpoint(), CriOptions::default());
    let (usages, now) = (SnapshotUsages::default(), jiff::Timestamp::now() + Duration::from_mins(1));
    let unreferenced = async || {
        let store = reader.containerd_store(&usages, false, Instant::now()).await.unwrap();
        assert_eq!(store.missing, [""; 0]);
        store.unreferenced(now).map(|part| part.name.clone()).collect::<Vec<_>>()
    };
    assert!(unreferenced().await.len() >= 2, "{:?}", unreferenced().await);
    let contents = rig.contents().await;
    let writer = RuntimeWriter::new(&reader, &InProgress::default());
    writer.collect_garbage(jiff::Timestamp::now() + Duration::from_hours(1)).await.unwrap();
    assert_eq!(unreferenced().await, [""; 0]);
    assert_eq!(rig.changes_since(&contents).await, [""; 0]);
    let leases = rig.ctr(&["leases", "list", "-q"]);
    assert!(leases.contains("theirs") && !leases.contains("kubegc"), "{leases}");
}

#[tokio::test]
async fn each_kind_is_found_and_nothing_of_sound_pods() {
    let pods = std::env::var("KUBEGC_SOUND_PODS").map_or(PODS, |count| count.parse().unwrap());
    let rig = Rig::start_with_leftovers(Version::V2, 1024).await;
    for number in 0..pods {
        sound_pod(&rig, number).await;
    }
    of_another_client(&rig);
    let expected = leave_all(&rig).await;
    let before = rig.contents().await;
    let plan = rig.kubegc(&["plan", "--kind=leftover", "--set=pods.source=runtime", "-o=json"]).ok().json();
    let mut found: Vec<_> = rows(&plan, "actions").chain(rows(&plan, "kept")).collect();
    found.sort();
    assert_eq!(found, expected, "{plan:#}");
    let rule =
        r#"rule=[{ name = "old", for = "checkpoint", when = "checkpoint.age > duration('30m')", then = "remove" }]"#;
    let settings = ["--scope=containers", "--set=pods.source=runtime", "--set=guards.settle=0s", "--set", rule];
    let collected = rig.kubegc(&[&["collect"], &settings[..]].concat());
    // These containers have no termination logs mounted, so nothing shows which are in use.
    assert!(
        collected.stdout.contains("Removed: 1 leftover") && collected.stdout.contains("1 refused"),
        "{collected:#?}"
    );
    let left: Vec<_> = expected.iter().filter(|path| Path::new(path).symlink_metadata().is_ok()).collect();
    let is_removed = |path: &&String| path.contains("checkpoint-");
    let stays: Vec<_> = expected.iter().filter(|path| !is_removed(path)).collect();
    assert_eq!(left, stays);
    assert_eq!(rig.changes_since(&before).await, [""; 0]);
}

/// A bundle, a mount in it and a shim of a container that nothing has, beside those of a pod that runs.
#[tokio::test]
async fn what_is_left_of_tasks_is_shown_and_nothing_of_sound_pods() {
    for version in [Version::V1_6, Version::V2] {
        let rig = Rig::start_with_leftovers(version, 512).await;
        rig.pod("shop", "web-0", "uid-web").await.running("app").await;
        let roots = rig.roots_on_its_disk();
        let mut arguments = vec!["--set=pods.source=runtime"];
        arguments.extend(roots.iter().map(String::as_str));
        let bundles = rig.home().join("io.containerd.runtime.v2.task/k8s.io");
        assert_eq!(fs::read_dir(&bundles).unwrap().count(), 2, "of the sandbox and the container");
        let account = rig.kubegc(&[&["disk", "-o=json"], &arguments[..]].concat()).ok().json();
        assert!(account["tasks"].is_null(), "{account:#}");
        let bundle = bundles.join("ab12");
        fs::create_dir_all(bundle.join("rootfs")).unwrap();
        let mut shim = shim(&rig, "ab12");
        let of_another = shim_at("/run/docker/containerd/containerd.sock", "cd34");
        let shown = with_mount(&bundle.join("rootfs"), &rig.command(&[&["disk"], &arguments[..]].concat()));
        let (bundle, process) = (bundle.display(), shim.id());
        let expected = format!("  /proc/{process}\n  {bundle}\n  {bundle}/rootfs\n\n");
        assert!(shown.contains("Left of tasks") && shown.contains(&expected), "{expected}{shown}");
        for process in [&mut shim, &mut { of_another }] {
            drop(process.stdin.take());
            process.wait().unwrap();
        }
    }
}

/// Starts what looks like a shim of the rig's containerd, until its input ends.
fn shim(rig: &Rig, id: &str) -> Child {
    shim_at(rig.endpoint().strip_prefix("unix://").unwrap(), id)
}

fn shim_at(socket: &str, id: &str) -> Child {
    let mut command = Command::new("sh");
    command.arg0("/usr/bin/containerd-shim-runc-v2").args(["-c", "read end || true", "-namespace", "k8s.io"]);
    command.args(["-id", id, "-address", socket]).stdin(Stdio::piped()).spawn().unwrap()
}

/// Returns the output of a command that sees a mount.
fn with_mount(at: &Path, command: &Command) -> String {
    let script = format!("mount -t tmpfs left {} && exec \"$@\"", at.display());
    let mut within = Command::new("unshare");
    within.args(["--mount", "--propagation", "private", "sh", "-c", &script, "sh"]).arg(command.get_program());
    run(within.args(command.get_args()).current_dir(command.get_current_dir().unwrap()))
}

/// Returns the paths of the leftovers in a plan.
fn rows<'p>(plan: &'p Json, list: &str) -> impl Iterator<Item = String> + 'p {
    plan[list].as_array().unwrap().iter().filter_map(|row| {
        let path = row["path"].as_str().or(row["id"].as_str())?;
        Some(path.to_owned())
    })
}

/// Starts a pod with what the kubelet and host-local write for one.
async fn sound_pod(rig: &Rig, number: usize) {
    let uid = format!("uid-{number}");
    let pod = rig.pod("shop", &format!("web-{number}"), &uid).await;
    pod.running("app").await;
    let kubelet = rig.dir().join("kubelet");
    write_old(&kubelet.join(format!("pods/{uid}/containers/app/{number:08x}")), "ended");
    write_old(&rig.dir().join(format!("networks/pods/10.88.0.{number}")), &format!("{}\r\neth0", pod.sandbox));
}

/// Creates a container of another client, as nerdctl does, with an address.
fn of_another_client(rig: &Rig) {
    rig.import_to("moby", &[Image::new(&["docker.io/library/theirs:1"], &[Layer::filled("theirs", 1)])]);
    let create = ["containers", "create", "--snapshotter=overlayfs", "docker.io/library/theirs:1", "their-container"];
    run(rig.ctr_command("moby").args(create));
    write_old(&rig.dir().join("networks/bridge/10.4.0.2"), "moby-their-container\r\neth0");
}

/// Leaves one of each kind that is found by its files, and returns their paths.
async fn leave_all(rig: &Rig) -> Vec<String> {
    let kubelet = rig.dir().join("kubelet");
    let record = PullRecord::file_name("sha256:gone");
    let text = r#"{"kind":"ImagePulledRecord","apiVersion":"kubelet.config.k8s.io/v1beta1","imageRef":"sha256:gone"}"#;
    write_old(&kubelet.join("image_manager/pulled").join(&record), text);
    for image in rig.list_images().await {
        let record = text.replace("sha256:gone", &image.id);
        write_old(&kubelet.join("image_manager/pulled").join(PullRecord::file_name(&image.id)), &record);
    }
    write_old(&kubelet.join("checkpoints/checkpoint-web-0_shop-app-2026-11-27T12:00:00Z.tar"), "memory");
    write_old(&kubelet.join("pods/uid-gone/etc-hosts"), "");
    write_old(&rig.dir().join("networks/pods/10.88.1.1"), &format!("{}\r\neth0", "0".repeat(64)));
    let mut left = vec![
        kubelet.join("image_manager/pulled").join(record),
        kubelet.join("checkpoints/checkpoint-web-0_shop-app-2026-11-27T12:00:00Z.tar"),
        kubelet.join("pods/uid-gone"),
        rig.dir().join("networks/pods/10.88.1.1"),
    ];
    left.extend(leave_termination_logs(rig).await);
    let mut left: Vec<_> = left.into_iter().map(|path| path.display().to_string()).collect();
    left.sort();
    left
}

/// Leaves termination logs of a container that lost instances, and returns the one that is left over: the two newest never are.
async fn leave_termination_logs(rig: &Rig) -> [PathBuf; 1] {
    let again = rig.pod("shop", "again", "uid-again").await;
    again.running_again("app", 3).await;
    let logs = rig.dir().join("kubelet/pods/uid-again/containers/app");
    let paths = ["00000000", "00000001", "00000002"].map(|name| logs.join(name));
    for (path, hours) in paths.iter().zip([3, 2, 1]) {
        write_old(path, "ended");
        set_modified(path, hours);
    }
    let [oldest, ..] = paths;
    [oldest]
}

fn write_old(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    set_modified(path, 1);
}

fn set_modified(path: &Path, hours: u64) {
    File::open(path).unwrap().set_modified(SystemTime::now() - Duration::from_hours(hours)).unwrap();
}
