//! What a command reads: this node, a document, and the object that a word names.

pub(super) mod cluster;
pub(super) mod documents;
pub mod listed_images;
pub(super) mod lookup;
pub(super) mod one_document;
pub(super) mod session;
