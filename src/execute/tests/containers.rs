use std::os::unix::fs::symlink;
use std::sync::{Arc, Mutex};

use tonic::Code;

use super::*;
use crate::cri::generated as pb;
use crate::sim::{Fault, Times};

/// A stopped pod with one exited container that has logs.
fn finished() -> Node {
    Node::new()
        .image(WEB, &[])
        .pod("default", "web", "u1")
        .stopped()
        .id("c1")
        .exited("app", WEB)
        .logging(5000)
        .rotated()
}

const LINK: &str = "web_default_app-c1.log";
const LOG: &str = "default_web_u1/app/0.log";

#[tokio::test]
async fn a_container_goes_after_its_logs_and_its_link() {
    let bench = Bench::new(finished());
    fs::write(bench.pods("default_web_u1/app/1.log"), "another instance's").unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (notes, log, link) = (Arc::clone(&seen), bench.pods(LOG), bench.links(LINK));
    assert!(is_there(&log) && is_there(&link));
    bench.sim.on_call(Rpc::RemoveContainer, 1, move |_| {
        notes.lock().unwrap().extend([is_there(&log), is_there(&link)]);
    });

    let (lines, reports, _) = bench.carry_out_plan(&plan(vec![exited("c1")])).await;

    assert_eq!(lines, ["c1 removed"]);
    assert_eq!(*seen.lock().unwrap(), [false, false], "neither log nor link was there when the container went");
    assert_eq!(bench.sim.state().container_ids(), Vec::<String>::new());
    assert!(is_there(&bench.pods("default_web_u1/app/1.log")));
    assert!(!is_there(&bench.pods("default_web_u1/app/0.log.20261120-120000.gz")));
    assert!(reports[0].freed_bytes.unwrap() >= 5000, "{reports:?}");
    assert_eq!(reports[0].note, None);
}

/// As images are (containerd#7698): one list at the end of the step finds what the runtime has after all.
#[tokio::test]
async fn a_removal_that_the_runtime_only_reported_is_a_failure() {
    let bench = Bench::new(finished());
    bench.sim.fault(Rpc::RemoveContainer, Fault::Pretend, Times::N(1));
    let (lines, _, summary) = bench.carry_out_plan(&plan(vec![exited("c1")])).await;
    assert_eq!(lines, ["c1 removed", "c1 failed: the runtime reported c1 as removed, but still lists it"]);
    assert_eq!((summary.total().removed, summary.total().failed), (0, 1));
    assert_eq!(bench.sim.calls_of(Rpc::ListContainers).len(), 1, "one list for all");
    let (lines, _, summary) = bench.carry_out_plan(&plan(vec![exited("c1")])).await;
    assert_eq!((lines, summary.total().removed), (vec!["c1 removed".to_owned()], 1));
}

#[tokio::test]
async fn a_container_whose_state_changed_is_kept_with_logs() {
    use ContainerState::*;
    for (planned, now) in
        [(Exited, Running), (Created, Running), (Unknown, Running), (Created, Exited), (Running, Running)]
    {
        let bench = Bench::new(finished());
        bench.sim.state().set_container_state("c1", now);
        let before = bench.files();
        let (lines, reports, _) = bench.carry_out_plan(&plan(vec![container("c1", planned)])).await;
        assert_eq!(lines, ["c1 refused: its state changed"]);
        let [was, is]: [&str; 2] = [planned.into(), now.into()];
        assert_eq!(reports[0].note, Some(format!("it was {was}, and is {is} now")));
        assert_eq!(bench.writes(), Vec::<String>::new());
        assert_eq!(bench.files(), before);
    }
}

#[tokio::test]
async fn a_container_that_starts_between_plan_and_recheck_stays() {
    let bench = Bench::new(Node::new().image(WEB, &[]).pod("default", "web", "u1").id("c1").created("app", WEB));
    bench.sim.on_call(Rpc::ContainerStatus, 1, |node| node.start_container("c1").unwrap());
    let lines = bench.carry_out(vec![container("c1", ContainerState::Created)]).await;
    assert_eq!(lines, ["c1 refused: its state changed"]);
    assert_eq!(bench.sim.state().container_names(), ["web/app#0 running"]);
}

