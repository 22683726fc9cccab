//! Which nodes have an image, for `kubegc fleet images`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::model::ImageName;

/// The kubelet lists so many images in the status of its Node, the largest (`nodeStatusMaxImages`).
const MOST_LISTED: usize = 50;
/// Of each it lists so many names (`MaxNamesPerImageInNodeStatus`).
const MOST_NAMES: usize = 5;

#[derive(Clone, Copy, Debug, Eq, IntoStaticStr, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum ImageState {
    /// A pod of the node uses it.
    Used,
    /// The node has it, and no pod names it so.
    Present,
    /// It is not known: the node has more images than its Node lists.
    Unknown,
    /// The node does not have it.
    Absent,
}

#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct FleetImage {
    pub node: String,
    pub state: ImageState,
    /// The pods that use it, as namespace/name.
    pub used_by: Vec<String>,
}

/// What the Node of a node has in its status: its largest images.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct StatusImages {
    images: Vec<StatusImage>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct StatusImage {
    names: Vec<String>,
}

// === impl StatusImages ===

impl StatusImages {
    /// Returns whether one of them has this name. A Node lists no ids, so an id that it does not list is not known to be absent.
    fn has(&self, wanted: &ImageName) -> Option<bool> {
        let has = self.images.iter().any(|image| wanted.is_among(&image.names));
        let is_whole = !self.images.is_empty()
            && self.images.len() < MOST_LISTED
            && self.images.iter().all(|image| image.names.len() < MOST_NAMES);
        (has || is_whole && !wanted.is_id()).then_some(has)
    }
}

// === impl FleetImage ===

impl FleetImage {
    /// Returns whether a node has an image, by what its Node lists.
    pub fn on(node: &str, wanted: &ImageName, listed: &StatusImages) -> Self {
        let state = match listed.has(wanted) {
            Some(true) => ImageState::Present,
            Some(false) => ImageState::Absent,
            None => ImageState::Unknown,
        };
        Self { node: node.to_owned(), state, used_by: Vec::new() }
    }

    /// Adds the pods of the node that use the image.
    pub fn add_users(&mut self, users: Vec<String>) {
        if !users.is_empty() {
            (self.state, self.used_by) = (ImageState::Used, users);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:0123456789012345678901234567890123456789012345678901234567890123";

    fn state(wanted: &str, listed: &StatusImages) -> ImageState {
        FleetImage::on("node-1", &wanted.into(), listed).state
    }

    #[test]
    fn a_node_lists_its_largest_images() {
        let listed = |images: usize, name: &str| {
            let image = |number| serde_json::json!({ "names": [format!("docker.io/library/{number}:1"), name] });
            let images: Vec<_> = (0..images).map(image).collect();
            serde_json::from_value::<StatusImages>(serde_json::json!({ "images": images })).unwrap()
        };
        let (few, many) =
            (listed(49, "docker.io/library/app:1"), listed(50, &format!("docker.io/library/app@{DIGEST}")));
        assert_eq!(
            ["app:1", "app:2", DIGEST].map(|name| state(name, &few)),
            [ImageState::Present, ImageState::Absent, ImageState::Unknown]
        );
        assert_eq!(["app:1", DIGEST].map(|name| state(name, &many)), [ImageState::Unknown, ImageState::Present]);
        assert_eq!(state("app:1", &StatusImages::default()), ImageState::Unknown);
    }
}
