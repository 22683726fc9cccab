//! The contract for the runtime as a whole.

use kubegc::cri::generated as pb;
use tonic::Code;

use super::{Runtime, Subject};

/// Name and version are never empty.
pub async fn version_names_the_runtime<R: Runtime>(subject: Subject<R>) {
    let runtime = subject.reader.runtime().await.unwrap();
    assert!(!runtime.name.is_empty() && !runtime.version.is_empty(), "{runtime:?}");
}

/// The verbose status has the configuration as JSON, in which containerd 1.x names the sandbox image.
pub async fn verbose_status_answers<R: Runtime>(subject: Subject<R>) {
    let status =
        async |verbose| subject.runtime.clone().status(pb::StatusRequest { verbose }).await.unwrap().into_inner();
    assert!(status(false).await.info.is_empty());
    let answer = status(true).await;
    let ready = answer.status.unwrap().conditions.into_iter().find(|condition| condition.r#type == "RuntimeReady");
    assert!(ready.unwrap().status);
    let config: serde_json::Value = serde_json::from_str(&answer.info["config"]).unwrap();
    assert!(config.is_object(), "{config}");
}

/// The directory for `statvfs` exists.
pub async fn the_image_filesystem_is_a_directory<R: Runtime>(subject: Subject<R>) {
    let path = subject.reader.image_filesystem().await.unwrap().unwrap();
    assert!(path.is_absolute() && path.is_dir(), "{}", path.display());
}

/// A runtime that streams lists streams all that it lists. Any other runtime returns `Unimplemented`.
pub async fn streamed_lists_are_whole_or_unimplemented<R: Runtime>(subject: Subject<R>) {
    let pod = subject.pod("web-0", "uid-0").await;
    let created = subject.created(&pod, "app").await;
    let streamed = async {
        let request = pb::StreamContainersRequest { filter: None };
        let mut stream = subject.runtime.clone().stream_containers(request).await?.into_inner();
        let mut ids = Vec::new();
        while let Some(batch) = stream.message().await? {
            ids.extend(batch.containers.into_iter().map(|container| container.id));
        }
        Ok::<_, tonic::Status>(ids)
    };
    match streamed.await {
        Ok(ids) => assert_eq!(ids, [created.to_string()]),
        Err(status) => assert_eq!(status.code(), Code::Unimplemented, "{status}"),
    }
}