#[tokio::test]
async fn a_container_in_an_unknown_state_is_stopped_first() {
    let bench = Bench::new(finished());
    bench.sim.state().set_container_state("c1", ContainerState::Unknown);
    assert_eq!(bench.carry_out(vec![container("c1", ContainerState::Unknown)]).await, ["c1 removed"]);
    assert_eq!(bench.writes(), ["StopContainer(c1)", "RemoveContainer(c1)"]);
}

#[tokio::test]
async fn a_stop_that_fails_ends_the_removal() {
    let bench = Bench::new(finished());
    bench.sim.state().set_container_state("c1", ContainerState::Unknown);
    bench.sim.fault(Rpc::StopContainer, Fault::Fail(Code::Unknown), Times::N(1));
    let before = bench.files();
    let lines = bench.carry_out(vec![container("c1", ContainerState::Unknown)]).await;
    assert!(lines[0].starts_with("c1 failed: StopContainer"), "{lines:?}");
    assert_eq!(bench.writes(), ["StopContainer(c1)"]);
    assert_eq!(bench.files(), before);
}

#[tokio::test]
async fn the_dangling_link_of_a_deleted_container_is_removed() {
    let bench = Bench::new(Node::new());
    symlink("/nowhere/0.log", bench.links(LINK)).unwrap();
    symlink(bench.sim.dir(), bench.links("web_default_app-c2.log")).unwrap();
    let lines = bench.carry_out(vec![exited("c1"), exited("c2")]).await;
    assert_eq!(lines, ["c1 already_removed", "c2 already_removed"]);
    assert!(!is_there(&bench.links(LINK)));
    assert!(is_there(&bench.links("web_default_app-c2.log")), "it leads somewhere");
    assert_eq!(bench.writes(), Vec::<String>::new());
}

#[tokio::test]
async fn a_listed_container_without_a_status_counts_as_deleted() {
    let bench = Bench::new(finished());
    bench.sim.fault(Rpc::ContainerStatus, Fault::Fail(Code::NotFound), Times::Forever);
    let before = bench.files();
    assert_eq!(bench.carry_out(vec![exited("c1")]).await, ["c1 already_removed"]);
    assert_eq!(bench.files(), before, "its link leads somewhere");
}

#[tokio::test]
async fn a_failed_removal_keeps_the_container_and_is_reported() {
    let bench = Bench::new(finished());
    bench.sim.fault(Rpc::RemoveContainer, Fault::Fail(Code::Internal), Times::N(1));
    let lines = bench.carry_out(vec![exited("c1")]).await;
    assert!(lines[0].starts_with("c1 failed: RemoveContainer"), "{lines:?}");
    assert_eq!(bench.carry_out(vec![exited("c1")]).await, ["c1 removed"], "the next pass");
}

#[tokio::test]
async fn a_removal_in_progress_is_refused_not_failed() {
    let bench = Bench::new(finished());
    bench.sim.fault(Rpc::RemoveContainer, Fault::InRemoval, Times::N(1));
    assert_eq!(bench.carry_out(vec![exited("c1")]).await, [format!("c1 refused: {}", Refusal::RemovalInProgress)]);
}

#[tokio::test]
async fn a_removal_that_another_client_completes_needs_no_second_one() {
    let bench = Bench::new(finished());
    bench.sim.fault(Rpc::RemoveContainer, Fault::InRemoval, Times::N(1));
    bench.sim.on_call(Rpc::ContainerStatus, 4, |node| node.remove_container("c1").unwrap());
    assert_eq!(bench.carry_out(vec![exited("c1")]).await, ["c1 already_removed"]);
}

#[tokio::test]
async fn a_pass_waits_for_hanging_removals_of_others_once() {
    let ids: Vec<String> = (1..=30).map(|n| format!("c{n}")).collect();
    let node = ids.iter().fold(finished(), |node, id| if id == "c1" { node } else { node.id(id).exited("app", WEB) });
    let bench = Bench::new(node);
    bench.sim.fault(Rpc::RemoveContainer, Fault::InRemoval, Times::Forever);
    let lines = bench.carry_out(ids.iter().map(|id| exited(id)).collect()).await;
    assert!(lines.iter().all(|line| line.ends_with(&Refusal::RemovalInProgress.to_string())), "{lines:?}");
    let looks = bench.sim.calls().iter().filter(|call| call.method == Rpc::ContainerStatus).count();
    assert!((30 + 5..30 + 40 + 30).contains(&looks), "{looks} looks: one for each container, and those of one wait");
}

