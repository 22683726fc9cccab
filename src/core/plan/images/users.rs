//! The containers that use each image, for display. Decisions use `image_use`.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use super::uses::by_id;
use crate::model::{Container, Image, Snapshot, canonical_image_id, full_image_name};
use crate::plan::policy::guards::Guards;

/// The containers that use an image, by each name that refers to it.
pub struct ImageUsers<'a>(HashMap<Cow<'a, str>, Vec<&'a Container>>);

/// Returns the images of a snapshot, one for each ID, as a plan sees them.
pub fn images(snapshot: &Snapshot, guards: &Guards) -> Vec<Image> {
    let images = snapshot.images.as_ref().map(Vec::as_slice).unwrap_or_default();
    by_id(images, guards).into_values().collect()
}

// === impl ImageUsers ===

impl<'a> ImageUsers<'a> {
    /// Collects the containers of a snapshot.
    pub fn new(snapshot: &'a Snapshot) -> Self {
        let mut users: HashMap<Cow<str>, Vec<&Container>> = HashMap::new();
        for container in snapshot.listed_containers().into_iter().flatten() {
            let ids = container.image_id.iter().chain(&container.image_volumes).map(|id| canonical_image_id(id));
            for name in ids.chain(container.image.as_deref().map(full_image_name)) {
                users.entry(name).or_default().push(container);
            }
        }
        Self(users)
    }

    /// Returns the containers that use an image or have it mounted, in any state, sorted by pod and name.
    pub fn of(&self, image: &Image) -> Vec<&'a Container> {
        let users = image.names().filter_map(|name| self.0.get(name.as_ref())).flatten();
        let key = |container: &&'a Container| {
            let pod = container.pod.as_ref().map(ToString::to_string);
            ((pod, &container.name, container.attempt, &container.id), *container)
        };
        users.map(key).collect::<BTreeMap<_, _>>().into_values().collect()
    }
}
