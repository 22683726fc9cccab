//! The archive of log files, beside a kubelet that rotates, compresses and removes them.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use proptest::prelude::*;

use super::*;
use crate::model::{ArchivedContainer, ArchivedPod, Pod};
use crate::observe::MOST_LOG_FILES;

const APP: &str = "var/log/pods/default_web_uid-1/app";
const ARCHIVED: &str = "var/log/kubegc/archive/default_web_uid-1/app";

/// A container that writes numbered lines, and its kubelet.
struct Kubelet {
    host: Host,
    /// The lines so far, and the rotations.
    lines: u32,
    rotations: u32,
    /// The last line that was there at a look.
    seen: u32,
}

/// What happens next.
#[derive(Clone, Copy, Debug)]
enum Event {
    Write,
    Rotate,
    /// The kubelet compresses the oldest rotated file that is not compressed, or is killed before it removes the latter.
    Compress {
        is_killed: bool,
    },
    Look,
}

impl Kubelet {
    fn new() -> Self {
        Self { host: Host::new(), lines: 0, rotations: 0, seen: 0 }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.host.at(APP).join(name)
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Write => {
                let mut log = fs::File::options().create(true).append(true).open(self.at("0.log")).unwrap();
                writeln!(log, "{}", self.lines).unwrap();
                self.lines += 1;
            }
            Event::Rotate if self.at("0.log").exists() => {
                fs::rename(self.at("0.log"), self.at(&rotated(self.rotations))).unwrap();
                fs::write(self.at("0.log"), "").unwrap();
                self.rotations += 1;
            }
            Event::Compress { is_killed } => {
                let mut names = (0..self.rotations).map(rotated);
                let Some(name) = names.find(|name| self.at(name).exists()) else { return };
                let mut gz = GzEncoder::new(Vec::new(), Compression::fast());
                gz.write_all(&fs::read(self.at(&name)).unwrap()).unwrap();
                fs::write(self.at(&format!("{name}.gz")), gz.finish().unwrap()).unwrap();
                if !is_killed {
                    fs::remove_file(self.at(&name)).unwrap();
                }
            }
            Event::Rotate => {}
            Event::Look => {
                let done = self.host.roots.archive_logs(None, &BTreeSet::new()).unwrap();
                assert!(done.refused.is_empty(), "{:?}", done.refused);
                self.seen = self.lines;
            }
        }
    }

    /// Returns the lines in the archive, in the order of the first lines of its files: those of a file that is there in both forms once.
    fn archived(&self) -> String {
        let dir = self.host.at(ARCHIVED);
        if !dir.exists() {
            return String::new();
        }
        let mut contents: Vec<_> = names(&dir).iter().map(|name| content(&dir.join(name))).collect();
        contents.sort_by_key(|content| content.lines().next().map(|line| line.parse::<u32>().unwrap()));
        contents.dedup();
        contents.concat()
    }
}

/// The name of a rotated file: rotations are a second apart.
fn rotated(number: u32) -> String {
    format!("0.log.30260102-{number:06}")
}

fn content(path: &Path) -> String {
    let (bytes, mut text) = (fs::read(path).unwrap(), String::new());
    if path.extension().is_some_and(|extension| extension == "gz") {
        GzDecoder::new(&*bytes).read_to_string(&mut text).unwrap();
        return text;
    }
    String::from_utf8(bytes).unwrap()
}

fn lines(count: u32) -> String {
    (0..count).fold(String::new(), |lines, line| format!("{lines}{line}\n"))
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => Just(Event::Write),
        2 => Just(Event::Rotate),
        1 => Just(Event::Compress { is_killed: false }),
        1 => Just(Event::Compress { is_killed: true }),
        2 => Just(Event::Look),
    ]
}

