use std::os::unix::fs::symlink;

use super::*;
use crate::model::LeftoverKind;

pub(super) const LOGS: &str = "kubelet/pods/u1/containers/app";

/// A pod with a container whose instances have the termination logs `00000002` and `00000003`, beside those of lost ones.
pub(super) fn bench() -> Bench {
    let log = |name: &str| format!("/var/lib/kubelet/pods/u1/containers/app/{name}");
    let node = Node::new().image(WEB, &[]).pod("default", "web", "u1");
    let node = node.exited("app", WEB).mounting_path("/etc/hosts").mounting_path(&log("00000002"));
    let mut bench = Bench::new(node.running("app", WEB).mounting_path(&log("00000003")));
    bench.options.kubelet_root = bench.sim.dir().join("kubelet");
    write_logs(&bench);
    bench
}

pub(super) fn write_logs(bench: &Bench) {
    for name in ["00000000", "00000001", "00000002", "00000003", "note"] {
        write(bench, &format!("{LOGS}/{name}"), "text");
    }
}

fn write(bench: &Bench, path: &str, text: &str) {
    let path = bench.sim.dir().join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

pub(super) fn log(bench: &Bench, path: &str) -> Action {
    let path = bench.sim.dir().join(LOGS).join(path);
    let target = Target::RemoveLeftover { leftover: LeftoverKind::TerminationLog, path };
    Action { reason: RemoveReason::InstanceGone {}, ..action(target) }
}

#[tokio::test]
async fn the_termination_log_of_a_lost_instance_is_removed() {
    let bench = bench();
    assert_eq!(bench.rehearse(vec![log(&bench, "00000001")]).await, ["00000001 would_remove"]);
    let (lines, reports, _) = bench.carry_out_plan(&plan(vec![log(&bench, "00000001")])).await;
    assert_eq!((lines, reports[0].freed_bytes), (vec!["00000001 removed".to_owned()], Some(4096)));
    assert_eq!(bench.carry_out(vec![log(&bench, "00000001")]).await, ["00000001 already_removed"]);
    let left = ["00000000", "00000001", "00000002", "00000003"];
    assert_eq!(left.map(|name| is_there(&bench.sim.dir().join(LOGS).join(name))), [true, false, true, true]);
    assert_eq!(bench.writes(), Vec::<String>::new());
}

#[tokio::test]
async fn a_termination_log_that_may_be_in_use_is_kept() {
    let bench = bench();
    fs::create_dir(bench.sim.dir().join(LOGS).join("00000009")).unwrap();
    symlink("note", bench.sim.dir().join(LOGS).join("0000000a")).unwrap();
    write(&bench, "kubelet/pods/u1/containers/db/00000000", "text");
    symlink("app", bench.sim.dir().join("kubelet/pods/u1/containers/linked")).unwrap();
    let before = bench.files();
    let (in_use, changed, foreign) = (Refusal::InUse, Refusal::StateChanged, Refusal::ForeignPath);
    for (path, refusal) in [
        ("00000002", &in_use),
        ("00000003", &in_use),
        ("00000009", &foreign),
        ("0000000a", &foreign),
        ("note", &foreign),
        ("../db/00000000", &foreign),
        ("../../../u2/containers/app/00000000", &foreign),
        ("00000000/x", &foreign),
        ("../../etc-hosts", &foreign),
    ] {
        let name = path.rsplit('/').next().unwrap();
        assert_eq!(bench.carry_out(vec![log(&bench, path)]).await, [format!("{name} refused: {refusal}")], "{path}");
    }
    // No instance of this container is there, and the next one shows none.
    let of = |container: &str| {
        let path = bench.sim.dir().join("kubelet/pods/u1/containers").join(container).join("00000000");
        action(Target::RemoveLeftover { leftover: LeftoverKind::TerminationLog, path })
    };
    assert_eq!(bench.carry_out(vec![of("db")]).await, [format!("00000000 refused: {changed}")]);
    bench.sim.state().also(|node| node.created("app", WEB)).unwrap();
    assert_eq!(bench.carry_out(vec![of("app")]).await, [format!("00000000 refused: {changed}")]);
    assert_eq!(bench.files(), before);
}

fn path(action: &Action) -> PathBuf {
    action.target.id().into()
}

/// A deleted pod with an `emptyDir`, and its removal.
fn orphan() -> (Bench, Action) {
    let bench = bench();
    write(&bench, "kubelet/pods/u-gone/volumes/kubernetes.io~empty-dir/cache/data", "text");
    write(&bench, "kubelet/pods/u-gone/etc-hosts", "text");
    symlink("/etc", bench.sim.dir().join("kubelet/pods/u-gone/volumes/kubernetes.io~empty-dir/cache/etc")).unwrap();
    let removal = pod_directory(&bench, "u-gone");
    (bench, removal)
}

pub(super) fn pod_directory(bench: &Bench, uid: &str) -> Action {
    let path = bench.sim.dir().join("kubelet/pods").join(uid);
    let target = Target::RemoveLeftover { leftover: LeftoverKind::PodDirectory, path };
    Action { pod: Some(PodRef { uid: uid.into(), ..PodRef::default() }), ..action(target) }
}

#[tokio::test]
async fn the_directory_of_a_deleted_pod_is_removed() {
    let (bench, removal) = orphan();
    assert_eq!(bench.rehearse(vec![removal.clone()]).await, ["u-gone would_remove"]);
    assert!(is_there(&path(&removal)));
    let (lines, reports, _) = bench.carry_out_plan(&plan(vec![removal.clone()])).await;
    assert_eq!((lines, is_there(&path(&removal))), (vec!["u-gone removed".to_owned()], false));
    assert!(reports[0].freed_bytes.unwrap() >= 8192 && is_there(Path::new("/etc")), "{reports:?}");
    assert!(is_there(&bench.sim.dir().join("kubelet/pods/u1")));
    assert_eq!(bench.carry_out(vec![removal]).await, ["u-gone already_removed"]);
}

#[tokio::test]
async fn a_directory_of_a_pod_that_may_be_in_use_is_kept() {
    let (foreign, in_use) = (Refusal::ForeignPath.to_string(), Refusal::HasContainers.to_string());
    for (name, more, expected) in [
        ("a volume of another plugin", "volumes/kubernetes.io~csi/disk/vol_data.json", &foreign),
        ("a volume of a host", "volumes/other/disk/data", &foreign),
        ("a block device", "volumeDevices/kubernetes.io~csi/disk", &foreign),
        ("what the kubelet does not create", "data", &foreign),
    ] {
        let (bench, removal) = orphan();
        write(&bench, &format!("kubelet/pods/u-gone/{more}"), "text");
        let before = bench.files();
        assert_eq!(bench.carry_out(vec![removal]).await, [format!("u-gone refused: {expected}")], "{name}");
        assert_eq!(bench.files(), before, "{name}");
    }
    let (bench, removal) = orphan();
    fs::rename(path(&removal), bench.sim.dir().join("elsewhere")).unwrap();
    symlink(bench.sim.dir().join("elsewhere"), path(&removal)).unwrap();
    assert_eq!(bench.carry_out(vec![removal.clone()]).await, [format!("u-gone refused: {foreign}")], "a link");
    let of_runtime = pod_directory(&bench, "u1");
    assert_eq!(bench.carry_out(vec![of_runtime]).await, [format!("u1 refused: {in_use}")]);
    let other_pod = Action { pod: Some(web()), ..removal };
    assert_eq!(bench.carry_out(vec![other_pod]).await, [format!("u-gone refused: {foreign}")]);
}

#[tokio::test]
async fn an_agent_in_a_container_keeps_directories_of_pods() {
    let (mut bench, removal) = orphan();
    bench.host = HostFs::new(bench.sim.dir());
    bench.options.kubelet_root = "/kubelet".into();
    let on_host = Target::RemoveLeftover { leftover: LeftoverKind::PodDirectory, path: "/kubelet/pods/u-gone".into() };
    let (_, reports, _) = bench.carry_out_plan(&plan(vec![Action { target: on_host, ..removal.clone() }])).await;
    assert_eq!(reports[0].outcome, Outcome::Refused { refusal: Refusal::ForeignPath });
    assert!(reports[0].note.as_ref().is_some_and(|note| note.contains("in a container")), "{reports:?}");
    assert!(is_there(&path(&removal)));
}

#[tokio::test]
async fn a_checkpoint_goes_if_it_is_still_the_file_of_the_plan() {
    let bench = bench();
    let checkpoint = |name: &str| {
        let path = format!("kubelet/checkpoints/{name}");
        write(&bench, &path, "memory");
        let before_the_plan = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1);
        let path = bench.sim.dir().join(path);
        fs::File::options().write(true).open(&path).unwrap().set_modified(before_the_plan).unwrap();
        action(Target::RemoveLeftover { leftover: LeftoverKind::Checkpoint, path })
    };
    let outcome = async |action: &Action| {
        let (_, mut reports, _) = bench.carry_out_plan(&plan(vec![action.clone()])).await;
        (reports.remove(0).outcome, is_there(&path(action)))
    };
    let kept = |refusal| (Outcome::Refused { refusal }, true);
    let file = checkpoint("checkpoint-web_default-app-1.tar");
    assert_eq!(outcome(&file).await, (Outcome::Removed {}, false));
    assert_eq!(outcome(&file).await, (Outcome::AlreadyRemoved {}, false));
    assert_eq!(outcome(&checkpoint("other.tar")).await, kept(Refusal::ForeignPath), "another name");
    let written = checkpoint("checkpoint-web_default-app-2.tar");
    fs::File::options().write(true).open(path(&written)).unwrap().set_modified(std::time::SystemTime::now()).unwrap();
    assert_eq!(outcome(&written).await, kept(Refusal::StateChanged), "it was written after the plan");
    let linked = checkpoint("checkpoint-web_default-app-3.tar");
    fs::remove_file(path(&linked)).unwrap();
    symlink("other.tar", path(&linked)).unwrap();
    assert_eq!(outcome(&linked).await, kept(Refusal::ForeignPath), "a link");
    let beneath = action(Target::RemoveLeftover {
        leftover: LeftoverKind::Checkpoint,
        path: bench.sim.dir().join("kubelet/checkpoints/../pods/checkpoint-x.tar"),
    });
    assert_eq!(outcome(&beneath).await.0, Outcome::Refused { refusal: Refusal::ForeignPath });
}

/// These are shown only: a document with their removal is no reason (I21).
#[tokio::test]
async fn what_is_shown_only_is_not_removed() {
    let bench = bench();
    for (leftover, path) in [
        (LeftoverKind::Address, "kubelet/10.88.0.7"),
        (LeftoverKind::PullRecord, "kubelet/image_manager/pulled/sha256-1"),
        (LeftoverKind::Checkpoint, "kubelet/image_manager/checkpoint-1.tar"),
    ] {
        write(&bench, path, "id");
        let removal = action(Target::RemoveLeftover { leftover, path: bench.sim.dir().join(path) });
        let lines = bench.carry_out(vec![removal]).await;
        let name = path.rsplit('/').next().unwrap();
        assert_eq!(lines, [format!("{name} refused: {}", Refusal::ForeignPath)]);
        assert!(is_there(&bench.sim.dir().join(path)));
    }
}
