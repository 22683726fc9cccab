use std::os::unix::fs::symlink;

use tonic::Code;

use super::*;
use crate::model::log_link_name;
use crate::sim::{Fault, Times};

const ID: &str = "0123456789abcdef";

fn log_dir(bench: &Bench, name: &str) -> Action {
    action(Target::RemoveLogDir { path: bench.pods(name) })
}

fn log_link(bench: &Bench, name: &str) -> Action {
    action(Target::RemoveLogLink { path: bench.links(name) })
}

#[tokio::test]
async fn a_log_directory_goes_whole() {
    let bench = Bench::new(Node::new().orphan_logs("default", "web", "u1").orphan_logs("default", "web", "u2"));
    let (lines, reports, _) = bench.carry_out_plan(&plan(vec![log_dir(&bench, "default_web_u1")])).await;
    assert_eq!(lines, ["default_web_u1 removed"]);
    assert!(reports[0].freed_bytes.unwrap() >= 1000, "{reports:?}");
    assert!(!is_there(&bench.pods("default_web_u1")) && is_there(&bench.pods("default_web_u2")));
    assert_eq!(bench.writes(), Vec::<String>::new());
    assert_eq!(bench.carry_out(vec![log_dir(&bench, "default_web_u1")]).await, ["default_web_u1 already_removed"]);
}

#[tokio::test]
async fn logs_of_a_pod_in_the_runtime_are_kept() {
    let add = |node: Node| node.image(WEB, &[]).pod("default", "web", "u1").stopped();
    let sandbox = Bench::new(add(Node::new().orphan_logs("default", "web", "u1")));
    // The container is created during the recheck. The list of containers, which is the last call, includes it.
    let container = Bench::new(Node::new().orphan_logs("default", "web", "u1"));
    container.sim.on_call(Rpc::ListContainers, 1, move |node| {
        node.also(|node| add(node).created("app", WEB)).unwrap();
    });
    for bench in [sandbox, container] {
        let before = bench.files();
        let lines = bench.carry_out(vec![log_dir(&bench, "default_web_u1")]).await;
        assert_eq!(lines, ["default_web_u1 refused: it has containers"]);
        assert_eq!(bench.files(), before);
    }
}

fn log_file(bench: &Bench, name: &str) -> Action {
    let reason = RemoveReason::OverMaxPerPodContainer { limit: 1 };
    Action { reason, ..action(Target::RemoveLogFile { path: bench.pods("default_web_u1/app").join(name) }) }
}

/// A pod with a container that was restarted three times. The runtime lost two instances.
fn restarted() -> Node {
    let node = Node::new().image(WEB, &[]).pod("default", "web", "u1");
    node.lost("app", 100).lost("app", 100).exited("app", WEB).running("app", WEB)
}

#[tokio::test]
async fn a_leftover_log_is_removed_with_its_rotated_files() {
    let bench = Bench::new(restarted());
    for name in ["1.log.20261120-120000.gz", "10.log", "11.log"] {
        fs::write(bench.pods("default_web_u1/app").join(name), "text").unwrap();
    }
    let (lines, reports, _) = bench.carry_out_plan(&plan(vec![log_file(&bench, "1.log")])).await;
    assert_eq!(lines, ["1.log removed"]);
    assert!(reports[0].freed_bytes.unwrap() >= 100, "{reports:?}");
    let left = ["0.log", "1.log", "1.log.20261120-120000.gz", "2.log", "3.log", "10.log", "11.log"]
        .map(|name| is_there(&bench.pods("default_web_u1/app").join(name)));
    assert_eq!(left, [true, false, false, true, true, true, true]);
    assert_eq!(bench.carry_out(vec![log_file(&bench, "1.log")]).await, ["1.log already_removed"]);
    assert_eq!(bench.rehearse(vec![log_file(&bench, "0.log")]).await, ["0.log would_remove"]);
    assert!(is_there(&bench.pods("default_web_u1/app/0.log")));
    assert_eq!(bench.writes(), Vec::<String>::new());
}