proptest! {
    /// Whenever the pod and its logs are deleted: each line that was there at a look is in the archive, in order and once.
    #[test]
    fn lines_outlive_their_pod(events in prop::collection::vec(event(), 0..40)) {
        let mut kubelet = Kubelet::new();
        for event in events {
            kubelet.happens(event);
        }
        let before = listing(&kubelet.host.at("etc"));
        fs::remove_dir_all(kubelet.host.pod()).unwrap();
        let (archived, seen) = (kubelet.archived(), lines(kubelet.seen));
        prop_assert!(archived.starts_with(&seen) && lines(kubelet.lines).starts_with(&archived), "{seen:?}, {archived:?}");
        prop_assert_eq!(listing(&kubelet.host.at("etc")), before);
    }
}

#[test]
fn a_rotation_costs_no_second_copy() {
    let mut kubelet = Kubelet::new();
    let look = Event::Look;
    let compress = Event::Compress { is_killed: false };
    for event in [Event::Write, look, Event::Rotate, look, Event::Write, look, compress, look] {
        kubelet.happens(event);
    }
    assert_eq!(kubelet.archived(), lines(2));
    let names = fs::read_dir(kubelet.host.at(ARCHIVED)).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = names.collect();
    names.sort();
    assert_eq!(names, ["0.log", &*format!("{}.gz", rotated(0))]);
    let inode = |path: PathBuf| fs::metadata(path).unwrap().ino();
    assert_eq!(inode(kubelet.at("0.log")), inode(kubelet.host.at(ARCHIVED).join("0.log")));
    let mode = |path: &str| fs::metadata(kubelet.host.at(path)).unwrap().mode() & 0o777;
    assert_eq!((mode("var/log/kubegc/archive"), mode(ARCHIVED)), (0o700, 0o700));
    kubelet.happens(Event::Look);
    assert_eq!(kubelet.host.roots.archive_logs(None, &BTreeSet::new()).unwrap().linked, 0, "nothing is new");
}

