//! The contract for pod sandboxes.

use kubegc::cri::Only;
use kubegc::cri::generated as pb;
use kubegc::model::{ContainerState, PodRef, SandboxState};

use super::{Runtime, Subject};
use crate::rig::becomes_true;

/// The list has all facts that a plan depends on.
pub async fn a_sandbox_is_ready_until_it_is_stopped<R: Runtime>(subject: Subject<R>) {
    assert!(subject.sandbox_ids(Only::All).await.is_empty());
    let pod = subject.pod("web-0", "uid-0").await;
    let listed = async || {
        let list = subject.reader.sandboxes(Only::All).await.unwrap();
        let [listed] = list.as_slice() else { panic!("{list:?}") };
        listed.clone()
    };
    let ready = listed().await;
    assert_eq!((&ready.id, ready.attempt, ready.state), (&pod.sandbox, 0, SandboxState::Ready));
    let owner = PodRef { uid: "uid-0".into(), namespace: "default".to_owned(), name: "web-0".to_owned() };
    assert_eq!(ready.pod, Some(owner));
    assert!(ready.created_at.as_second() > 1_500_000_000, "{}", ready.created_at);
    subject.writer.stop_sandbox(&pod.sandbox).await.unwrap();
    // containerd 2 lists the new state a moment after it has answered.
    let is_stopped = async || listed().await.state == SandboxState::NotReady;
    assert!(becomes_true(is_stopped).await, "the sandbox is still listed as ready");
    assert_eq!(listed().await.created_at, ready.created_at);
}

/// Rechecks list one sandbox or one pod. A filter without a match returns nothing.
pub async fn lists_narrow_by_id_and_pod<R: Runtime>(subject: Subject<R>) {
    let (web, db) = (subject.pod("web-0", "uid-0").await, subject.pod("db-0", "uid-1").await);
    assert_eq!(subject.sandbox_ids(Only::Sandbox(web.sandbox.clone())).await, [web.sandbox]);
    assert!(subject.sandbox_ids(Only::Sandbox("0123456789".into())).await.is_empty());
    assert_eq!(subject.sandbox_ids(Only::Pod(db.uid)).await, [db.sandbox]);
    assert!(subject.sandbox_ids(Only::Pod("uid-2".into())).await.is_empty());
}

/// Running containers exit, created containers exit or do not change, and all are still listed.
pub async fn stopping_ends_what_runs_in_it<R: Runtime>(subject: Subject<R>) {
    let (web, db) = (subject.pod("web-0", "uid-0").await, subject.pod("db-0", "uid-1").await);
    let (running, created) = (subject.running(&web, "app").await, subject.created(&web, "late").await);
    let other = subject.running(&db, "app").await;
    subject.writer.stop_sandbox(&web.sandbox).await.unwrap();
    assert_eq!(subject.state(&running).await, Some(ContainerState::Exited));
    assert_eq!(subject.state(&created).await, Some(subject.created_after_a_stop().await));
    assert_eq!(subject.state(&other).await, Some(ContainerState::Running));
}

/// The second call succeeds, because the sandbox is already stopped or removed.
pub async fn stopping_or_removing_twice_is_fine<R: Runtime>(subject: Subject<R>) {
    let pod = subject.pod("web-0", "uid-0").await;
    for _ in 0..2 {
        subject.writer.stop_sandbox(&pod.sandbox).await.unwrap();
    }
    for _ in 0..2 {
        subject.writer.remove_sandbox(&pod.sandbox).await.unwrap();
        assert!(subject.sandbox_ids(Only::All).await.is_empty());
    }
}

/// The CRI says this about the calls themselves. But containerd 1.6 returns `NotFound` for a stop, which our writer
/// accepts.
pub async fn stopping_or_removing_the_unknown_is_fine<R: Runtime>(subject: Subject<R>) {
    subject.writer.stop_sandbox(&"0123456789abcdef".into()).await.unwrap();
    let request = pb::RemovePodSandboxRequest { pod_sandbox_id: "0123456789abcdef".to_owned() };
    subject.runtime.clone().remove_pod_sandbox(request).await.unwrap();
}

/// This is why a recheck precedes each removal: the removal of a ready sandbox kills everything in it.
pub async fn removal_takes_containers_along<R: Runtime>(subject: Subject<R>) {
    let (web, db) = (subject.pod("web-0", "uid-0").await, subject.pod("db-0", "uid-1").await);
    subject.running(&web, "app").await;
    subject.created(&web, "late").await;
    let other = subject.running(&db, "app").await;
    subject.writer.remove_sandbox(&web.sandbox).await.unwrap();
    assert_eq!(subject.sandbox_ids(Only::All).await, [db.sandbox]);
    assert_eq!(subject.container_ids(Only::All).await, [other]);
}
