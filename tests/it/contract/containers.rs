//! The contract for containers.

use kubegc::cri::Only;
use kubegc::cri::generated as pb;
use kubegc::model::{ContainerId, ContainerState, PodRef};

use super::{Runtime, SINGLE, Subject, sorted};

/// The list has all facts that a plan depends on.
pub async fn what_was_created_is_listed<R: Runtime>(subject: Subject<R>) {
    assert!(subject.containers(Only::All).await.is_empty());
    let pod = subject.pod("web-0", "uid-0").await;
    let id = subject.created(&pod, "app").await;
    let list = subject.containers(Only::All).await;
    let [listed] = list.as_slice() else { panic!("{list:?}") };
    let image = subject.reader.image(SINGLE).await.unwrap().unwrap();
    assert_eq!(listed.id, id);
    assert_eq!(listed.sandbox_id, pod.sandbox);
    let owner = PodRef { uid: "uid-0".into(), namespace: "default".to_owned(), name: "web-0".to_owned() };
    assert_eq!(listed.pod, Some(owner));
    assert_eq!((listed.name.as_str(), listed.attempt), ("app", 0));
    assert_eq!(listed.state, ContainerState::Created);
    assert_eq!(listed.image_id.as_deref(), Some(image.id.as_str()));
    assert_eq!(listed.image.as_deref(), Some(SINGLE));
    assert!(listed.created_at.as_second() > 1_500_000_000, "{}", listed.created_at);
}

/// Rechecks list one sandbox and one pod. A filter without a match returns nothing.
pub async fn lists_narrow_by_id_sandbox_pod_and_state<R: Runtime>(subject: Subject<R>) {
    let (web, db) = (subject.pod("web-0", "uid-0").await, subject.pod("db-0", "uid-1").await);
    let (running, created) = (subject.running(&web, "app").await, subject.created(&web, "late").await);
    let other = subject.created(&db, "app").await;
    let of_web = sorted(vec![running.clone(), created.clone()]);
    assert_eq!(subject.container_ids(Only::Sandbox(web.sandbox.clone())).await, of_web);
    assert!(subject.container_ids(Only::Sandbox("0123456789".into())).await.is_empty());
    assert_eq!(subject.container_ids(Only::Pod(web.uid)).await, of_web);
    assert!(subject.container_ids(Only::Pod("uid-2".into())).await.is_empty());
    let filter = pb::ContainerFilter::default;
    let by_id = |id: &str| pb::ContainerFilter { id: id.to_owned(), ..filter() };
    assert_eq!(subject.filtered(by_id(running.as_str())).await, [running.to_string()]);
    assert_eq!(subject.filtered(by_id(&other.as_str()[..20])).await, [other.to_string()]);
    assert!(subject.filtered(by_id("0123456789")).await.is_empty());
    let state = Some(pb::ContainerStateValue { state: pb::ContainerState::ContainerRunning.into() });
    assert_eq!(subject.filtered(pb::ContainerFilter { state, ..filter() }).await, [running.to_string()]);
}

/// A created container has no finish time, and the names of the list.
pub async fn a_created_container_has_a_status<R: Runtime>(subject: Subject<R>) {
    let pod = subject.pod("web-0", "uid-0").await;
    let id = subject.created(&pod, "app").await;
    let status = subject.status(&id).await.unwrap();
    assert_eq!((status.id, status.name.as_str(), status.state), (id, "app", ContainerState::Created));
    assert_eq!(status.pod.map(|pod| pod.uid), Some("uid-0".into()));
    assert_eq!(status.finished_at, None);
    assert!(status.image_volumes.is_empty(), "{:?}", status.image_volumes);
}

/// A running container has no finish time.
pub async fn a_running_container_has_a_status<R: Runtime>(subject: Subject<R>) {
    let pod = subject.pod("web-0", "uid-0").await;
    let id = subject.running(&pod, "app").await;
    let status = subject.status(&id).await.unwrap();
    assert_eq!((status.state, status.finished_at), (ContainerState::Running, None));
}

/// An exited container has a finish time.
pub async fn an_exited_container_has_a_status<R: Runtime>(subject: Subject<R>) {
    let pod = subject.pod("web-0", "uid-0").await;
    let id = subject.exited(&pod, "app").await;
    let status = subject.status(&id).await.unwrap();
    assert_eq!(status.state, ContainerState::Exited);
    let created_at = subject.containers(Only::All).await[0].created_at;
    assert!(status.finished_at.unwrap() >= created_at);
}

