//! Files with settings.

use std::sync::LazyLock;

use kubegc::config::{Environment, Typed, load};
use kubegc::kubernetes::{Connection, CredentialCandidates};
use tempfile::TempDir;

use super::{RUNTIME, dir};

/// A kubeconfig, and the client that results.
pub fn kubeconfig(text: &[u8]) {
    static DIR: LazyLock<TempDir> = LazyLock::new(dir);
    let path = DIR.path().join("kubeconfig");
    std::fs::write(&path, text).expect("the file can be written");
    let candidates = CredentialCandidates { kubeconfigs: vec![path], ..CredentialCandidates::default() };
    // The client opens no connection before the first request. A plugin is never run.
    let _ = RUNTIME.block_on(Connection::new(candidates).cluster());
}

/// A configuration of the kubelet.
pub fn kubelet_config(text: &[u8]) {
    static DIR: LazyLock<TempDir> = LazyLock::new(dir);
    let (file, own) = (DIR.path().join("kubelet.yaml"), DIR.path().join("kubegc.toml"));
    std::fs::write(&file, text).expect("the file can be written");
    std::fs::write(&own, "").expect("the file can be written");
    let typed = Typed { config: Some(own), kubelet_config: Some(file), ..Typed::default() };
    if let Ok(loaded) = load(&typed, &Environment::default()) {
        let _ = loaded.warnings();
    }
}

/// A configuration of crictl, and one of kubegc with the same text.
pub fn crictl_config(text: &[u8]) {
    static DIR: LazyLock<TempDir> = LazyLock::new(dir);
    let (crictl, own) = (DIR.path().join("crictl.yaml"), DIR.path().join("kubegc.toml"));
    std::fs::write(&crictl, text).expect("the file can be written");
    std::fs::write(&own, "").expect("the file can be written");
    let environment = Environment { crictl_config: Some(crictl.clone()), ..Environment::default() };
    let _ = load(&Typed { config: Some(own), ..Typed::default() }, &environment);
    let _ = load(&Typed { config: Some(crictl), ..Typed::default() }, &Environment::default());
}
