//! Tests of log roots with every kind of entry that a pod or a user can create.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use super::*;

fn host() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let host = tempfile::tempdir().unwrap();
    let (pods, containers) = (host.path().join("var/log/pods"), host.path().join("var/log/containers"));
    fs::create_dir_all(&pods).unwrap();
    fs::create_dir_all(&containers).unwrap();
    (host, pods, containers)
}

fn kinds(dirs: &[LogDir]) -> Vec<(&str, EntryKind)> {
    dirs.iter().map(|dir| (dir.name.as_str(), dir.entry)).collect()
}

fn targets(links: &[LogLink]) -> Vec<(&str, LinkTarget)> {
    links.iter().map(|link| (link.name.as_str(), link.target)).collect()
}

#[test]
fn each_pod_root_entry_is_listed_with_its_type() {
    let (_host, pods, _) = host();
    fs::create_dir(pods.join("default_web-0_u1")).unwrap();
    fs::write(pods.join("file"), "").unwrap();
    symlink("/etc", pods.join("link-to-a-directory")).unwrap();
    symlink("/nowhere", pods.join("link-to-nowhere")).unwrap();
    let _socket = UnixListener::bind(pods.join("socket")).unwrap();
    fs::create_dir(pods.join("with\nnewline")).unwrap();
    let long = "x".repeat(255);
    fs::create_dir(pods.join(&long)).unwrap();
    let listed = dirs(&pods).unwrap();
    assert_eq!(
        kinds(&listed),
        [
            ("default_web-0_u1", EntryKind::Directory),
            ("file", EntryKind::File),
            ("link-to-a-directory", EntryKind::Symlink),
            ("link-to-nowhere", EntryKind::Symlink),
            ("socket", EntryKind::Other),
            ("with\nnewline", EntryKind::Directory),
            (long.as_str(), EntryKind::Directory),
        ]
    );
}

#[test]
fn the_time_of_a_link_is_its_own() {
    let (_host, pods, _) = host();
    let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
    let target = pods.join("a_old_u1");
    fs::create_dir(&target).unwrap();
    fs::File::open(&target).unwrap().set_modified(old).unwrap();
    symlink(&target, pods.join("b_link_u2")).unwrap();
    let listed = dirs(&pods).unwrap();
    assert_eq!(listed[0].modified_at, Some(Timestamp::from_second(1_000_000).unwrap()));
    assert!(listed[1].modified_at > listed[0].modified_at);
}

#[test]
fn names_that_are_not_utf8_are_left_out() {
    let (host, pods, containers) = host();
    let odd = OsStr::from_bytes(b"default_\xff_u1.log");
    fs::create_dir(pods.join(odd)).unwrap();
    symlink("/nowhere", containers.join(odd)).unwrap();
    assert_eq!(dirs(&pods).unwrap(), []);
    assert_eq!(links(&HostFs::new(host.path()), &containers, &containers).unwrap(), []);
}

/// Creates links as the kubelet makes them, and links that it never makes. Absolute links are paths of the host.
fn plant(pods: &Path, containers: &Path, as_host: &Path) {
    let of_host = |path: &str| as_host.join(path);
    fs::create_dir_all(pods.join("default_web-0_u1/app")).unwrap();
    fs::write(pods.join("default_web-0_u1/app/0.log"), "").unwrap();
    let log = of_host("var/log/pods/default_web-0_u1/app/0.log");
    for (link, target) in [
        ("alive.log", log.clone()),
        ("chain.log", of_host("var/log/containers/alive.log")),
        ("relative.log", "../pods/default_web-0_u1/app/0.log".into()),
        ("to-a-directory.log", of_host("var/log/pods")),
        ("dangling.log", of_host("var/log/pods/default_web-0_u1/app/1.log")),
        ("chain-to-nowhere.log", of_host("var/log/containers/dangling.log")),
        ("no-directory.log", of_host("nowhere/0.log")),
        ("loop.log", of_host("var/log/containers/loop.log")),
        ("loop-a.log", "loop-b.log".into()),
        ("loop-b.log", "loop-a.log".into()),
        ("through-a-file.log", log.join("x")),
        ("dangling.txt", of_host("nowhere")),
    ] {
        symlink(target, containers.join(link)).unwrap();
    }
    fs::write(containers.join("file.log"), "").unwrap();
    fs::create_dir(containers.join("directory.log")).unwrap();
}

const TARGETS: [(&str, LinkTarget); 13] = [
    ("alive.log", LinkTarget::Exists),
    ("chain-to-nowhere.log", LinkTarget::Missing),
    ("chain.log", LinkTarget::Exists),
    ("dangling.log", LinkTarget::Missing),
    ("directory.log", LinkTarget::Exists),
    ("file.log", LinkTarget::Exists),
    ("loop-a.log", LinkTarget::Unknown),
    ("loop-b.log", LinkTarget::Unknown),
    ("loop.log", LinkTarget::Unknown),
    ("no-directory.log", LinkTarget::Missing),
    ("relative.log", LinkTarget::Exists),
    ("through-a-file.log", LinkTarget::Unknown),
    ("to-a-directory.log", LinkTarget::Exists),
];

#[test]
fn a_link_dangles_only_if_a_hop_is_missing() {
    let (host, pods, containers) = host();
    plant(&pods, &containers, host.path());
    assert_eq!(targets(&links(&HostFs::default(), &containers, &pods).unwrap()), TARGETS);
}

#[test]
fn every_link_hop_is_resolved_under_the_host_root() {
    let (host, pods, containers) = host();
    plant(&pods, &containers, Path::new("/"));
    let listed = || links(&HostFs::new(host.path()), &containers, Path::new("/var/log/pods")).unwrap();
    // What is missing outside of the log roots may be on a disk that the agent's container lacks.
    let expected =
        TARGETS.map(|(name, target)| (name, if name == "no-directory.log" { LinkTarget::Unknown } else { target }));
    assert_eq!(targets(&listed()), expected);
    // The agent's container has /etc, the host has none.
    symlink("/etc", containers.join("zz-etc.log")).unwrap();
    assert_eq!(targets(&listed()).last(), Some(&("zz-etc.log", LinkTarget::Unknown)));
}

#[test]
fn a_missing_root_is_empty_but_a_file_fails() {
    let (host, pods, _) = host();
    assert_eq!(dirs(&pods.join("absent")).unwrap(), []);
    assert_eq!(links(&HostFs::new(host.path()), &pods.join("absent"), &pods).unwrap(), []);
    fs::write(pods.join("file"), "").unwrap();
    for error in [
        dirs(&pods.join("file")).unwrap_err(),
        links(&HostFs::new(host.path()), &pods.join("file"), &pods).unwrap_err(),
    ] {
        assert!(error.to_string().starts_with(&format!("cannot list {}/file: ", pods.display())), "{error}");
    }
}