/// A pod with a hostPath can put anything below the log root.
#[test]
fn only_files_with_one_name_get_another_one() {
    let host = Host::new();
    let app = host.at(APP);
    fs::hard_link(host.at("etc/passwd"), app.join("0.log")).unwrap();
    symlink(host.at("etc/passwd"), app.join("1.log")).unwrap();
    nix::unistd::mkfifo(&app.join("2.log"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    fs::create_dir(app.join("3.log")).unwrap();
    for name in ["4.log", "4.log.30260102-000000.tmp", "note", "04.log"] {
        fs::write(app.join(name), "line").unwrap();
    }
    symlink(host.at("etc"), host.pod().join("linked")).unwrap();
    symlink(host.at("etc"), host.at("var/log/pods/default_linked_uid-2")).unwrap();
    fs::create_dir_all(host.at("var/log/pods/no-pod/app")).unwrap();
    fs::write(host.at("var/log/pods/no-pod/app/0.log"), "line").unwrap();
    let outside = listing(&host.at("etc"));
    let done = host.roots.archive_logs(None, &BTreeSet::new()).unwrap();
    let refused: Vec<_> = done.refused.iter().map(ToString::to_string).collect();
    assert_eq!((done.linked, refused.len()), (1, 3), "{refused:?}");
    assert!(refused.iter().any(|cause| cause.contains("0.log is kept: it has another name too")), "{refused:?}");
    let archived = listing(&host.at("var/log/kubegc"));
    let files: Vec<_> = archived.keys().filter(|path| path.is_file()).collect();
    assert_eq!(files, [&host.at(ARCHIVED).join("4.log")]);
    assert_eq!(listing(&host.at("etc")), outside);
}

#[test]
fn an_archive_that_others_can_change_is_not_used() {
    use std::os::unix::fs::PermissionsExt as _;
    let host = Host::new();
    host.file(&format!("{APP}/0.log"));
    symlink(host.at("etc"), host.at("var/log/kubegc")).unwrap();
    let cause = |host: &Host| host.roots.archive_logs(None, &BTreeSet::new()).unwrap_err().to_string();
    assert!(cause(&host).contains("kubegc is kept: it is not a directory"), "{}", cause(&host));
    fs::remove_file(host.at("var/log/kubegc")).unwrap();
    fs::create_dir_all(host.at("var/log/kubegc/archive")).unwrap();
    fs::set_permissions(host.at("var/log/kubegc/archive"), fs::Permissions::from_mode(0o777)).unwrap();
    assert!(cause(&host).contains("another user can write to it"), "{}", cause(&host));
    fs::remove_dir_all(host.at("var/log/kubegc")).unwrap();
    assert_eq!(host.roots.archive_logs(None, &BTreeSet::new()).unwrap().linked, 1, "it is made again");
    fs::remove_dir_all(host.at("var/log/kubegc/archive/default_web_uid-1")).unwrap();
    symlink(host.at("etc"), host.at("var/log/kubegc/archive/default_web_uid-1")).unwrap();
    let done = host.roots.archive_logs(None, &BTreeSet::new()).unwrap();
    assert_eq!((done.linked, done.refused.len()), (0, 1), "{done:?}");
}

#[test]
fn a_file_leaves_the_archive_when_its_pod_has_it_no_more() {
    let host = Host::new();
    host.file(&format!("{APP}/0.log"));
    host.roots.archive_logs(None, &BTreeSet::new()).unwrap();
    let path = Path::new("/").join(ARCHIVED).join("0.log");
    let cause = host.roots.remove_archived(&path).unwrap_err();
    assert!(cause.to_string().contains("its pod may have it"), "{cause}");
    host.remove_pod().unwrap();
    for other in ["/var/log/kubegc/archive/default_web_uid-1/app", "/var/log/kubegc/archive/../../../etc/sub/shadow"] {
        assert!(host.roots.remove_archived(Path::new(other)).unwrap_err().is_foreign(), "{other}");
    }
    assert!(host.roots.remove_archived(&path).unwrap().bytes > 0);
    assert!(!host.at("var/log/kubegc/archive/default_web_uid-1").exists());
    assert_eq!(host.roots.remove_archived(&path).unwrap(), RemovedStats::default());
}

/// Else the bytes would only move, and each file would be removed twice.
#[test]
fn a_limit_on_the_logs_of_pods_frees_the_bytes_beside_an_archive() {
    let host = Host::new();
    for name in ["0.log", "0.log.30260102-000000"] {
        host.file(&format!("{APP}/{name}"));
    }
    host.roots.archive_logs(None, &BTreeSet::new()).unwrap();
    // The kubelet renamed it since the look.
    let name = "0.log.30260102-000001";
    fs::rename(host.at(APP).join("0.log.30260102-000000"), host.at(APP).join(name)).unwrap();
    let file = host.roots.log_file(&Path::new("/").join(APP).join(name), Some(&web())).unwrap();
    let (before, planned_at) = ("3000-01-01T00:00:00Z".parse().unwrap(), jiff::Timestamp::UNIX_EPOCH);
    let known = KnownLog { is_listed: true, size: u64::MAX, before, planned_at };
    let removed = host.roots.remove_log(&file, known).unwrap();
    assert!(removed.entries == 1 && removed.bytes > 0, "{removed:?}");
    assert_eq!((names(&host.at(APP)), names(&host.at(ARCHIVED))), (vec!["0.log".to_owned()], vec!["0.log".to_owned()]));
}

/// What a pass saw of the pod: an instance of its container, which exited if there is a code.
pub(super) fn seen(attempt: u32, exit_code: Option<i32>) -> ArchivedPod {
    let pod = Pod { uid: "uid-1".into(), namespace: "default".into(), name: "web".into(), ..Pod::default() };
    let app = ArchivedContainer { name: "app".into(), attempt, exit_code, ..ArchivedContainer::default() };
    ArchivedPod { node: "node-1".into(), pod, containers: vec![app] }
}

fn document(host: &Host) -> PathBuf {
    host.at("var/log/kubegc/archive/default_web_uid-1/pod.json")
}

pub(super) fn instances(host: &Host) -> Vec<(u32, Option<i32>)> {
    let document: ArchivedPod = serde_json::from_slice(&fs::read(document(host)).unwrap()).unwrap();
    document.containers.iter().map(|instance| (instance.attempt, instance.exit_code)).collect()
}

#[test]
fn what_is_known_of_a_pod_is_beside_its_logs_as_long_as_these() {
    let host = Host::new();
    let describe = |pod: ArchivedPod| host.roots.describe_pods(vec![pod]).unwrap();
    assert!(describe(seen(0, None)).is_empty() && !host.at("var/log/kubegc").exists(), "it has no logs in the archive");
    host.file(&format!("{APP}/0.log"));
    host.roots.archive_logs(None, &BTreeSet::new()).unwrap();
    describe(seen(0, Some(3)));
    assert_eq!(fs::metadata(document(&host)).unwrap().mode() & 0o777, 0o600);
    let inode = || fs::metadata(document(&host)).unwrap().ino();
    let before = inode();
    describe(seen(0, None));
    assert_eq!((instances(&host), inode()), (vec![(0, Some(3))], before), "nothing is new");
    describe(seen(1, None));
    assert_eq!(instances(&host), [(0, Some(3)), (1, None)]);
    fs::remove_file(host.at(ARCHIVED).join("0.log")).unwrap();
    describe(seen(2, None));
    assert_eq!(instances(&host), [(2, None)], "an instance without log files is of no use");
    host.roots.archive_logs(None, &BTreeSet::new()).unwrap();
    host.remove_pod().unwrap();
    host.roots.remove_archived(&Path::new("/").join(ARCHIVED).join("0.log")).unwrap();
    assert_eq!(names(&host.at("var/log/kubegc/archive")), [""; 0]);
}

#[test]
fn a_document_has_the_names_of_its_pod_alone() {
    let host = Host::new();
    host.file(&format!("{APP}/0.log"));
    fs::create_dir(host.pod().join("pod.json")).unwrap();
    fs::write(host.pod().join("pod.json/0.log"), "line").unwrap();
    host.roots.archive_logs(None, &BTreeSet::new()).unwrap();
    let outside = listing(&host.at("etc"));
    for (namespace, name) in [("default", "../../../../etc"), ("..", "web"), ("default", "web/app"), ("", "")] {
        let mut pod = seen(0, None);
        (pod.pod.namespace, pod.pod.name) = (namespace.into(), name.into());
        assert!(host.roots.describe_pods(vec![pod]).unwrap().is_empty(), "{name}");
    }
    assert!(!document(&host).exists());
    symlink(host.at("etc/passwd"), document(&host).with_extension("json.tmp")).unwrap();
    let failed = host.roots.describe_pods(vec![seen(0, None)]).unwrap();
    assert!(failed.len() == 1 && listing(&host.at("etc")) == outside, "a link is not followed: {failed:?}");
}

/// A log shipper with a hostPath is enough to make as many.
#[test]
fn a_directory_with_too_many_entries_is_named_and_the_others_are_archived() {
    let host = Host::new();
    let other = "var/log/pods/default_other_uid-2/app";
    fs::create_dir_all(host.at(other)).unwrap();
    for app in [APP, other] {
        host.file(&format!("{app}/0.log"));
    }
    host.roots.archive_logs(None, &BTreeSet::new()).unwrap();
    (0..MOST_LOG_FILES).for_each(|name| fs::write(host.at(APP).join(format!("{name}.pos")), "").unwrap());
    host.file(&format!("{other}/1.log"));
    let done = host.roots.archive_logs(None, &BTreeSet::new()).unwrap();
    let refused: Vec<_> = done.refused.iter().map(ToString::to_string).collect();
    let expected = format!("{} is kept: it has more than 10,000 entries", host.at(APP).display());
    assert_eq!((done.linked, refused), (1, vec![expected]));
    fs::remove_file(host.at(APP).join("0.log")).unwrap();
    let path = Path::new("/").join(ARCHIVED).join("0.log");
    assert_eq!(host.roots.remove_archived(&path).unwrap().entries, 1, "its pod cannot have a file with one name");
}

/// Nothing of it is read but its name.
#[test]
fn made_up_compressed_files_take_no_lines_away() {
    let mut kubelet = Kubelet::new();
    for event in [Event::Write, Event::Look, Event::Rotate, Event::Write] {
        kubelet.happens(event);
    }
    for number in 10..40 {
        let mut gz = GzEncoder::new(Vec::new(), Compression::fast());
        gz.write_all(b"9\n").unwrap();
        fs::write(kubelet.at(&format!("{}.gz", rotated(number))), gz.finish().unwrap()).unwrap();
    }
    fs::remove_file(kubelet.at(&rotated(0))).unwrap();
    kubelet.happens(Event::Look);
    assert!(kubelet.archived().starts_with("0\n1\n"), "{}", kubelet.archived());
}

#[test]
fn a_pod_with_many_containers_has_its_share_of_a_look() {
    let host = Host::new();
    for container in 0..3 {
        let at = host.at(&format!("var/log/pods/a_many_uid-3/c{container}"));
        fs::create_dir_all(&at).unwrap();
        (0..40).for_each(|name| fs::write(at.join(format!("{name}.log")), "line").unwrap());
    }
    host.file(&format!("{APP}/0.log"));
    let done = host.roots.archive_logs(None, &BTreeSet::new()).unwrap();
    let refused: Vec<_> = done.refused.iter().map(ToString::to_string).collect();
    assert!(refused.len() == 1 && refused[0].contains("more than 10,000 log files together"), "{refused:?}");
    assert_eq!(done.linked, 81, "two of its containers, and the other pod");
}

#[test]
fn the_archive_has_as_many_files_of_a_container_as_can_be_read() {
    let host = Host::new();
    for round in 0..2 {
        for name in 0..MOST_LOG_FILES - 10 {
            let name = host.at(APP).join(format!("{}.log", round * MOST_LOG_FILES + name));
            fs::write(name, "line").unwrap();
        }
        let done = host.roots.archive_logs(None, &BTreeSet::new()).unwrap();
        assert_eq!((done.linked, done.refused.len()), if round == 0 { (40, 0) } else { (10, 1) }, "{done:?}");
        for name in names(&host.at(APP)) {
            fs::remove_file(host.at(APP).join(name)).unwrap();
        }
    }
    assert_eq!(names(&host.at(ARCHIVED)).len(), MOST_LOG_FILES);
}

#[test]
fn what_an_interrupted_removal_left_is_removed() {
    let host = Host::new();
    host.file(&format!("{APP}/0.log"));
    host.roots.archive_logs(None, &BTreeSet::new()).unwrap();
    fs::create_dir_all(host.at("var/log/kubegc/archive/default_gone_uid-3/app")).unwrap();
    let of_pod = host.at("var/log/kubegc/archive/default_half_uid-4");
    fs::create_dir_all(of_pod.join("empty")).unwrap();
    fs::create_dir_all(of_pod.join("app")).unwrap();
    fs::write(of_pod.join("app/0.log"), "line").unwrap();
    for at in [&of_pod, &host.at("var/log/kubegc/archive/default_gone_uid-3")] {
        fs::write(at.join("pod.json"), "{}").unwrap();
    }
    host.roots.archive_logs(None, &BTreeSet::new()).unwrap();
    assert_eq!(names(&host.at("var/log/kubegc/archive")), ["default_half_uid-4", "default_web_uid-1"]);
    assert_eq!(names(&of_pod), ["app", "pod.json"]);
}

#[test]
fn a_look_at_some_pods_leaves_the_others() {
    let host = Host::new();
    let other = "var/log/pods/default_other_uid-2/app";
    fs::create_dir_all(host.at(other)).unwrap();
    for app in [APP, other] {
        host.file(&format!("{app}/0.log"));
    }
    let some = |name: &str| host.roots.archive_logs(Some([name.to_owned()].into()), &BTreeSet::new()).unwrap().linked;
    assert_eq!(
        ["default_web_uid-1", "default_web_uid-1", "default_gone_uid-3", "../pods-other"].map(some),
        [1, 0, 0, 0]
    );
    assert_eq!(names(&host.at("var/log/kubegc/archive")), ["default_web_uid-1"]);
    assert_eq!(host.roots.archive_logs(None, &BTreeSet::new()).unwrap().linked, 1);
}
