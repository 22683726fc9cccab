//! A configuration of crictl, and one of kubegc with the same text.
#![no_main]

use std::sync::LazyLock;

use kubegc::config::{Environment, Typed, load};
use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;

static DIR: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().expect("a directory"));

fuzz_target!(|text: &[u8]| {
    let (crictl, own) = (DIR.path().join("crictl.yaml"), DIR.path().join("kubegc.toml"));
    std::fs::write(&crictl, text).expect("the file can be written");
    std::fs::write(&own, "").expect("the file can be written");
    let environment = Environment { crictl_config: Some(crictl.clone()), ..Environment::default() };
    let _ = load(&Typed { config: Some(own), ..Typed::default() }, &environment);
    let _ = load(&Typed { config: Some(crictl), ..Typed::default() }, &Environment::default());
});
