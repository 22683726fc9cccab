//! Tests with hostile trees. No content beneath the log roots may cause a change outside of them.

#![expect(clippy::disallowed_methods, reason = "a test may remove its own files")]

mod archive;
pub(in crate::execute) mod as_root;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

use super::*;
use crate::model::{EntryKind, LinkTarget, PodRef};
use crate::plan::LogPolicy;

/// A host with both log roots and files outside of them that must not change.
struct Host {
    dir: tempfile::TempDir,
    roots: LogRoots,
}

impl Host {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let policy = LogPolicy::default();
        for path in ["var/log/pods/default_web_uid-1/app", "var/log/containers", "etc/sub", "var/log/pods-other"] {
            fs::create_dir_all(dir.path().join(path)).unwrap();
        }
        fs::write(dir.path().join("etc/passwd"), "root").unwrap();
        fs::write(dir.path().join("etc/sub/shadow"), "secret").unwrap();
        fs::write(dir.path().join("var/log/pods-other/0.log"), "other").unwrap();
        Self { roots: LogRoots::new(dir.path(), policy), dir }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn pod(&self) -> PathBuf {
        self.at("var/log/pods/default_web_uid-1")
    }

    fn file(&self, path: &str) {
        fs::write(self.at(path), "line\n").unwrap();
    }

    fn remove_pod(&self) -> Result<RemovedStats, LogError> {
        self.roots.remove_dir(OsStr::new("default_web_uid-1"))
    }

    fn remove_logs(&self, path: &str) -> Result<RemovedStats, LogError> {
        self.roots.remove_logs(&self.roots.log_file(Path::new(path), Some(&web()))?)
    }

    /// Returns all entries that must not change: everything outside the two roots.
    fn outside(&self) -> BTreeMap<PathBuf, String> {
        let mut all = listing(self.dir.path());
        let roots = [self.at("var/log/pods"), self.at("var/log/containers")];
        all.retain(|path, _| !roots.iter().any(|root| path.starts_with(root)));
        all
    }
}

fn web() -> PodRef {
    PodRef { uid: "uid-1".into(), namespace: "default".into(), name: "web".into() }
}

