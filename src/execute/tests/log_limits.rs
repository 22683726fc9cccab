//! The recheck of a log file that is removed by itself, because its pod is over a limit.

use std::os::unix::fs::symlink;
use std::time::{Duration, SystemTime};

use super::*;
use crate::plan::LogLimit;

/// A sentence, a file, what happens to it, and what the note of its refusal says.
type Row<'a> = (&'a str, &'a str, &'a dyn Fn(&Bench, &str), &'a str);

/// The age of the files, in seconds.
const AGE: u64 = 600;
const ROTATED: [&str; 4] =
    ["3.log.20261121-100000.gz", "3.log.20261121-110000.gz", "3.log.20261121-120000", "1.log.20261121-090000"];

/// A pod with a container that was restarted three times and whose logs were rotated. The runtime lost two instances.
fn bench() -> Bench {
    let node = Node::new().image(WEB, &[]).pod("default", "web", "u1");
    let bench = Bench::new(node.lost("app", 100).lost("app", 100).exited("app", WEB).running("app", WEB));
    for name in ROTATED.iter().chain(&["0.log", "1.log", "2.log", "3.log"]) {
        write(&bench, name, AGE);
    }
    bench
}

fn path(bench: &Bench, name: &str) -> PathBuf {
    bench.pods("default_web_u1/app").join(name)
}

/// Writes 100 bytes that were last modified so many seconds before the plan.
fn write(bench: &Bench, name: &str, age: u64) {
    write_bytes(bench, name, age, 100);
}

fn write_bytes(bench: &Bench, name: &str, age: u64, bytes: usize) {
    fs::write(path(bench, name), vec![b'x'; bytes]).unwrap();
    let file = fs::File::options().write(true).open(path(bench, name)).unwrap();
    file.set_modified(SystemTime::from(Node::new().time()) - Duration::from_secs(age)).unwrap();
    // The blocks of the file may not be known before.
    file.sync_all().unwrap();
}

fn log_file(bench: &Bench, name: &str) -> Action {
    let reason = RemoveReason::OverLogLimit("pod 1B".parse::<LogLimit>().unwrap());
    let (age_seconds, size) = (Some(AGE.cast_signed()), Some(4096).into());
    Action { age_seconds, size, reason, ..action(Target::RemoveLogFile { path: path(bench, name) }) }
}

#[tokio::test]
async fn a_file_over_a_limit_is_removed_alone() {
    let bench = bench();
    for name in [ROTATED[0], ROTATED[2], ROTATED[3], "1.log", "0.log"] {
        let before = bench.files();
        assert_eq!(bench.rehearse(vec![log_file(&bench, name)]).await, [format!("{name} would_remove")]);
        assert_eq!(bench.files(), before);
        let (lines, reports, _) = bench.carry_out_plan(&plan(vec![log_file(&bench, name)])).await;
        assert_eq!(lines, [format!("{name} removed")]);
        assert!(reports[0].freed_bytes.is_some(), "{reports:?}");
        let gone: Vec<_> = before.into_keys().filter(|path| !is_there(path)).collect();
        assert_eq!(gone, [path(&bench, name)]);
        assert_eq!(bench.carry_out(vec![log_file(&bench, name)]).await, [format!("{name} already_removed")]);
    }
}