#[tokio::test]
async fn a_log_of_a_listed_or_of_the_newest_instance_is_kept() {
    let bench = Bench::new(restarted());
    fs::write(bench.pods("default_web_u1/app/4.log"), "text").unwrap();
    fs::create_dir_all(bench.pods("default_web_u1/db")).unwrap();
    fs::write(bench.pods("default_web_u1/db/0.log"), "text").unwrap();
    fs::write(bench.pods("default_web_u1/app/note"), "text").unwrap();
    let before = bench.files();
    let of_slot = ["2.log", "3.log", "4.log", "../db/0.log", "note", "00.log", "0.log.1", "", "0.log/x"];
    let mut lines = Vec::new();
    for name in of_slot {
        lines.extend(bench.carry_out(vec![log_file(&bench, name)]).await);
    }
    let (in_use, changed) = (Refusal::InUse.to_string(), Refusal::StateChanged.to_string());
    let foreign = Refusal::ForeignPath.to_string();
    let expected = [&in_use, &in_use, &changed].into_iter().chain([&foreign; 6]);
    let wrong = lines.iter().zip(expected).find(|(line, refusal)| !line.ends_with(&format!(" refused: {refusal}")));
    assert_eq!((wrong, lines.len()), (None, 9));
    assert_eq!(bench.files(), before);
}

/// The pod of another log directory, and a pod without a runtime response.
#[tokio::test]
async fn a_leftover_log_is_kept_if_its_pod_is_another_or_the_runtime_does_not_respond() {
    let bench = Bench::new(restarted());
    let before = bench.files();
    let other = Action { pod: Some(PodRef { uid: "u2".into(), ..web() }), ..log_file(&bench, "0.log") };
    let none = Action { pod: None, ..log_file(&bench, "0.log") };
    assert_eq!(bench.carry_out(vec![other, none]).await, ["0.log refused: the path is not ours"; 2]);
    bench.sim.fault(Rpc::ListContainers, Fault::Fail(Code::Internal), Times::Forever);
    let lines = bench.carry_out(vec![log_file(&bench, "0.log")]).await;
    assert!(lines[0].starts_with("0.log failed: ListContainers"), "{lines:?}");
    assert_eq!(bench.files(), before);
}

#[tokio::test]
async fn logs_are_kept_without_a_runtime_response() {
    for method in [Rpc::ListContainers, Rpc::ListPodSandbox] {
        let bench = Bench::new(Node::new().orphan_logs("default", "web", "u1"));
        bench.sim.fault(method, Fault::Fail(Code::Internal), Times::Forever);
        let lines = bench.carry_out(vec![log_dir(&bench, "default_web_u1")]).await;
        assert!(lines[0].starts_with(&format!("default_web_u1 failed: {method}")), "{lines:?}");
        assert!(is_there(&bench.pods("default_web_u1/app/0.log")));
    }
}

#[tokio::test]
async fn logs_of_pods_in_the_kubelet_directory_are_kept() {
    let mut bench = Bench::new(Node::new().orphan_logs("default", "web", "u1").orphan_logs("default", "db", "u2"));
    let pods = bench.sim.dir().join("kubelet-pods");
    fs::create_dir_all(pods.join("u1")).unwrap();
    bench.options.kubelet_pods = Some(pods);
    let lines = bench.carry_out(vec![log_dir(&bench, "default_web_u1"), log_dir(&bench, "default_db_u2")]).await;
    assert_eq!(lines, ["default_web_u1 refused: its pod is back", "default_db_u2 removed"]);
}

#[tokio::test]
async fn removals_in_a_blocked_log_root_fail_immediately() {
    let node = Node::new().orphan_logs("default", "web", "u1").orphan_logs("default", "db", "u2");
    let bench = Bench::new(node.dangling_link("default", "old", "app", ID));
    let link = format!("old_default_app-{ID}.log");
    let actions = || vec![log_dir(&bench, "default_web_u1"), log_dir(&bench, "default_db_u2"), log_link(&bench, &link)];
    let release = bench.host.block(&bench.sim.log_roots().pods).await;
    let (before, roots) = (bench.files(), bench.sim.log_roots().pods);
    let blocked =
        format!("failed: cannot access {}: an earlier call is still blocked in the file system", roots.display());
    let lines = bench.carry_out(actions()).await;
    let expected = [format!("default_web_u1 {blocked}"), format!("default_db_u2 {blocked}"), format!("{link} removed")];
    assert_eq!(lines, expected, "the container log root is another place");
    assert_eq!(bench.files().len(), before.len() - 1);
    drop(release);
    let removed = async { while bench.carry_out(actions()).await[0] != "default_web_u1 removed" {} };
    tokio::time::timeout(Duration::from_secs(30), removed).await.expect("the root is accessible again");
}

