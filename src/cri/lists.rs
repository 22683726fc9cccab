//! The three lists, decoded into messages that hold only the fields that the model needs (`proto/lists.proto`).
//!
//! Of the labels, which stay encoded, only those that identify the pod are decoded. Tests compare the messages with those of
//! `proto/cri.proto`.

use tonic::{Code, Status};

use super::connect::{Answer, Method, Socket};
use super::{CriError, convert, generated as pb};
use crate::model;

/// The answer to a list call.
pub trait RuntimeList: Answer {
    /// The model type of one entry.
    type Item;
    /// The call that returns the whole list in one message.
    const UNARY: Method;
    /// The call that streams the list in batches.
    const STREAM: Method;

    fn into_items(self) -> impl Iterator<Item = Self::Item>;

    /// Returns the id of an entry.
    fn id(item: &Self::Item) -> &str;
}

/// The entries of one answer or one stream.
#[derive(Debug)]
pub struct Received<T> {
    pub items: Vec<T>,
    /// The encoded size of the messages, in bytes.
    pub bytes: u64,
    /// Whether the entries were streamed.
    pub streamed: bool,
}

// === impl Received ===

impl<T> Received<T> {
    /// Returns the list unchanged if every entry has an id. If an entry has no id, the list does not show which objects
    /// that entry uses, so the whole list is rejected.
    ///
    /// # Errors
    /// An entry has no id.
    pub fn checked(self, call: Method, id: impl Fn(&T) -> &str) -> Result<Self, CriError> {
        if self.items.iter().all(|item| !id(item).is_empty()) {
            return Ok(self);
        }
        Err(CriError::defective(call, "an entry of the list has no id"))
    }
}

// === impl RuntimeList ===

macro_rules! lists {
    ($($message:ty: $field:ident of $item:ty as $convert:path, $unary:literal, $stream:literal;)*) => {
        $(impl RuntimeList for $message {
            type Item = $item;
            const UNARY: Method = Method($unary);
            const STREAM: Method = Method($stream);

            fn into_items(self) -> impl Iterator<Item = Self::Item> {
                self.$field.into_iter().map($convert)
            }

            fn id(item: &Self::Item) -> &str {
                item.id.as_str()
            }
        })*
    };
}

lists! {
    pb::LeanContainers: items of model::Container as convert::container,
        "/runtime.v1.RuntimeService/ListContainers", "/runtime.v1.RuntimeService/StreamContainers";
    pb::LeanSandboxes: items of model::Sandbox as convert::sandbox,
        "/runtime.v1.RuntimeService/ListPodSandbox", "/runtime.v1.RuntimeService/StreamPodSandboxes";
    pb::ListImagesResponse: images of model::Image as convert::image,
        "/runtime.v1.ImageService/ListImages", "/runtime.v1.ImageService/StreamImages";
}

/// Receives a whole list in batches. Never returns a partial list. Returns Unimplemented only if the runtime sent it
/// before the first batch.
pub async fn stream<L: RuntimeList>(socket: &Socket, limit: usize) -> Result<Received<L::Item>, Status> {
    socket.counted(L::STREAM, Box::pin(receive::<L>(socket, limit))).await
}

async fn receive<L: RuntimeList>(socket: &Socket, limit: usize) -> Result<Received<L::Item>, Status> {
    let mut batches = socket.stream::<(), L>(L::STREAM, (), limit).await?;
    let (mut items, mut begun) = (Vec::new(), false);
    while let Some(batch) = batches.next().await.map_err(|status| broken_off(status, begun))? {
        begun = true;
        items.extend(batch.into_items());
    }
    Ok(Received { items, bytes: batches.bytes(), streamed: true })
}