/// Returns every path beneath a directory, with its kind, mode and content.
fn listing(dir: &Path) -> BTreeMap<PathBuf, String> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let meta = fs::symlink_metadata(&path).unwrap();
        let content = match () {
            () if meta.is_symlink() => format!("{:?}", fs::read_link(&path).unwrap()),
            () if meta.is_dir() => {
                all.extend(listing(&path));
                String::new()
            }
            () if meta.is_file() => String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned(),
            () => "neither".to_owned(),
        };
        all.insert(path, format!("{:o} {} {content}", meta.mode(), meta.nlink()));
    }
    all
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_pod_directory_with_odd_names_is_removed() {
    let host = Host::new();
    host.file("var/log/pods/default_web_uid-1/app/0.log");
    symlink(host.at("etc"), host.pod().join("to-etc")).unwrap();
    symlink(host.at("etc/passwd"), host.pod().join("app/passwd")).unwrap();
    symlink("../../../../etc/sub", host.pod().join("app/relative")).unwrap();
    symlink("nowhere", host.pod().join("dangling")).unwrap();
    symlink(".", host.pod().join("app/loop")).unwrap();
    let odd: [&[u8]; 6] = [b"two\nlines", &[b'n'; 255], b"\xff\xfe not utf-8", b"*", b".hidden", b" "];
    for name in odd {
        fs::write(host.pod().join(OsStr::from_bytes(name)), "x").unwrap();
    }
    fs::create_dir(host.pod().join(OsStr::from_bytes(&[b'd'; 255]))).unwrap();
    nix::unistd::mkfifo(&host.pod().join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    host.file("var/log/pods/default_web-2_uid-2");
    let before = host.outside();

    let removed = host.remove_pod().unwrap();

    assert_eq!(names(&host.at("var/log/pods")), ["default_web-2_uid-2"]);
    assert_eq!(removed.entries, 16, "the pod's directory, app, 0.log, 5 links, 6 odd names, a directory, a fifo");
    assert_eq!(host.outside(), before);
}

#[test]
fn bytes_of_a_hard_linked_file_are_not_counted() {
    let host = Host::new();
    fs::write(host.pod().join("alone"), vec![1; 10_000]).unwrap();
    fs::write(host.pod().join("twice"), vec![1; 10_000]).unwrap();
    fs::hard_link(host.pod().join("twice"), host.at("etc/twice")).unwrap();
    let alone = fs::metadata(host.pod().join("alone")).unwrap().blocks() * 512;

    assert_eq!(host.remove_pod().unwrap().bytes, alone);
    assert_eq!(fs::read(host.at("etc/twice")).unwrap().len(), 10_000);
}

#[test]
fn wide_trees_go_whole() {
    let host = Host::new();
    for n in 0..900 {
        host.file(&format!("var/log/pods/default_web_uid-1/app/{n}.log"));
        fs::create_dir(host.pod().join(format!("dir-{n}"))).unwrap();
    }
    assert_eq!(host.remove_pod().unwrap().entries, 1802);
    assert!(!host.pod().exists());
}

#[test]
fn a_too_deep_tree_is_kept_with_bounded_descriptors() {
    let host = Host::new();
    let deep: PathBuf = std::iter::repeat_n("d", 300).collect();
    fs::create_dir_all(host.pod().join(&deep)).unwrap();
    host.file("var/log/pods/default_web_uid-1/app/0.log");
    let error = host.remove_pod().unwrap_err();
    assert!(error.to_string().ends_with("it lies too deep"), "{error}");
    assert!(!error.is_foreign(), "its siblings are gone, so this is a failure");
    assert!(!host.pod().join("app").exists());
    assert!(host.pod().join(deep).exists());
}

#[test]
fn an_unremovable_entry_does_not_keep_the_rest() {
    let host = Host::new();
    let deep: PathBuf = std::iter::repeat_n("d", 66).collect();
    let stuck: Vec<_> = (10..15).map(|n| format!("stuck-{n}")).collect();
    for name in &stuck {
        fs::create_dir_all(host.pod().join(name).join(&deep)).unwrap();
    }
    for n in 0..1300 {
        host.file(&format!("var/log/pods/default_web_uid-1/{n}.log"));
    }
    assert!(host.remove_pod().is_err());
    assert_eq!(names(&host.pod()), stuck);
}

#[test]
fn a_large_tree_is_removed_in_several_passes() {
    let host = Host::new();
    for n in 0..2100 {
        host.file(&format!("var/log/pods/default_web_uid-1/app/{n}.log"));
    }
    let error = host.remove_pod().unwrap_err();
    assert!(error.to_string().ends_with("the directory is too large for one pass"), "{error}");
    assert_eq!(names(&host.pod().join("app")).len(), 100);
    assert_eq!(host.remove_pod().unwrap().entries, 102);
}

#[test]
fn a_link_replacing_a_pod_directory_is_kept() {
    let host = Host::new();
    symlink(host.at("etc"), host.at("var/log/pods/default_evil_uid-9")).unwrap();
    let before = listing(host.dir.path());
    assert!(host.roots.remove_dir(OsStr::new("default_evil_uid-9")).unwrap_err().is_foreign());
    assert_eq!(listing(host.dir.path()), before);
}

/// Moves the pod log root to `data/pods` and creates a symlink in its place.
fn link_pod_root(host: &Host, target: impl AsRef<Path>) {
    fs::create_dir(host.at("data")).unwrap();
    fs::rename(host.at("var/log/pods"), host.at("data/pods")).unwrap();
    symlink(target, host.at("var/log/pods")).unwrap();
}

#[test]
fn a_linked_root_is_followed_but_no_link_beneath() {
    for target in ["/data/pods", "../../data/pods", "/chain"] {
        let host = Host::new();
        link_pod_root(&host, target);
        symlink("data/pods", host.at("chain")).unwrap();
        let pod = host.at("data/pods/default_web_uid-1");
        fs::write(pod.join("app/0.log"), "line").unwrap();
        symlink(host.at("etc"), pod.join("evil")).unwrap();
        symlink("/etc", host.at("data/pods/default_evil_uid-9")).unwrap();
        let before = host.outside();

        assert!(host.roots.remove_dir(OsStr::new("default_evil_uid-9")).unwrap_err().is_foreign());
        assert!(host.remove_logs("/var/log/pods/default_web_uid-1/evil/passwd").unwrap_err().is_foreign());
        assert_eq!(host.remove_logs("/var/log/pods/default_web_uid-1/app/0.log").unwrap().entries, 1, "{target}");
        assert_eq!(host.roots.kind_of_dir(OsStr::new("default_web_uid-1")).unwrap(), Some(EntryKind::Directory));
        assert_eq!(host.remove_pod().unwrap().entries, 3, "the pod's directory, app and the link");
        assert_eq!(names(&host.at("data/pods")), ["default_evil_uid-9"]);
        let outside = |listing: BTreeMap<PathBuf, String>| -> Vec<_> {
            listing.into_iter().filter(|(path, _)| !path.starts_with(host.at("data"))).collect()
        };
        assert_eq!(outside(host.outside()), outside(before));
    }
}

#[test]
fn a_linked_root_is_followed_without_mounted_host() {
    let host = Host::new();
    link_pod_root(&host, host.at("data/pods"));
    let policy = LogPolicy { pods_root: host.at("var/log/pods"), ..LogPolicy::default() };
    let roots = LogRoots::new("/", policy);
    let log = roots.log_file(&host.at("data/pods/default_web_uid-1/app/0.log"), Some(&web())).unwrap();
    fs::write(host.at("data/pods/default_web_uid-1/app/0.log"), "line").unwrap();
    assert_eq!(roots.remove_logs(&log).unwrap().entries, 1);
    assert_eq!(roots.remove_dir(OsStr::new("default_web_uid-1")).unwrap().entries, 2);
}

#[test]
fn an_unusable_root_link_removes_nothing() {
    let host = Host::new();
    fs::rename(host.at("var/log/pods"), host.at("var/log/moved")).unwrap();
    symlink("/absent", host.at("var/log/pods")).unwrap();
    assert_eq!(host.remove_pod().unwrap(), RemovedStats::default());
    for target in ["/etc/passwd", "/"] {
        fs::remove_file(host.at("var/log/pods")).unwrap();
        symlink(target, host.at("var/log/pods")).unwrap();
        assert!(host.remove_pod().unwrap_err().is_foreign(), "{target}");
    }
}

#[test]
fn a_log_path_names_the_configured_or_resolved_root() {
    let host = Host::new();
    link_pod_root(&host, "/chain");
    symlink("/data/pods", host.at("chain")).unwrap();
    let log = |path: &str| host.roots.log_file(Path::new(path), Some(&web()));
    let named = log("/var/log/pods/default_web_uid-1/app/0.log").unwrap();
    assert_eq!(log("/data/pods/default_web_uid-1/app/0.log").unwrap(), named);
    let foreign = [
        "/chain/default_web_uid-1/app/0.log",
        "/data/default_web_uid-1/app/0.log",
        "/data/pods/default_other_uid-2/app/0.log",
        "/data/pods/default_web_uid-1",
        "/data/pods/../pods/default_web_uid-1/app/0.log",
        "data/pods/default_web_uid-1/app/0.log",
        "/etc/passwd",
        "",
    ];
    for path in foreign {
        assert!(log(path).unwrap_err().is_foreign(), "{path}");
    }
}

#[test]
fn links_above_a_root_are_followed_in_the_host() {
    let host = Host::new();
    fs::create_dir(host.at("data")).unwrap();
    fs::rename(host.at("var/log"), host.at("data/log")).unwrap();
    symlink("/data/log", host.at("var/log")).unwrap();
    host.file("data/log/pods/default_web_uid-1/app/0.log");
    assert_eq!(host.remove_logs("/var/log/pods/default_web_uid-1/app/0.log").unwrap().entries, 1);
    assert_eq!(host.remove_pod().unwrap().entries, 2);
    assert_eq!(names(&host.at("data/log/pods")), Vec::<String>::new());
}

#[test]
fn what_is_not_there_is_removed_already() {
    let host = Host::new();
    assert_eq!(host.roots.remove_dir(OsStr::new("default_gone_uid-3")).unwrap(), RemovedStats::default());
    assert_eq!(host.remove_logs("/var/log/pods/default_web_uid-1/gone/0.log").unwrap(), RemovedStats::default());
    assert_eq!(host.roots.remove_link(OsStr::new("gone.log")).unwrap(), RemovedStats::default());
    assert_eq!(host.roots.link_target(OsStr::new("gone.log")).unwrap(), None);
    fs::rename(host.at("var/log"), host.at("var/moved")).unwrap();
    assert_eq!(host.remove_pod().unwrap(), RemovedStats::default());
    assert_eq!(host.roots.remove_link(OsStr::new("gone.log")).unwrap(), RemovedStats::default());
}

#[test]
fn only_direct_children_of_a_root_are_accepted() {
    let roots = Host::new().roots;
    assert_eq!(roots.dir_name(Path::new("/var/log/pods/a_b_c")).unwrap(), "a_b_c");
    assert_eq!(roots.link_name(Path::new("/var/log/containers/a_b_c-d.log")).unwrap(), "a_b_c-d.log");
    let foreign = [
        "",
        "a",
        "/",
        "/var/log/pods",
        "/var/log/pods/",
        "/var/log/pods/a/b",
        "/var/log/pods/..",
        "/etc/a",
        "/var/log/pods/../a",
        "/var/log/pods-other",
        "/var/log/pods-other/a",
        "var/log/pods/a",
        "/var/log/pods/a/..",
    ];
    for path in foreign {
        assert!(roots.dir_name(Path::new(path)).unwrap_err().is_foreign(), "{path}");
        assert!(roots.link_name(Path::new(path)).unwrap_err().is_foreign(), "{path}");
    }
}

#[test]
fn empty_relative_and_foreign_log_paths_are_refused() {
    let roots = Host::new().roots;
    let foreign = [
        "",
        "0.log",
        "app/0.log",
        "/",
        "/etc/passwd",
        "/var/log/pods",
        "/var/log/pods/default_web_uid-1",
        "/var/log/pods/default_web_uid-1/../../../../etc/passwd",
        "/var/log/pods/../../etc/passwd",
        "/var/log/pods-other/0.log",
        "/var/log/pods/default_other_uid-2/app/0.log",
        "/var/log/pods/default_web_uid-1/app/..",
    ];
    for path in foreign {
        assert!(roots.log_file(Path::new(path), Some(&web())).unwrap_err().is_foreign(), "{path}");
    }
    for path in ["/var/log/pods/default_web_uid-1/app/0.log", "/var/log/pods/uid-1/app_0.log"] {
        assert!(roots.log_file(Path::new(path), Some(&web())).is_ok(), "{path}");
    }
}

#[test]
fn log_files_of_other_instances_and_containers_stay() {
    let host = Host::new();
    fs::create_dir(host.pod().join("app/1.log.d")).unwrap();
    let files = [
        "0.log",
        "1.log",
        "1.log.20260102-150405",
        "1.log.20260102-150405.gz",
        "1.log.20260102-150405.tmp",
        "1.log2",
        "10.log",
        "11.log",
        "1",
        "1.logs",
        "x1.log",
    ];
    for file in files {
        host.file(&format!("var/log/pods/default_web_uid-1/app/{file}"));
    }
    symlink(host.at("etc/passwd"), host.pod().join("app/1.log.link")).unwrap();
    let before = host.outside();

    let removed = host.remove_logs("/var/log/pods/default_web_uid-1/app/1.log").unwrap();

    let left = names(&host.pod().join("app"));
    assert_eq!(left, ["0.log", "1", "1.log.d", "1.log2", "1.logs", "10.log", "11.log", "x1.log"]);
    assert_eq!(removed.entries, 5);
    assert_eq!(host.outside(), before);
}

#[test]
fn glob_characters_in_a_log_path_are_ordinary_characters() {
    let host = Host::new();
    host.file("var/log/pods/default_web_uid-1/app/0.log");
    host.file("var/log/pods/default_web_uid-1/app/*");
    host.file("var/log/pods/default_web_uid-1/app/[0].log");
    host.remove_logs("/var/log/pods/default_web_uid-1/app/*").unwrap();
    host.remove_logs("/var/log/pods/default_web_uid-1/app/?.log").unwrap();
    host.remove_logs("/var/log/pods/default_web_uid-1/app/[0].log").unwrap();
    assert_eq!(names(&host.pod().join("app")), ["0.log"]);
}

#[test]
fn a_link_above_a_log_file_is_not_followed() {
    let host = Host::new();
    symlink(host.at("etc"), host.pod().join("evil")).unwrap();
    symlink(host.at("etc"), host.at("var/log/pods/default_web2_uid-1")).unwrap();
    let before = listing(host.dir.path());
    for path in ["default_web_uid-1/evil/passwd", "default_web_uid-1/evil/sub/shadow", "default_web2_uid-1/passwd"] {
        let error = host.remove_logs(&format!("/var/log/pods/{path}")).unwrap_err();
        assert!(error.is_foreign(), "{path}");
    }
    assert_eq!(listing(host.dir.path()), before);
}

#[test]
fn only_links_go_from_the_container_log_root() {
    let host = Host::new();
    host.file("var/log/containers/file.log");
    fs::create_dir(host.at("var/log/containers/dir.log")).unwrap();
    symlink(host.at("etc/passwd"), host.at("var/log/containers/link.log")).unwrap();
    let before = host.outside();
    assert!(host.roots.remove_link(OsStr::new("file.log")).unwrap_err().is_foreign());
    assert!(host.roots.remove_link(OsStr::new("dir.log")).unwrap_err().is_foreign());
    assert!(host.roots.link_target(OsStr::new("file.log")).unwrap_err().is_foreign());
    assert_eq!(host.roots.remove_link(OsStr::new("link.log")).unwrap().entries, 1);
    assert_eq!(names(&host.at("var/log/containers")), ["dir.log", "file.log"]);
    assert_eq!(host.outside(), before);
}

#[test]
fn dangling_links_are_resolved_as_on_the_host() {
    let host = Host::new();
    host.file("var/log/pods/default_web_uid-1/app/0.log");
    let links = [
        ("live", "/var/log/pods/default_web_uid-1/app/0.log", LinkTarget::Exists),
        ("relative", "../pods/default_web_uid-1/app/0.log", LinkTarget::Exists),
        ("dead", "/var/log/pods/default_web_uid-1/app/1.log", LinkTarget::Missing),
        ("no-folder", "/var/log/pods/default_gone_uid-3/app/1.log", LinkTarget::Missing),
        ("chain", "/var/log/containers/live", LinkTarget::Exists),
        ("broken-chain", "/var/log/containers/dead", LinkTarget::Missing),
        ("not-mounted", "/var/lib/docker/containers/c/c-json.log", LinkTarget::Unknown),
        ("loop", "/var/log/containers/loop", LinkTarget::Unknown),
        ("through-a-file", "/etc/passwd/x", LinkTarget::Unknown),
    ];
    for (name, target, _) in links {
        symlink(target, host.at("var/log/containers").join(name)).unwrap();
    }
    for (name, _, expected) in links {
        assert_eq!(host.roots.link_target(OsStr::new(name)).unwrap(), Some(expected), "{name}");
    }
}

/// Swaps two names repeatedly while `work` runs.
fn swapping(a: &Path, b: &Path, work: impl FnOnce()) {
    use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
    let stop = std::sync::atomic::AtomicBool::new(false);
    let order = std::sync::atomic::Ordering::Relaxed;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(order) {
                let _ = renameat2(AT_FDCWD, a, AT_FDCWD, b, RenameFlags::RENAME_EXCHANGE);
            }
        });
        work();
        stop.store(true, order);
    });
}