#[tokio::test]
async fn a_status_that_cannot_be_had_removes_nothing() {
    let bench = Bench::new(finished());
    bench.sim.fault(Rpc::ContainerStatus, Fault::Fail(Code::Internal), Times::Forever);
    let before = bench.files();
    let lines = bench.carry_out(vec![exited("c1")]).await;
    assert!(lines[0].starts_with("c1 failed: ContainerStatus"), "{lines:?}");
    assert_eq!((bench.writes(), bench.files()), (Vec::new(), before));
}

#[tokio::test]
async fn foreign_log_files_are_kept_without_blocking_removal() {
    let bench = Bench::new(finished());
    let logs = bench.pods("default_web_u1/app");
    fs::rename(&logs, bench.sim.dir().join("elsewhere")).unwrap();
    symlink(bench.sim.dir().join("elsewhere"), &logs).unwrap();
    let (lines, reports, _) = bench.carry_out_plan(&plan(vec![exited("c1")])).await;
    assert_eq!(lines, ["c1 removed"]);
    let note = reports[0].note.clone().unwrap();
    assert!(note.ends_with("default_web_u1/app is kept: it is not a directory"), "{note}");
    assert!(is_there(&bench.sim.dir().join("elsewhere/0.log")));
    assert!(!is_there(&bench.links(LINK)));
}

#[tokio::test]
async fn log_files_in_another_pods_directory_are_left_alone() {
    let bench =
        Bench::new(Node::new().image(WEB, &[]).id("s1").pod("default", "web", "u1").orphan_logs("default", "b", "u2"));
    let other = bench.pods("default_b_u2/app/0.log");
    assert!(is_there(&other));
    let id = create(&bench, &other).await;
    let (lines, reports, _) = bench.carry_out_plan(&plan(vec![container(&id, ContainerState::Created)])).await;
    assert_eq!(lines, [format!("{id} removed")]);
    let note = reports[0].note.clone().unwrap();
    assert!(note.ends_with("it is in another pod's log directory"), "{note}");
    assert!(is_there(&other));
}

#[tokio::test]
async fn a_container_whose_status_shows_another_pod_stays() {
    let foreign = || Node::new().image(WEB, &[]).foreign("alone").id("c1").exited("app", WEB);
    let other = || Node::new().image(WEB, &[]).pod("default", "other", "u2").id("c1").exited("app", WEB);
    for node in [foreign(), other()] {
        let bench = Bench::new(node);
        let (lines, reports, _) = bench.carry_out_plan(&plan(vec![exited("c1")])).await;
        assert_eq!(lines, ["c1 refused: its state changed"]);
        assert_eq!(reports[0].note.as_deref(), Some("it belongs to another pod than in the plan"));
        assert_eq!(bench.writes(), Vec::<String>::new());
    }
}

/// Creates a container of the pod in the sandbox `s1` with this log path.
async fn create(bench: &Bench, log_path: &Path) -> String {
    let connect = tower::service_fn({
        let socket = bench.sim.socket().to_owned();
        move |_: tonic::transport::Uri| {
            let socket = socket.clone();
            async move { tokio::net::UnixStream::connect(socket).await.map(hyper_util::rt::TokioIo::new) }
        }
    });
    let channel = tonic::transport::Endpoint::from_static("http://localhost").connect_with_connector_lazy(connect);
    let config = pb::ContainerConfig {
        metadata: Some(pb::ContainerMetadata { name: "app".to_owned(), attempt: 0 }),
        image: Some(pb::ImageSpec { image: WEB.to_owned(), ..pb::ImageSpec::default() }),
        labels: [("io.kubernetes.pod.uid".to_owned(), "u1".to_owned())].into(),
        log_path: log_path.display().to_string(),
        ..pb::ContainerConfig::default()
    };
    let request = pb::CreateContainerRequest {
        pod_sandbox_id: "s1".to_owned(),
        config: Some(config),
        ..pb::CreateContainerRequest::default()
    };
    let made = pb::runtime_service_client::RuntimeServiceClient::new(channel).create_container(request).await.unwrap();
    made.into_inner().container_id
}

