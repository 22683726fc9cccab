//! The program that a benchmark measures.

/// Returns the program of a release, which `KUBEGC_BINARY` names; else that of this build, which is larger.
pub fn kubegc() -> String {
    std::env::var("KUBEGC_BINARY").unwrap_or_else(|_| env!("CARGO_BIN_EXE_kubegc").to_owned())
}