#[test]
fn a_directory_replaced_by_a_link_is_not_followed() {
    for round in 0..90 {
        let host = Host::new();
        fs::create_dir_all(host.pod().join("victim")).unwrap();
        for name in ["passwd", "sub"] {
            fs::write(host.pod().join("victim").join(name), "x").unwrap();
        }
        let link = host.at("var/log/pods/link");
        symlink(host.at("etc"), &link).unwrap();
        let before = host.outside();
        // The swapped entry alternates: the pod's directory, a directory in it, or a directory on the path to a log
        // file.
        let swapped = if round % 3 == 0 { host.pod() } else { host.pod().join("victim") };
        swapping(&swapped, &link, || {
            let _ = match round % 3 {
                2 => host.remove_logs("/var/log/pods/default_web_uid-1/victim/passwd"),
                _ => host.remove_pod(),
            };
        });
        assert_eq!(host.outside(), before);
    }
}

#[test]
fn the_kubelet_log_cleaning_cases_give_the_same_result() {
    let mut ran = 0;
    for case in cases() {
        let (dir, log) = match case["kind"].as_str().unwrap() {
            "clean_logs" => ("/var/log/pods/default_web_uid-1/app", case["log_path"].as_str().unwrap().to_owned()),
            "remove_container" if case["keep_logs"] == false => {
                ("/", case["container"]["log_path"].as_str().unwrap().to_owned())
            }
            _ => continue,
        };
        ran += 1;
        let host = Host::new();
        let path = |name: &str| host.at(&Path::new(dir).join(name).to_string_lossy()[1..]);
        for file in strings(&case["files"]) {
            fs::create_dir_all(path(&file).parent().unwrap()).unwrap();
            fs::write(path(&file), "x").unwrap();
        }
        let uid = if dir == "/" { case["container"]["pod_uid"].as_str().unwrap() } else { "uid-1" };
        let pod = PodRef { uid: uid.into(), ..PodRef::default() };
        let file = host.roots.log_file(&Path::new(dir).join(log), Some(&pod)).unwrap();
        host.roots.remove_logs(&file).unwrap();

        let gone: Vec<_> = strings(&case["files"]).into_iter().filter(|file| !path(file).exists()).collect();
        let mut expected = strings(case.get("expect_removed").unwrap_or(&case["expect_removed_any_order"]));
        // The executor removes the symlink, not this module.
        expected.retain(|file| !file.starts_with("/var/log/containers"));
        assert_eq!(gone, expected, "{}", case["name"]);
    }
    assert_eq!(ran, 2);
}

fn cases() -> Vec<serde_json::Value> {
    serde_json::from_str(include_str!("../../../tests/data/vectors/logs.json")).unwrap()
}

fn strings(value: &serde_json::Value) -> Vec<String> {
    serde_json::from_value(value.clone()).unwrap()
}