#[tokio::test]
async fn a_file_with_a_log_link_name_is_kept() {
    let bench = Bench::new(finished());
    fs::remove_file(bench.links(LINK)).unwrap();
    fs::write(bench.links(LINK), "a file").unwrap();
    let (lines, reports, _) = bench.carry_out_plan(&plan(vec![exited("c1")])).await;
    assert_eq!(lines, ["c1 removed"]);
    assert!(reports[0].note.clone().unwrap().ends_with("it is not a symbolic link"), "{reports:?}");
    assert_eq!(fs::read_to_string(bench.links(LINK)).unwrap(), "a file");
}

#[tokio::test]
async fn a_container_without_log_path_is_removed_without_note() {
    let bench = Bench::new(Node::new().image(WEB, &[]).id("s1").pod("default", "web", "u1"));
    let id = create(&bench, Path::new("")).await;

    let plan = plan(vec![container(&id, ContainerState::Created)]);
    let (lines, reports, _) = bench.carry_out_plan(&plan).await;

    assert_eq!(lines, [format!("{id} removed")]);
    assert_eq!(reports[0].note, None);
}

#[tokio::test]
async fn pod_names_cannot_escape_the_container_log_root() {
    let bench = Bench::new(finished());
    let outside = bench.sim.dir().join("x_default_app-c1.log");
    symlink("/nowhere", &outside).unwrap();
    let mut action = exited("c1");
    action.pod = Some(PodRef { name: "../x".to_owned(), ..web() });
    assert_eq!(bench.carry_out(vec![action]).await, ["c1 removed"]);
    assert!(is_there(&outside));
}

mod as_root {
    use crate::execute::logs::tests::as_root::bind;
    use crate::testing::frozen_disk::apart;

    use super::*;

    #[test]
    fn a_container_with_unremovable_logs_is_kept() {
        // The threads of the runtime start in this namespace, so they see the mount too.
        apart(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(mounted_log());
        });
    }

    async fn mounted_log() {
        let bench = Bench::new(finished());
        let other = bench.sim.dir().join("other");
        fs::write(&other, "mounted").unwrap();
        bind(&other, &bench.pods(LOG));

        let lines = bench.carry_out(vec![exited("c1")]).await;
        assert!(lines[0].starts_with("c1 failed: cannot remove "), "{lines:?}");
        assert_eq!(bench.writes(), Vec::<String>::new());
        assert!(is_there(&bench.links(LINK)));

        nix::mount::umount(&bench.pods(LOG)).unwrap();
        assert_eq!(bench.carry_out(vec![exited("c1")]).await, ["c1 removed"], "the next pass");
        assert_eq!(fs::read_to_string(&other).unwrap(), "mounted");
    }
}

#[tokio::test]
async fn a_container_behind_a_linked_log_root_is_removed() {
    let bench = Bench::new(finished());
    let (root, target) = (bench.sim.log_roots().pods, bench.sim.dir().join("data"));
    fs::rename(&root, &target).unwrap();
    symlink(&target, &root).unwrap();
    assert_eq!(bench.carry_out(vec![exited("c1")]).await, ["c1 removed"]);
    assert!(!is_there(&target.join(LOG)) && !is_there(&bench.links(LINK)));
    assert_eq!(bench.sim.state().container_ids(), Vec::<String>::new());
}

#[tokio::test]
async fn a_log_root_link_changed_after_planning_is_harmless() {
    let bench = Bench::new(finished());
    let (root, other) = (bench.sim.log_roots().pods, bench.sim.dir().join("other"));
    fs::rename(&root, bench.sim.dir().join("data")).unwrap();
    fs::create_dir_all(other.join("default_db_u2/app")).unwrap();
    fs::write(other.join("default_db_u2/app/0.log"), "of another pod").unwrap();
    symlink(&other, &root).unwrap();
    let lines = bench.carry_out(vec![exited("c1"), action(Target::RemoveLogDir { path: root.join("default_web_u1") })]);
    assert_eq!(lines.await, ["c1 removed", "default_web_u1 already_removed"]);
    assert!(is_there(&bench.sim.dir().join("data").join(LOG)), "the root that was planned for is no root any more");
    assert!(is_there(&other.join("default_db_u2/app/0.log")));
}
