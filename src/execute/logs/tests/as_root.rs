//! Tests that mount file systems. Each uses its own mount namespace, which ends with its thread.

use std::collections::BTreeSet;

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

/// Mounts a file system of so many KiB.
fn tmpfs(at: &Path, kib: u64) {
    mount(Some("tmpfs"), at, Some("tmpfs"), MsFlags::empty(), Some(&*format!("size={kib}k"))).unwrap();
}

const LOG: &str = "var/log/pods/default_web_uid-1/app/0.log";

#[test]
fn an_archive_on_another_mount_is_not_used() {
    apart(|| {
        let host = Host::new();
        host.file(LOG);
        fs::create_dir_all(host.at("var/log/kubegc/archive/default_web_uid-1")).unwrap();
        for at in ["var/log/kubegc/archive/default_web_uid-1", "var/log/kubegc/archive", "var/log/kubegc"] {
            tmpfs(&host.at(at), 64);
            let refused = match host.roots.archive_logs(None, &BTreeSet::new()) {
                Ok(done) => done.refused.into_iter().next().unwrap(),
                Err(error) => error,
            };
            assert!(refused.to_string().contains("another file system is mounted there"), "{at}: {refused}");
            nix::mount::umount(&host.at(at)).unwrap();
        }
        bind(&host.at("var/log/pods"), &host.at("var/log/pods"));
        let cause = host.roots.archive_logs(None, &BTreeSet::new()).unwrap_err().to_string();
        assert!(cause.contains("it is on another mount than the pod log root"), "{cause}");
        assert_eq!(fs::metadata(host.at(LOG)).unwrap().nlink(), 1);
    });
}

/// A name costs no space where the directory has room for it; what is known of the pod does.
#[test]
fn on_a_full_disk_logs_are_archived_and_documents_stay_as_they_were() {
    apart(|| {
        let host = Host::new();
        tmpfs(&host.at("var/log"), 64);
        fs::create_dir_all(host.at(LOG).parent().unwrap()).unwrap();
        host.file(LOG);
        host.roots.archive_logs(None, &BTreeSet::new()).unwrap();
        assert!(host.roots.describe_pods(vec![super::archive::seen(0, Some(1))]).unwrap().is_empty());
        let before = super::archive::instances(&host);
        let full = fs::write(host.at("var/log/ballast"), vec![1; 1 << 20]).unwrap_err();
        assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
        let failed = host.roots.describe_pods(vec![super::archive::seen(1, None)]).unwrap();
        assert!(failed.len() == 1 && failed[0].to_string().starts_with("cannot write"), "{failed:?}");
        assert_eq!(super::archive::instances(&host), before);
        fs::rename(host.at(LOG), host.at(LOG).with_file_name("0.log.30260102-000000")).unwrap();
        assert!(host.roots.archive_logs(None, &BTreeSet::new()).unwrap().refused.is_empty());
        fs::remove_file(host.at("var/log/ballast")).unwrap();
        assert!(host.roots.describe_pods(vec![super::archive::seen(1, None)]).unwrap().is_empty());
        assert_eq!(super::archive::instances(&host), [(0, Some(1)), (1, None)]);
    });
}
