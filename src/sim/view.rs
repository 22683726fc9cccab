//! The real objects of the node, independent of the faults in its answers.

use super::sim_node::Node;
use crate::cri::generated as pb;

// === impl Node ===

impl Node {
    /// Returns every container, as a list without a fault shows it.
    pub fn containers(&self) -> Vec<pb::Container> {
        self.list_containers(None)
    }

    /// Returns every sandbox, as a list without a fault shows it.
    pub fn sandboxes(&self) -> Vec<pb::PodSandbox> {
        self.list_sandboxes(None)
    }

    /// Returns every image, as a list without a fault shows it.
    pub fn images(&self) -> Vec<pb::Image> {
        self.list_images()
    }

    /// Returns the images that containers mount as volumes, by id or by the name that was mounted.
    pub fn image_volumes(&self) -> Vec<String> {
        let mounts = self.containers.iter().flat_map(|container| &container.mounts);
        mounts.filter_map(|mount| Some(mount.image.as_ref()?.image.clone())).collect()
    }
}
