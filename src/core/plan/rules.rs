//! The cleanup rules in a plan: which rule applies to an object, and the facts that conditions read.

pub(super) mod book;
pub(super) mod image_rules;
pub(super) mod object_facts;
