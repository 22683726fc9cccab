//! The SQLite file: opened, migrated, copied, written and read. A fault of it has a name.

pub(super) mod copy;
pub(super) mod fault;
pub(super) mod file;
pub(super) mod migrations;
pub(super) mod mirror;
pub(super) mod rows;