#[tokio::test]
async fn a_blocked_kubelet_directory_fails_the_recheck_only() {
    let mut bench = Bench::new(Node::new().orphan_logs("default", "web", "u1").orphan_logs("default", "db", "u2"));
    let pods = bench.sim.dir().join("kubelet-pods");
    bench.options.kubelet_pods = Some(pods.clone());
    let _release = bench.host.block(&pods).await;
    let lines = bench.carry_out(vec![log_dir(&bench, "default_web_u1"), log_dir(&bench, "default_db_u2")]).await;
    assert!(lines.iter().all(|line| line.contains("failed: cannot access")), "{lines:?}");
    assert!(is_there(&bench.pods("default_web_u1")) && is_there(&bench.pods("default_db_u2")));
}

/// A failure is no proof that the kubelet does not have the pod.
#[tokio::test]
async fn logs_are_kept_if_kubelet_directory_is_unreadable() {
    let mut bench = Bench::new(Node::new().orphan_logs("default", "web", "u1"));
    let pods = bench.sim.dir().join("kubelet-pods");
    fs::write(&pods, "a file where a directory should be").unwrap();
    bench.options.kubelet_pods = Some(pods);
    let lines = bench.carry_out(vec![log_dir(&bench, "default_web_u1")]).await;
    assert!(lines[0].starts_with("default_web_u1 failed: ") && lines[0].contains("kubelet-pods/u1"), "{lines:?}");
    assert!(is_there(&bench.pods("default_web_u1/app/0.log")));
}

#[tokio::test]
async fn a_kubelet_directory_behind_a_host_link_protects_pods() {
    let mut bench = Bench::new(Node::new().orphan_logs("default", "web", "u1"));
    let host = bench.sim.dir().to_owned();
    fs::create_dir_all(host.join("data/kubelet/pods/u1")).unwrap();
    fs::create_dir_all(host.join("var/lib")).unwrap();
    // The symlink is absolute for the host. Without `host_root` as a prefix, it would refer to a path of the agent.
    symlink("/data/kubelet", host.join("var/lib/kubelet")).unwrap();
    bench.host = HostFs::new(host);
    bench.options.kubelet_pods = Some("/var/lib/kubelet/pods".into());
    let dir = Target::RemoveLogDir { path: "/pods/default_web_u1".into() };
    assert_eq!(bench.carry_out(vec![action(dir)]).await, ["default_web_u1 refused: its pod is back"]);
}

#[tokio::test]
async fn only_directories_directly_beneath_the_pod_log_root_go() {
    let bench = Bench::new(Node::new().orphan_logs("default", "web", "u1"));
    fs::write(bench.pods("default_file_u3"), "").unwrap();
    symlink(bench.sim.dir(), bench.pods("default_link_u4")).unwrap();
    let before = bench.files();
    for name in ["default_file_u3", "default_link_u4", "default_web_u1/app", "../images", "..", ""] {
        for lines in
            [bench.carry_out(vec![log_dir(&bench, name)]).await, bench.rehearse(vec![log_dir(&bench, name)]).await]
        {
            assert!(lines[0].ends_with(" refused: the path is not ours"), "{name}: {lines:?}");
        }
    }
    let (_, reports, _) = bench.carry_out_plan(&plan(vec![log_dir(&bench, "../images")])).await;
    let note = reports[0].note.clone().unwrap();
    assert!(note.contains("images"), "{note}");
    assert_eq!(bench.files(), before);
}

#[tokio::test]
async fn dangling_links_of_exited_and_deleted_containers_are_removed() {
    let node = Node::new().image(WEB, &[]).pod("default", "web", "u1").id(ID).exited("app", WEB);
    let bench = Bench::new(node);
    fs::remove_file(bench.pods("default_web_u1/app/0.log")).unwrap();
    let gone = "web_default_app-fedcba9876543210.log";
    symlink("/nowhere", bench.links(gone)).unwrap();
    symlink("/nowhere", bench.links("x-abc.log")).unwrap();
    let ended = format!("web_default_app-{ID}.log");
    for name in [&*ended, gone, "x-abc.log"] {
        assert_eq!(bench.carry_out(vec![log_link(&bench, name)]).await, [format!("{name} removed")]);
        assert!(!is_there(&bench.links(name)));
    }
    assert_eq!(bench.carry_out(vec![log_link(&bench, gone)]).await, [format!("{gone} already_removed")]);
}

