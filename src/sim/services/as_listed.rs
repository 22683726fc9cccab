//! What a runtime lists and reports in forms that the other builders never make: names that are no names, a store that
//! cannot be written, any configuration.

use crate::sim::sim_node::Node;

// === impl Node ===

impl Node {
    /// Adds an image that is listed with exactly these tags and digests.
    #[must_use]
    pub fn image_as_listed(mut self, id: &str, tags: &[&str], digests: &[&str], bytes: u64) -> Self {
        self.images.add_as_listed(id, tags, digests, bytes);
        id.clone_into(&mut self.cursor.image);
        self
    }

    /// Puts the last image into a store that cannot be written: its removal succeeds and has no effect, as in CRI-O with an
    /// additional image store.
    #[must_use]
    pub fn in_read_only_store(mut self) -> Self {
        self.images.make_read_only(&self.cursor.image);
        self
    }

    /// Sets the configuration in the verbose status.
    #[must_use]
    pub fn reported_config(mut self, text: &str) -> Self {
        self.runtime.config = Some(text.to_owned());
        self
    }
}
