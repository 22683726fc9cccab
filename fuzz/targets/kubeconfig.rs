//! A kubeconfig, and the client that results.
#![no_main]

use std::sync::LazyLock;

use kubegc::kubernetes::{Connection, CredentialCandidates};
use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

static DIR: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().expect("a directory"));
static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_current_thread().enable_all().build().expect("tokio"));

fuzz_target!(|text: &[u8]| {
    let path = DIR.path().join("kubeconfig");
    std::fs::write(&path, text).expect("the file can be written");
    let candidates = CredentialCandidates { kubeconfigs: vec![path], ..CredentialCandidates::default() };
    // The client opens no connection before the first request. A plugin is never run.
    let _ = RUNTIME.block_on(Connection::new(candidates).client());
});