#[tokio::test]
async fn a_link_with_a_target_or_writer_is_kept() {
    let node = Node::new().image(WEB, &[]).pod("default", "web", "u1").id(ID).exited("app", WEB);
    let bench = Bench::new(node);
    let name = format!("web_default_app-{ID}.log");
    let refused = [format!("{name} refused: the link is in use")];
    assert_eq!(bench.carry_out(vec![log_link(&bench, &name)]).await, refused, "its file is there");
    fs::remove_file(bench.pods("default_web_u1/app/0.log")).unwrap();
    for state in [ContainerState::Running, ContainerState::Created, ContainerState::Unknown] {
        bench.sim.state().set_container_state(ID, state);
        assert_eq!(bench.carry_out(vec![log_link(&bench, &name)]).await, refused, "{state:?}");
    }
    // A truncated name contains only a prefix of the container id.
    fs::rename(bench.links(&name), bench.links("web_default_app-01234567.log")).unwrap();
    let lines = bench.carry_out(vec![log_link(&bench, "web_default_app-01234567.log")]).await;
    assert_eq!(lines, ["web_default_app-01234567.log refused: the link is in use"]);
    bench.sim.fault(Rpc::ContainerStatus, Fault::Fail(Code::Unavailable), Times::N(1));
    let lines = bench.carry_out(vec![log_link(&bench, "web_default_app-01234567.log")]).await;
    assert!(lines[0].contains(" failed: ContainerStatus"), "{lines:?}");
    assert!(is_there(&bench.links("web_default_app-01234567.log")));
}

/// Such a name may be that of any container, so all are listed: for many links at once, and not for each.
#[tokio::test]
async fn many_links_without_an_id_share_a_list_of_containers() {
    let bench = Bench::new(Node::new());
    let names: Vec<_> =
        (10..30).map(|n| log_link_name(&format!("{n}{}", "x".repeat(240)), "default", "app", &ID.into())).collect();
    for name in &names {
        symlink("/nowhere", bench.links(name)).unwrap();
    }
    let lines = bench.carry_out(names.iter().map(|name| log_link(&bench, name)).collect()).await;
    assert!(lines.len() == 20 && lines.iter().all(|line| line.ends_with(" removed")), "{lines:?}");
    let lists = bench.sim.calls_of(Rpc::ListContainers).len();
    assert!((1..5).contains(&lists), "{lists} lists");
}

#[tokio::test]
async fn only_links_directly_beneath_the_container_log_root_go() {
    let bench = Bench::new(Node::new());
    fs::write(bench.links("file.log"), "").unwrap();
    symlink("/nowhere", bench.sim.dir().join("outside.log")).unwrap();
    let before = bench.files();
    for name in ["file.log", "../outside.log", "..", ""] {
        for lines in
            [bench.carry_out(vec![log_link(&bench, name)]).await, bench.rehearse(vec![log_link(&bench, name)]).await]
        {
            assert!(lines[0].ends_with(" refused: the path is not ours"), "{name}: {lines:?}");
        }
    }
    assert_eq!(bench.files(), before);
}

#[tokio::test]
async fn a_dry_run_includes_links_of_containers_to_remove() {
    let node = Node::new().image(WEB, &[]).pod("default", "web", "u1").id(ID).created("app", WEB);
    let bench = Bench::new(node);
    let name = format!("web_default_app-{ID}.log");
    symlink("/nowhere", bench.links(&name)).unwrap();
    let actions = vec![container(ID, ContainerState::Created), log_link(&bench, &name)];
    assert_eq!(bench.rehearse(actions.clone()).await, [format!("{ID} would_remove"), format!("{name} would_remove")]);
    assert_eq!(bench.carry_out(actions).await, [format!("{ID} removed"), format!("{name} already_removed")]);
}
