//! A configuration of the kubelet.
#![no_main]

use std::sync::LazyLock;

use kubegc::config::{Environment, Typed, load};
use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;

static DIR: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().expect("a directory"));

fuzz_target!(|text: &[u8]| {
    let (file, own) = (DIR.path().join("kubelet.yaml"), DIR.path().join("kubegc.toml"));
    std::fs::write(&file, text).expect("the file can be written");
    std::fs::write(&own, "").expect("the file can be written");
    let typed = Typed { config: Some(own), kubelet_config: Some(file), ..Typed::default() };
    if let Ok(loaded) = load(&typed, &Environment::default()) {
        let _ = loaded.warnings();
    }
});
