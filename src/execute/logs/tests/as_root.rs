//! Tests that mount file systems. Each uses its own mount namespace, which ends with its thread.

use nix::mount::{MsFlags, mount};

use super::*;
use crate::testing::frozen_disk::apart;

const NONE: Option<&str> = None;

/// Bind-mounts a directory or a file.
pub(in crate::execute) fn bind(from: &Path, to: &Path) {
    mount(Some(from), to, NONE, MsFlags::MS_BIND, NONE).unwrap();
}

#[test]
fn bind_mounts_in_a_pod_directory_are_not_entered() {
    apart(|| {
        let host = Host::new();
        fs::create_dir(host.pod().join("mounted")).unwrap();
        host.file("var/log/pods/default_web_uid-1/app/0.log");
        let before = host.outside();
        bind(&host.at("etc"), &host.pod().join("mounted"));

        let error = host.remove_pod().unwrap_err();

        assert!(matches!(error, LogError::Blocked { .. }), "{error}");
        assert_eq!(host.outside(), before);
        assert_eq!(names(&host.pod()), ["mounted"]);
    });
}

#[test]
fn a_bind_mounted_pod_directory_is_foreign() {
    apart(|| {
        let host = Host::new();
        let before = host.outside();
        bind(&host.at("etc"), &host.pod());
        assert!(host.remove_pod().unwrap_err().is_foreign());
        assert!(host.remove_logs("/var/log/pods/default_web_uid-1/passwd").unwrap_err().is_foreign());
        assert_eq!(host.outside(), before);
    });
}

#[test]
fn a_file_mounted_over_a_log_file_stays() {
    apart(|| {
        let host = Host::new();
        host.file("var/log/pods/default_web_uid-1/app/0.log");
        let before = host.outside();
        bind(&host.at("etc/passwd"), &host.pod().join("app/0.log"));
        let error = host.remove_logs("/var/log/pods/default_web_uid-1/app/0.log").unwrap_err();
        assert!(matches!(error, LogError::Io { .. }), "{error}");
        assert!(host.remove_pod().is_err());
        assert_eq!(host.outside(), before);
    });
}

#[test]
fn another_file_system_in_a_pod_directory_is_kept() {
    apart(|| {
        let host = Host::new();
        mount(Some("none"), &host.pod().join("app"), Some("tmpfs"), MsFlags::empty(), NONE).unwrap();
        host.file("var/log/pods/default_web_uid-1/app/0.log");
        assert!(host.remove_pod().is_err());
        assert_eq!(names(&host.pod().join("app")), ["0.log"]);
    });
}

#[test]
fn a_separately_mounted_root_is_garbage_collected() {
    apart(|| {
        let host = Host::new();
        bind(&host.at("etc"), &host.at("var/log/pods"));
        host.roots.remove_dir(&OsString::from("sub")).unwrap();
        assert_eq!(names(&host.at("etc")), ["passwd"]);
    });
}
