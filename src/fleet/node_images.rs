//! `NodeImages`: which images are on a node, as hashes of their names, so that many fit into one object. It answers which nodes have an image
//! that is asked for, and no agent reads it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jiff::Timestamp;
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::list_entry::Entry;
use crate::model::Image;

/// The most hashes of an object: as text they have 64 KiB. A node with 1,500 images has about as many.
const MOST_HASHES: usize = 6144;
/// An agent writes the same images again this often: another may have deleted the object.
pub const IMAGES_HEARTBEAT: Duration = Duration::from_hours(1);
const BYTES: usize = size_of::<u64>();

/// The images of a node.
#[derive(Clone, CustomResource, Debug, Default, Deserialize, KubeSchema, PartialEq, Serialize)]
#[kube(
    group = "kubegc.dev",
    version = "v1alpha1",
    kind = "NodeImages",
    plural = "nodeimages",
    shortname = "nim",
    category = "kubegc",
    derive = "PartialEq",
    label("app.kubernetes.io/name", "kubegc"),
    doc = "The images on a node, as hashes of their names, as the agent of kubegc on that node shows them.",
    printcolumn = r#"{"name":"Images","type":"integer","jsonPath":".spec.images"}"#,
    printcolumn = r#"{"name":"Changed","type":"date","jsonPath":".spec.at"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct NodeImagesSpec {
    /// When the agent wrote this. It writes it again when the images changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// How many images the node has.
    #[schemars(with = "i64")]
    pub images: u64,
    /// Whether the hashes of all of them are here.
    pub complete: bool,
    /// The first 8 bytes of the SHA-256 of each id, name with a tag, digest and repository, in order and in Base64.
    #[schemars(length(max = 65_536))]
    pub hashes: String,
}

/// The hashes of what names the images of a node.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ImageHashes {
    /// How many images there are.
    pub images: u64,
    /// A digest of the hashes as text: the same images have the same.
    pub digest: String,
    sorted: Arc<[u64]>,
}

// === impl ImageHashes ===

impl ImageHashes {
    /// Returns those of these images.
    pub fn of(images: &[Image]) -> Self {
        let all: BTreeSet<u64> = images.iter().flat_map(names_of).map(|name| hash(name.as_bytes())).collect();
        let sorted: Arc<[u64]> = all.into_iter().collect();
        Self { images: images.len() as u64, digest: format!("{:016x}", hash(&bytes_of(&sorted))), sorted }
    }

    /// Returns what the node shows of them.
    pub fn shown(&self, now: Timestamp) -> NodeImagesSpec {
        let shown = self.sorted.get(..MOST_HASHES);
        let hashes = BASE64_STANDARD.encode(bytes_of(shown.unwrap_or(&self.sorted)));
        NodeImagesSpec { at: Some(now), images: self.images, complete: shown.is_none(), hashes }
    }
}

// === impl NodeImagesSpec ===

impl NodeImagesSpec {
    /// Returns whether its agent wrote it lately. One that ended, or no longer shows images, leaves its last object.
    pub(super) fn is_current(&self, now: Timestamp) -> bool {
        self.at.is_some_and(|at| now.duration_since(at).unsigned_abs() < 2 * IMAGES_HEARTBEAT)
    }

    /// Returns whether the node has an image that an entry means; `None` = it is not known.
    pub(super) fn has(&self, entry: &Entry) -> Option<bool> {
        let bytes = BASE64_STANDARD.decode(&self.hashes).ok()?;
        let is_there =
            |name: &String| bytes.chunks_exact(BYTES).any(|known| known == hash(name.as_bytes()).to_be_bytes());
        let has = entry.keys().iter().all(is_there);
        (has || self.complete).then_some(has)
    }
}

/// Returns the texts by which an entry can mean an image.
fn names_of(image: &Image) -> impl Iterator<Item = String> {
    let tags = image.tags.iter().flat_map(|tag| {
        let repository = tag.rsplit_once(':').map(|(repository, _)| repository.to_owned());
        [Some(tag.clone()), repository].into_iter().flatten()
    });
    let digests = image.digests.iter().filter_map(|name| name.split_once('@'));
    let digests = digests.flat_map(|(repository, digest)| [repository, digest].map(str::to_owned));
    tags.chain(digests).chain([image.id.canonical().into_owned()])
}

fn bytes_of(hashes: &[u64]) -> Vec<u8> {
    hashes.iter().flat_map(|hash| hash.to_be_bytes()).collect()
}

