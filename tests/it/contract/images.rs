//! The contract for images.

use kubegc::cri::Only;
use kubegc::cri::generated as pb;
use kubegc::model::{ContainerState, ImageId};

use super::{Runtime, SINGLE, Subject, TWICE, sorted};

/// An image has one entry, however many names it has. CRI-O lists ids without `sha256:`.
pub async fn what_was_imported_is_listed<R: Runtime>(subject: Subject<R>) {
    let list = subject.reader.images().await.unwrap();
    let mut twice = list.iter().filter(|image| image.tags.contains(&TWICE[0].to_owned()));
    let (listed, none) = (twice.next().unwrap(), twice.next());
    assert_eq!(none, None);
    assert_eq!(sorted(listed.tags.clone()), TWICE);
    assert_ne!(listed.id.as_str().starts_with("sha256:"), subject.is_crio().await, "{}", listed.id);
    assert!(listed.size_bytes > 0 && !listed.pinned, "{listed:?}");
    let single = list.iter().find(|image| image.tags == [SINGLE]).unwrap();
    assert_ne!(single.id, listed.id);
}

/// An image is found by its ID, by each tag, and by the digits that users copy. The filter of the list is not reliable:
/// containerd ignores it.
pub async fn an_image_is_found_by_each_of_its_names<R: Runtime>(subject: Subject<R>) {
    let id = subject.image_id(TWICE[0]).await;
    let digits = id.as_str().trim_start_matches("sha256:");
    for name in [id.as_str(), TWICE[0], TWICE[1], digits, &digits[..12]] {
        assert_eq!(subject.reader.image(name).await.unwrap().map(|image| image.id), Some(id.clone()), "{name}");
    }
}

/// The result is no image and no error.
pub async fn an_unknown_image_is_not_found<R: Runtime>(subject: Subject<R>) {
    let unknown_id = format!("sha256:{}", "0".repeat(64));
    for name in ["docker.io/library/missing:1", &unknown_id, "0123456789ab"] {
        assert!(!subject.has_image(name).await, "{name}");
    }
}

/// The configuration of an image is under the same keys in each runtime.
pub async fn an_image_has_the_labels_of_its_configuration<R: Runtime>(subject: Subject<R>) {
    let id = subject.image_id(SINGLE).await;
    let details = subject.reader.image_details(&id).await.unwrap().unwrap();
    assert_eq!(details.labels.unwrap().get("made-as").map(String::as_str), Some(SINGLE));
    assert_eq!(details.created_at, Some("2020-01-01T00:00:00Z".parse().unwrap()));
    let (single, twice) = (details.layers.unwrap(), subject.image_id(TWICE[0]).await);
    let twice = subject.reader.image_details(&twice).await.unwrap().unwrap().layers.unwrap();
    assert!(single.iter().any(|layer| twice.contains(layer)), "they share a layer: {single:?} {twice:?}");
    let unknown = format!("sha256:{}", "0".repeat(64));
    assert_eq!(subject.reader.image_details(&ImageId::from(unknown)).await.unwrap(), None);
}

/// We remove by ID and rely on nothing being left.
pub async fn removal_by_id_takes_every_name<R: Runtime>(subject: Subject<R>) {
    let id = subject.image_id(TWICE[0]).await;
    subject.writer.remove_image(&id).await.unwrap();
    for name in [id.as_str(), TWICE[0], TWICE[1]] {
        assert!(!subject.has_image(name).await, "{name}");
    }
    assert!(subject.reader.images().await.unwrap().iter().all(|image| image.id != id));
    assert!(subject.has_image(SINGLE).await);
}

/// This is why we never remove an image by name: the other names are removed too. CRI-O removes the one name, and keeps the
/// image.
pub async fn removal_by_one_name_takes_every_name<R: Runtime>(subject: Subject<R>) {
    subject.writer.remove_image(&TWICE[1].into()).await.unwrap();
    assert_eq!(subject.has_image(TWICE[0]).await, subject.is_crio().await);
    assert!(!subject.has_image(TWICE[1]).await);
}

/// The contract is about the call itself, not only about our writer.
pub async fn removing_twice_or_the_unknown_is_fine<R: Runtime>(subject: Subject<R>) {
    let id = subject.image_id(SINGLE).await;
    for name in [id.as_str(), id.as_str(), "docker.io/library/missing:1"] {
        let image = Some(pb::ImageSpec { image: name.to_owned(), ..pb::ImageSpec::default() });
        subject.images.clone().remove_image(pb::RemoveImageRequest { image }).await.unwrap();
        assert!(!subject.has_image(name).await, "{name}");
    }
}

/// containerd removes the image of a running container, so the caller has to check first (I6). CRI-O refuses it. Either way
/// the container continues to run and still refers to the image.
pub async fn an_image_in_use_is_kept_or_its_container_runs_on<R: Runtime>(subject: Subject<R>) {
    let image = subject.image_id(SINGLE).await;
    let pod = subject.pod("web-0", "uid-0").await;
    let id = subject.running(&pod, "app").await;
    let is_refused = subject.writer.remove_image(&image).await.is_err();
    assert_eq!(is_refused, subject.is_crio().await);
    assert_eq!(subject.has_image(SINGLE).await, is_refused);
    assert_eq!(subject.state(&id).await, Some(ContainerState::Running));
    assert_eq!(subject.containers(Only::All).await[0].image_id.as_deref(), Some(image.as_str()));
}

/// The removal of an image reclaims only what no other image uses.
pub async fn a_shared_layer_survives_one_of_its_images<R: Runtime>(subject: Subject<R>) {
    let image = subject.image_id(SINGLE).await;
    subject.writer.remove_image(&image).await.unwrap();
    let pod = subject.pod("web-0", "uid-0").await;
    let id = subject.created_from(&pod, "app", TWICE[0]).await;
    subject.start(&id).await.unwrap();
    assert_eq!(subject.state(&id).await, Some(ContainerState::Running));
}

/// The image has the same ID again.
pub async fn an_image_comes_again_after_its_removal<R: Runtime>(subject: Subject<R>) {
    let id = subject.image_id(TWICE[0]).await;
    subject.writer.remove_image(&id).await.unwrap();
    subject.host.import_images().await;
    assert_eq!(subject.image_id(TWICE[1]).await, id);
}

// === impl Subject ===

impl<R: Runtime> Subject<R> {
    /// Returns the ID of an image that exists.
    async fn image_id(&self, name: &str) -> ImageId {
        self.reader.image(name).await.unwrap().unwrap().id
    }
}
