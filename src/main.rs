//! The `kubegc` command.

fn main() {}
