//! The `kubegc` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    kubegc::cli::main()
}
