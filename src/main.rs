//! The `kubegc` command.

use std::process::ExitCode;

/// A pass over 10,000 containers leaves free memory in many small pieces between what the agent keeps. glibc does not
/// return them to the system (20 MiB stay in use), jemalloc does (less than 6 MiB; `cargo bench --bench whole`). The settings of
/// jemalloc are in `.cargo/config.toml`.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    kubegc::cli::main()
}