/// Each row changes the file of a name, whose removal is then refused.
#[tokio::test]
#[rustfmt::skip]
async fn a_file_that_changed_or_that_its_container_needs_is_kept() {
    let move_away = |bench: &Bench, name: &str| fs::rename(path(bench, name), bench.sim.dir().join("other")).unwrap();
    let rows: [Row; 15] = [
        ("a link", ROTATED[0], &|bench, name| {
            move_away(bench, name);
            symlink(bench.sim.dir().join("other"), path(bench, name)).unwrap();
        }, "one name"),
        ("a directory", ROTATED[0], &|bench, name| {
            move_away(bench, name);
            fs::create_dir(path(bench, name)).unwrap();
        }, "one name"),
        ("a fifo", ROTATED[0], &|bench, name| {
            move_away(bench, name);
            nix::unistd::mkfifo(&path(bench, name), nix::sys::stat::Mode::S_IRWXU).unwrap();
        }, "one name"),
        ("a file with two names", ROTATED[0], &|bench, name| {
            fs::hard_link(path(bench, name), bench.sim.dir().join("other")).unwrap();
        }, "one name"),
        ("a newer file", ROTATED[0], &|bench, name| write(bench, name, AGE - 5), "written since"),
        ("a larger file", ROTATED[0], &|bench, name| write_bytes(bench, name, AGE, 9000), "written since"),
        ("the current file", "3.log", &|_, _| {}, "needs it"),
        ("the current file of a dead instance", "2.log", &|_, _| {}, "needs it"),
        ("the only file of an instance", ROTATED[0], &|bench, _| move_away(bench, "3.log"), "needs it"),
        ("the current file is a link", ROTATED[0], &|bench, _| {
            move_away(bench, "3.log");
            symlink(bench.sim.dir().join("other"), path(bench, "3.log")).unwrap();
        }, "needs it"),
        ("the kubelet is compressing it", ROTATED[2], &|bench, name| write(bench, &format!("{name}.tmp"), AGE), "needs it"),
        ("the kubelet has just compressed it", ROTATED[2], &|bench, name| write(bench, &format!("{name}.gz"), AGE), "needs it"),
        ("the newest instance, which the runtime lost", "4.log", &|bench, name| write(bench, name, AGE), "needs it"),
        ("one that the kubelet began to write", "3.log.20261121-130000.tmp", &|bench, name| write(bench, name, AGE), "needs it"),
        ("a foreign name", "3.log.old", &|bench, name| write(bench, name, AGE), "needs it"),
    ];
    for (row, name, change, expected) in rows {
        let bench = bench();
        change(&bench, name);
        let before = bench.files_without_content();
        assert_eq!(
            bench.rehearse(vec![log_file(&bench, name)]).await,
            [format!("{name} refused: the path is not ours")],
            "{row}"
        );
        let (lines, reports, _) = bench.carry_out_plan(&plan(vec![log_file(&bench, name)])).await;
        assert_eq!(lines, [format!("{name} refused: the path is not ours")], "{row}");
        assert!(reports[0].note.as_ref().unwrap().contains(expected), "{row}: {reports:?}");
        assert_eq!(bench.files_without_content(), before, "{row}");
    }
}

/// The kubelet removes neither before the next rotation.
#[tokio::test]
async fn what_a_compression_left_an_hour_ago_stops_no_limit() {
    for suffix in ["tmp", "gz"] {
        let bench = bench();
        write(&bench, &format!("{}.{suffix}", ROTATED[2]), 4000);
        let done = bench.carry_out(vec![log_file(&bench, ROTATED[2])]).await;
        assert_eq!(done, [format!("{} removed", ROTATED[2])], "{suffix}");
    }
}

#[tokio::test]
async fn a_file_of_unknown_age_or_size_or_of_another_pod_is_kept() {
    let bench = bench();
    let before = bench.files();
    let no_age = Action { age_seconds: None, ..log_file(&bench, ROTATED[0]) };
    let no_size = Action { size: None.into(), ..log_file(&bench, ROTATED[0]) };
    let other = Action { pod: Some(PodRef { uid: "u2".into(), ..web() }), ..log_file(&bench, ROTATED[0]) };
    let lines = bench.carry_out(vec![no_age, no_size, other]).await;
    assert!(lines.iter().all(|line| line.contains(" refused: ")) && lines.len() == 3, "{lines:?}");
    assert_eq!(bench.files(), before);
}

// === impl Bench ===

impl Bench {
    /// Returns the entries of the container's log directory. To read a fifo would wait for a writer.
    fn files_without_content(&self) -> Vec<std::ffi::OsString> {
        let names = fs::read_dir(self.pods("default_web_u1/app")).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }
}