fn hash(bytes: &[u8]) -> u64 {
    let first = Sha256::digest(bytes).first_chunk::<BYTES>().copied();
    first.map(u64::from_be_bytes).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::{ImageState, StatusImages, WantedImage};

    const DIGEST: &str = "sha256:0123456789012345678901234567890123456789012345678901234567890123";

    fn image(id: &str, tag: &str, digests: &[String]) -> Image {
        Image { id: id.into(), tags: vec![tag.to_owned()], digests: digests.to_vec(), ..Image::default() }
    }

    fn state(wanted: &str, shown: Option<&NodeImagesSpec>, listed: &StatusImages) -> ImageState {
        state_at(0, wanted, shown, listed)
    }

    fn state_at(second: i64, wanted: &str, shown: Option<&NodeImagesSpec>, listed: &StatusImages) -> ImageState {
        let now = Timestamp::from_second(second).unwrap();
        WantedImage::read(wanted).unwrap().on("node-1", shown, listed, now).state
    }

    #[test]
    fn a_node_with_hashes_has_an_image_by_each_of_its_names() {
        let id = DIGEST.replace('0', "f");
        let digest = format!("docker.io/library/app@{DIGEST}");
        let shown = ImageHashes::of(&[image(&id, "docker.io/library/app:1", &[digest])]).shown(Timestamp::UNIX_EPOCH);
        let rows = [
            ("app:1", ImageState::Present),
            ("app", ImageState::Present),
            (DIGEST, ImageState::Present),
            (&id, ImageState::Present),
            (&format!("app@{DIGEST}"), ImageState::Present),
            ("app:2", ImageState::Absent),
            ("ap", ImageState::Absent),
            (&format!("other@{DIGEST}"), ImageState::Absent),
        ];
        for (wanted, expected) in rows {
            assert_eq!(state(wanted, Some(&shown), &StatusImages::default()), expected, "{wanted}");
        }
        let later = [7199, 7200].map(|second| state_at(second, "app:2", Some(&shown), &StatusImages::default()));
        assert_eq!(later, [ImageState::Absent, ImageState::Unknown], "its agent has ended");
    }

    #[test]
    fn the_digest_is_of_the_images_and_not_of_their_order() {
        let [one, other] = [image("1", "a:1", &[]), image("2", "b:1", &[])];
        let digest =
            |images: &[&Image]| ImageHashes::of(&images.iter().map(|it| (*it).clone()).collect::<Vec<_>>()).digest;
        assert_eq!(digest(&[&one, &other]), digest(&[&other, &one]));
        assert_ne!(digest(&[&one]), digest(&[&other]));
        assert_eq!(digest(&[&one]).len(), 16);
    }

    /// What does not fit is not known to be absent.
    #[test]
    fn an_object_has_a_limit() {
        let images: Vec<_> =
            (0..5000).map(|number| image(&number.to_string(), &format!("r.example/{number}:1"), &[])).collect();
        let shown = ImageHashes::of(&images).shown(Timestamp::UNIX_EPOCH);
        assert_eq!((shown.hashes.len(), shown.complete, shown.images), (65_536, false, 5000));
        let states = |name: &str| state(name, Some(&shown), &StatusImages::default());
        assert_eq!(states("r.example/none:1"), ImageState::Unknown);
        assert!((0..5000).any(|number| states(&format!("r.example/{number}:1")) == ImageState::Present));
        let whole = ImageHashes::of(&images[..1500]).shown(Timestamp::UNIX_EPOCH);
        assert!(whole.complete);
    }

    #[test]
    fn a_node_without_hashes_lists_its_largest_images() {
        let listed = |images: usize, name: &str| {
            let image = |number| serde_json::json!({ "names": [format!("docker.io/library/{number}:1"), name] });
            let images: Vec<_> = (0..images).map(image).collect();
            serde_json::from_value::<StatusImages>(serde_json::json!({ "images": images })).unwrap()
        };
        let (few, many) =
            (listed(49, "docker.io/library/app:1"), listed(50, &format!("docker.io/library/app@{DIGEST}")));
        assert_eq!(
            ["app:1", "app:2", DIGEST].map(|name| state(name, None, &few)),
            [ImageState::Present, ImageState::Absent, ImageState::Unknown]
        );
        assert_eq!(["app:1", DIGEST].map(|name| state(name, None, &many)), [ImageState::Unknown, ImageState::Present]);
        assert_eq!(state("app:1", None, &StatusImages::default()), ImageState::Unknown);
    }
}