/// Changes the code of an error that arrives after the first batch. Otherwise Unimplemented would mean "the runtime
/// does not stream", and `ResourceExhausted` would mean "the list is too large".
fn broken_off(status: Status, begun: bool) -> Status {
    if begun && matches!(status.code(), Code::Unimplemented | Code::ResourceExhausted) {
        return Status::internal(format!("the stream broke off: {}", status.message()));
    }
    status
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;

    fn map(entries: &[(&str, &str)]) -> std::collections::HashMap<String, String> {
        entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn pod_labels() -> std::collections::HashMap<String, String> {
        map(&[
            ("io.kubernetes.pod.uid", "u1"),
            ("io.kubernetes.pod.namespace", "default"),
            ("io.kubernetes.pod.name", "web-0"),
            ("app", "web"),
        ])
    }

    #[test]
    fn a_container_is_decoded_from_the_published_message() {
        let written = pb::Container {
            id: "c1".into(),
            pod_sandbox_id: "s1".into(),
            metadata: Some(pb::ContainerMetadata { name: "app".into(), attempt: 3 }),
            image: Some(pb::ImageSpec {
                image: "docker.io/library/a:1".into(),
                annotations: map(&[("k", "v")]),
                user_specified_image: "a:1".into(),
            }),
            image_ref: "docker.io/library/a@sha256:01".into(),
            state: pb::ContainerState::ContainerExited.into(),
            created_at: 1_000_000_001,
            labels: pod_labels(),
            annotations: map(&[("io.kubernetes.container.restartCount", "3")]),
            image_id: "sha256:aa".into(),
        };
        let wire = pb::ListContainersResponse { containers: vec![written] }.encode_to_vec();
        let read: Vec<_> = pb::LeanContainers::decode(wire.as_slice()).unwrap().into_items().collect();
        assert_eq!(
            serde_json::to_value(read).unwrap(),
            serde_json::json!([{
                "id": "c1", "sandbox_id": "s1", "name": "app", "attempt": 3, "state": "exited",
                "pod": {"uid": "u1", "namespace": "default", "name": "web-0"},
                "created_at": "1970-01-01T00:00:01.000000001Z", "finished_at": null,
                "image_id": "sha256:aa", "image": "docker.io/library/a:1"
            }])
        );
    }

    #[test]
    fn a_sandbox_is_decoded_from_the_published_message() {
        let written = pb::PodSandbox {
            id: "s1".into(),
            metadata: Some(pb::PodSandboxMetadata {
                name: "web-0".into(),
                uid: "u1".into(),
                namespace: "default".into(),
                attempt: 2,
            }),
            state: pb::PodSandboxState::SandboxNotready.into(),
            created_at: 2_000_000_000,
            labels: pod_labels(),
            annotations: map(&[("kubernetes.io/config.source", "file")]),
        };
        let wire = pb::ListPodSandboxResponse { items: vec![written] }.encode_to_vec();
        let read: Vec<_> = pb::LeanSandboxes::decode(wire.as_slice()).unwrap().into_items().collect();
        assert_eq!(
            serde_json::to_value(read).unwrap(),
            serde_json::json!([{
                "id": "s1", "pod": {"uid": "u1", "namespace": "default", "name": "web-0"},
                "attempt": 2, "state": "not_ready", "created_at": "1970-01-01T00:00:02Z",
                "is_static": true
            }])
        );
    }

    #[test]
    fn an_image_is_decoded_from_the_published_message() {
        let written = pb::Image {
            id: "sha256:aa".into(),
            repo_tags: vec!["docker.io/library/a:1".into()],
            repo_digests: vec!["docker.io/library/a@sha256:01".into()],
            size: 7,
            pinned: true,
        };
        let wire = pb::ListImagesResponse { images: vec![written] }.encode_to_vec();
        let read: Vec<_> = pb::ListImagesResponse::decode(wire.as_slice()).unwrap().into_items().collect();
        assert_eq!(
            serde_json::to_value(read).unwrap(),
            serde_json::json!([{
                "id": "sha256:aa", "tags": ["docker.io/library/a:1"], "digests": ["docker.io/library/a@sha256:01"],
                "size_bytes": 7, "pinned": true
            }])
        );
    }

    #[test]
    fn unimplemented_means_no_streaming_only_before_the_first_batch() {
        let status = || Status::unimplemented("unknown method StreamContainers");
        assert_eq!(broken_off(status(), false).code(), Code::Unimplemented);
        assert_eq!(broken_off(status(), true).code(), Code::Internal);
    }
}