/// The names of log symlinks may contain a shortened ID.
pub async fn a_unique_prefix_is_enough_for_a_status<R: Runtime>(subject: Subject<R>) {
    let pod = subject.pod("web-0", "uid-0").await;
    let id = subject.created(&pod, "app").await;
    let prefix: ContainerId = (&id.as_str()[..10]).into();
    assert_eq!(subject.status(&prefix).await.unwrap().id, id);
}

/// The error is `NotFound`, which the reader turns into `None`.
pub async fn an_unknown_container_has_no_status<R: Runtime>(subject: Subject<R>) {
    assert_eq!(subject.status(&"0123456789abcdef".into()).await, None);
    let request = pb::ContainerStatusRequest { container_id: "0123456789abcdef".to_owned(), verbose: false };
    let status = subject.runtime.clone().container_status(request).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::NotFound);
}

/// The path is the directory of the sandbox joined with the path of the container. The file exists after the container
/// has run.
pub async fn the_log_path_is_beneath_the_log_directory<R: Runtime>(subject: Subject<R>) {
    let pod = subject.pod("web-0", "uid-0").await;
    let id = subject.running(&pod, "app").await;
    let log_path = subject.status(&id).await.unwrap().log_path;
    assert_eq!(log_path, pod.log_directory().join("app/0.log"));
    assert!(log_path.is_file());
    subject.stop(&id).await;
    subject.writer.remove_container(&id).await.unwrap();
    assert!(log_path.is_file(), "logs are the collector's to remove");
}

/// The second stop changes nothing. CRI-O corrects the finish time by some milliseconds.
pub async fn stopping_twice_is_fine<R: Runtime>(subject: Subject<R>) {
    let pod = subject.pod("web-0", "uid-0").await;
    let id = subject.exited(&pod, "app").await;
    let ended = subject.status(&id).await.unwrap().finished_at;
    subject.stop(&id).await;
    let status = subject.status(&id).await.unwrap();
    assert_eq!(status.state, ContainerState::Exited);
    assert!(status.finished_at == ended || status.finished_at > ended && subject.is_crio().await);
}

/// There is nothing to stop, but CRI-O lists a created container as exited after it. The CRI says that it is no error if the
/// container does not exist. But containerd 1.6 returns `NotFound`, which our writer accepts.
pub async fn stopping_the_created_or_unknown_changes_nothing<R: Runtime>(subject: Subject<R>) {
    let pod = subject.pod("web-0", "uid-0").await;
    let id = subject.created(&pod, "app").await;
    subject.stop(&id).await;
    assert_eq!(subject.state(&id).await, Some(subject.created_after_a_stop().await));
    subject.stop(&"0123456789abcdef".into()).await;
}

/// The second removal succeeds, because the container does not exist.
pub async fn removing_twice_is_fine<R: Runtime>(subject: Subject<R>) {
    let pod = subject.pod("web-0", "uid-0").await;
    let (id, other) = (subject.exited(&pod, "app").await, subject.exited(&pod, "other").await);
    for _ in 0..2 {
        subject.writer.remove_container(&id).await.unwrap();
        assert_eq!(subject.container_ids(Only::All).await, std::slice::from_ref(&other));
    }
}

/// The contract is about the call itself, not only about our writer.
pub async fn removing_the_unknown_is_fine<R: Runtime>(subject: Subject<R>) {
    let request = pb::RemoveContainerRequest { container_id: "0123456789abcdef".to_owned() };
    subject.runtime.clone().remove_container(request).await.unwrap();
}

/// This is why a recheck precedes each removal: a running container is killed and removed.
pub async fn removal_is_forced<R: Runtime>(subject: Subject<R>) {
    let pod = subject.pod("web-0", "uid-0").await;
    let (running, created) = (subject.running(&pod, "app").await, subject.created(&pod, "late").await);
    subject.writer.remove_container(&running).await.unwrap();
    subject.writer.remove_container(&created).await.unwrap();
    assert!(subject.container_ids(Only::All).await.is_empty());
    assert_eq!(subject.sandbox_ids(Only::All).await, [pod.sandbox]);
}

/// A container starts once: between a plan and a removal only CREATED changes to RUNNING.
pub async fn what_ran_does_not_start_again<R: Runtime>(subject: Subject<R>) {
    let pod = subject.pod("web-0", "uid-0").await;
    let id = subject.exited(&pod, "app").await;
    assert!(subject.start(&id).await.is_err());
    assert_eq!(subject.state(&id).await, Some(ContainerState::Exited));
}
