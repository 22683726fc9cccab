//! Tests of lines in the format of the CRI, and of files that a kubelet rotated.

use std::fmt::Write as _;
use std::fs;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::symlink;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;

use super::super::pod_logs::PodLogs;
use super::*;

/// A log root with the directory of one container.
struct Root(tempfile::TempDir);

impl Root {
    fn new() -> Self {
        let root = Self(tempfile::tempdir().unwrap());
        fs::create_dir_all(root.path("")).unwrap();
        root
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join("default_web_u1/app").join(name)
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let content =
            if name.strip_suffix(".gz").is_some() { gzip(content.as_ref()) } else { content.as_ref().to_vec() };
        fs::write(self.path(name), content).unwrap();
    }

    fn remove(&self, name: &str) {
        fs::rename(self.path(name), self.0.path().join(name)).unwrap();
    }

    /// Returns the files of the container, and what was left out.
    fn files(&self) -> (Vec<LogFile>, Vec<String>) {
        let mut omitted = Vec::new();
        let pods = PodLogs::find(Path::new("/"), (self.0.path(), Path::new("/missing")), &mut omitted).unwrap();
        let mut containers = pods[0].containers(&mut omitted);
        let here = format!("{}/", self.0.path().display());
        let omitted = omitted.into_iter().map(|path| path.replace(&here, "")).collect();
        (containers.pop().map(|container| container.files).unwrap_or_default(), omitted)
    }

    fn lines(&self, query: LogQuery) -> LogLines {
        LogLines::new(&self.files().0, query)
    }

    fn messages(&self) -> Vec<String> {
        messages(&mut self.lines(LogQuery::default()))
    }
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

fn messages(lines: &mut LogLines) -> Vec<String> {
    lines.map(|line| String::from_utf8_lossy(&line.message).into_owned()).collect()
}

/// Returns a line of a file.
fn raw(rest: &str) -> String {
    format!("2026-11-21T12:00:00.5Z {rest}\n")
}

fn tail(count: usize) -> LogQuery {
    LogQuery { tail: Some(count), ..LogQuery::default() }
}

#[test]
fn parts_are_joined_and_what_is_not_in_the_format_is_left_out() {
    let long = "x".repeat(MOST_LINE);
    let rows: [(&[&str], &[&str], usize); 17] = [
        (&["stdout F a", "stderr F b"], &["a", "b"], 0),
        (&["stdout F "], &[""], 0),
        (&["stdout F  a b "], &[" a b "], 0),
        (&["stdout P a", "stdout P b", "stdout F c", "stdout F d"], &["abc", "d"], 0),
        (&["stdout P a", "stderr F b", "stdout F c"], &["b", "ac"], 0),
        (&["stdout P a", "stdout F "], &["a"], 0),
        (&["stdout P:x a", "stdout F:y b", "stdout PX c"], &["ab", "c"], 0),
        (&["stdout F b", "stdout P a"], &["b", "a"], 0),
        (&["stdout F"], &[], 1),
        (&["stdin F a", "stdout F b"], &["b"], 1),
        (&["", "stdout", "stdout F a"], &["a"], 2),
        (&["stdout P a", "damaged", "stdout F b"], &["ab"], 1),
        (&["stdout F \0\u{1b}[2J\r"], &["\0\u{1b}[2J\r"], 0),
        (&[&format!("stdout F {long}")], &[&long], 0),
        (&[&format!("stdout F {long}{long}"), "stdout F b"], &[&[&*long, &long[32..]].concat(), &long[..32], "b"], 0),
        (&[&format!("stdout P {long}"), "stdout F b"], &[&long, "b"], 0),
        (&[&format!("stdin F {long}"), "stdout F b"], &["b"], 1),
    ];
    for (parts, expected, omitted) in rows {
        let root = Root::new();
        root.write("0.log", parts.iter().map(|part| raw(part)).collect::<String>());
        let mut lines = root.lines(LogQuery::default());
        let found = messages(&mut lines);
        let shown: Vec<_> = found.iter().map(|line| &line[..line.len().min(40)]).collect();
        assert!(found == expected, "{:?}: {shown:?}", &parts[0][..parts[0].len().min(40)]);
        assert_eq!((lines.omitted(), &*lines.faults), (omitted, &[][..]), "{shown:?}");
    }
}

#[test]
fn damaged_times_and_lines_without_an_end_are_as_in_the_kubelet() {
    let root = Root::new();
    let text =
        "\n2026-11-21 stdout F a\n\0\0\0\0\u{0}2026-11-21T12:00:00Z stdout F b\n2026-11-21T12:00:00+02:00 stdout F c";
    root.write("0.log", text);
    let mut lines = root.lines(LogQuery::default());
    let line = lines.next().unwrap();
    assert_eq!(
        (line.time.to_string(), line.stream, &*line.message),
        ("2026-11-21T10:00:00Z".into(), LogStream::Stdout, &b"c"[..])
    );
    assert_eq!((lines.next(), lines.omitted()), (None, 2));
}

#[test]
fn rotated_files_are_read_once_and_in_order() {
    let root = Root::new();
    root.write("0.log.20261121-120001.gz", raw("stdout F 1") + &raw("stdout P 2"));
    root.write("0.log.20261121-120002", raw("stdout F a") + &raw("stdout F 3"));
    root.write("0.log.20261121-120002.gz", raw("stdout F a") + &raw("stdout F 3"));
    root.write("0.log.20261121-120003.gz.tmp", raw("stdout F temporary"));
    root.write("0.log.20261121-120003.tmp", raw("stdout F temporary"));
    root.write("0.log", raw("stdout F 4") + &raw("stdout P 5"));
    root.write("10.log", raw("stdout F 7"));
    root.write("2.log", raw("stdout F 6"));
    assert_eq!(root.messages(), ["1", "2a", "3", "4", "5", "6", "7"]);
    assert_eq!(root.files().1, [""; 0]);
    let attempts: Vec<_> = root.lines(LogQuery::default()).map(|line| line.attempt).collect();
    assert_eq!(attempts, [0, 0, 0, 0, 0, 2, 10]);
}

/// A tenant may have a hostPath below the log root.
#[test]
fn only_regular_files_with_names_of_a_kubelet_are_read() {
    let root = Root::new();
    root.write("0.log", raw("stdout F 1"));
    fs::write(root.0.path().join("secret"), raw("stdout F secret")).unwrap();
    symlink(root.0.path().join("secret"), root.path("1.log")).unwrap();
    nix::unistd::mkfifo(&root.path("2.log"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    fs::create_dir(root.path("3.log")).unwrap();
    for name in [".0.log", "0.log.evil", "0.log.20261121-120001.gz.gz", "\u{1b}[2J.log"] {
        root.write(name, raw("stdout F other"));
    }
    symlink(root.path(""), root.0.path().join("default_web_u1/linked")).unwrap();
    symlink(root.0.path().join("default_web_u1"), root.0.path().join("default_zlinked_u2")).unwrap();
    let mut lines = root.lines(LogQuery::default());
    assert_eq!(messages(&mut lines), ["1"]);
    let refused = |name: &str| format!("{}: it is not a regular file", root.path(name).display());
    assert_eq!(lines.faults, ["1.log", "2.log", "3.log"].map(refused));
    let no_log = |name: &str| format!("default_web_u1/app/{name}: it has no name of a log file");
    assert_eq!(
        root.files().1,
        [
            "secret: it has no name of a pod's log directory".to_owned(),
            "default_web_u1/linked: Not a directory (os error 20)".to_owned(),
            no_log("\u{1b}[2J.log"),
            no_log(".0.log"),
            no_log("0.log.20261121-120001.gz.gz"),
            no_log("0.log.evil"),
        ]
    );
    let pods = PodLogs::find(Path::new("/"), (root.0.path(), Path::new("/missing")), &mut Vec::new()).unwrap();
    assert!(pods[1].containers(&mut Vec::new()).is_empty(), "a linked directory of a pod");
}

#[test]
fn a_file_that_was_renamed_or_compressed_meanwhile_is_read_and_a_replaced_one_is_not() {
    let root = Root::new();
    root.write("0.log.20261121-120001", raw("stdout F 1"));
    root.write("0.log", raw("stdout F 2"));
    root.write("1.log", raw("stdout F 3"));
    let files = root.files().0;
    root.remove("0.log.20261121-120001");
    root.write("0.log.20261121-120001.gz", raw("stdout F 1"));
    fs::rename(root.path("0.log"), root.path("0.log.20261121-120002")).unwrap();
    root.write("0.log", raw("stdout F new"));
    root.write("1.log.new", raw("stdout F other"));
    fs::rename(root.path("1.log.new"), root.path("1.log")).unwrap();
    let mut lines = LogLines::new(&files, LogQuery::default());
    assert_eq!(messages(&mut lines), ["1", "2"]);
    assert_eq!(lines.faults, [format!("{}: entity not found", root.path("1.log").display())]);
}

#[test]
fn a_renamed_file_is_read_although_it_has_another_name_too() {
    let root = Root::new();
    root.write("0.log", raw("stdout F 1"));
    let files = root.files().0;
    fs::hard_link(root.path("0.log"), root.path("0.log.20261121-120000.tmp")).unwrap();
    fs::rename(root.path("0.log"), root.path("0.log.20261121-120001")).unwrap();
    let mut lines = LogLines::new(&files, LogQuery::default());
    assert_eq!((messages(&mut lines), lines.faults), (vec!["1".to_owned()], Vec::new()));
}

#[test]
fn a_damaged_or_huge_compressed_file_is_read_in_part() {
    let root = Root::new();
    let compressed = gzip((0..2000).map(|number| raw(&format!("stdout F {number}"))).collect::<String>().as_bytes());
    fs::write(root.path("0.log.20261121-120001.gz"), &compressed[..compressed.len() - 20]).unwrap();
    root.write("0.log.20261121-120002.gz", vec![0; 64 << 20]);
    root.write("0.log", raw("stdout F last"));
    let mut lines = root.lines(LogQuery::default());
    let found = messages(&mut lines);
    assert!(found[0] == "0" && found.last().unwrap() == "last" && lines.omitted() >= 1, "{}", found.len());
    assert_eq!(lines.faults.len(), 2, "{:?}", lines.faults);
    assert!(lines.faults[1].ends_with("it has more than 4 GiB"), "{:?}", lines.faults);
    assert_eq!(messages(&mut root.lines(tail(1))), ["last"]);
}

#[test]
fn files_before_the_time_are_not_read() {
    let root = Root::new();
    root.write("0.log.20261121-120001.gz", "damaged");
    root.write("0.log", raw("stdout F 1") + &raw("stdout F 2").replace("12:00:00.5", "12:00:01"));
    let past = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1000);
    fs::File::open(root.path("0.log.20261121-120001.gz")).unwrap().set_modified(past).unwrap();
    let since = Some("2026-11-21T12:00:01Z".parse().unwrap());
    let mut lines = root.lines(LogQuery { since, ..LogQuery::default() });
    assert_eq!(messages(&mut lines), ["2"]);
    assert_eq!(lines.faults, [""; 0]);
    // Of the last lines those, as in the kubelet.
    root.write("0.log.20261121-120001.gz", raw("stdout F 0").replace("12:00:00.5", "12:00:02"));
    assert_eq!(messages(&mut root.lines(LogQuery { since, ..tail(2) })), ["2"]);
    assert_eq!(messages(&mut root.lines(LogQuery { since, ..tail(3) })), ["0", "2"]);
}

/// The last lines of a file of 4 GiB, of which the disk has only the end.
#[test]
fn the_last_lines_of_a_large_file_are_read_from_its_end() {
    let root = Root::new();
    let mut file = fs::File::create(root.path("0.log")).unwrap();
    file.set_len(4 << 40).unwrap();
    file.seek(SeekFrom::End(0)).unwrap();
    (0..100).for_each(|number| write!(file, "\n{}", raw(&format!("stdout F {number}")).trim_end()).unwrap());
    assert_eq!(messages(&mut root.lines(tail(2))), ["98", "99"]);
    assert_eq!(messages(&mut root.lines(tail(0))), [""; 0]);
}

#[test]
fn a_last_line_that_began_before_lines_of_the_other_stream_is_whole() {
    let root = Root::new();
    let between: String = (0..100).map(|number| raw(&format!("stderr F {number}"))).collect();
    root.write("0.log", raw("stdout F x").repeat(100) + &raw("stdout P a") + &between + &raw("stdout F b"));
    assert_eq!(messages(&mut root.lines(tail(2))), ["99", "ab"]);
}

#[test]
fn a_follower_goes_on_over_rotations_and_new_instances() {
    let root = Root::new();
    let append = |name: &str, text: &str| {
        let file = fs::OpenOptions::new().append(true).create(true).open(root.path(name));
        file.unwrap().write_all(text.as_bytes()).unwrap();
    };
    let rotate = |time: &str| fs::rename(root.path("0.log"), root.path(&format!("0.log.20261121-{time}"))).unwrap();
    root.write("0.log.20261121-120001.gz", raw("stdout F 0"));
    root.write("0.log", raw("stdout F 1") + "2026-11-21T12:00:00Z std");
    let mut lines = root.lines(LogQuery { follows: true, ..tail(1) });
    let mut next = |expected: &[&str]| {
        lines.add_newer(root.files().0);
        assert_eq!(messages(&mut lines), expected);
    };
    next(&["1"]);
    append("0.log", "out F 2\n");
    append("0.log", &raw("stdout P 3"));
    next(&["2"]);
    rotate("120002");
    next(&[]);
    append("0.log", "");
    append("0.log.20261121-120002", &raw("stdout F a"));
    next(&["3a"]);
    append("0.log", &raw("stdout F 4"));
    rotate("120003");
    append("0.log", &raw("stdout F 5"));
    append("1.log", &raw("stdout F 6"));
    next(&["4", "5", "6"]);
    next(&[]);
    // Two rotations at once: the file that was read is compressed by then.
    let mut lines = root.lines(LogQuery { follows: true, ..tail(1) });
    assert_eq!(messages(&mut lines), ["6"]);
    root.write("1.log.20261121-120004.gz", raw("stdout F 6") + &raw("stdout F 7"));
    root.write("1.log.20261121-120005", raw("stdout F 8"));
    root.remove("1.log");
    append("1.log", &raw("stdout F 9"));
    lines.add_newer(root.files().0);
    assert_eq!(messages(&mut lines), ["8", "9"]);
    assert_eq!(lines.faults.len(), 1);
}

/// Splits numbered lines of two streams into parts and files.
fn written(lines: &[(bool, Vec<u8>, bool)]) -> Vec<String> {
    let (mut files, mut count) = (vec![String::new()], 0);
    let mut raw = |rest: &str| {
        count += 1;
        format!("2026-11-21T12:00:00.{count:09}Z {rest}\n")
    };
    for (number, (is_stderr, parts, rotates)) in lines.iter().enumerate() {
        let stream = if *is_stderr { "stderr" } else { "stdout" };
        let text = format!("{number}:{}", "y".repeat(parts.len() * 7));
        let mut rest = &*text;
        for part in parts {
            let (now, later) = rest.split_at(usize::from(*part) % rest.len().min(9));
            files.last_mut().unwrap().write_str(&raw(&format!("{stream} P {now}"))).unwrap();
            rest = later;
            if part % 5 == 0 {
                files.push(String::new());
            }
        }
        files.last_mut().unwrap().write_str(&raw(&format!("{stream} F {rest}"))).unwrap();
        if *rotates {
            files.push(String::new());
        }
    }
    files
}

proptest! {
    #[test]
    fn every_line_is_read_once_and_in_order(
        lines in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 0..4), prop::bool::weighted(0.1)), 0..60),
        compressed in any::<u64>(),
        count in 0_usize..70,
    ) {
        let (root, files) = (Root::new(), written(&lines));
        for (at, text) in files.iter().enumerate() {
            let gz = if compressed >> (at % 64) & 1 == 1 { ".gz" } else { "" };
            let is_last = at + 1 == files.len();
            root.write(&if is_last { "0.log".to_owned() } else { format!("0.log.20261121-{at:06}{gz}") }, text);
        }
        let all: Vec<_> =
            lines.iter().enumerate().map(|(number, (_, parts, _))| format!("{number}:{}", "y".repeat(parts.len() * 7))).collect();
        prop_assert_eq!(&root.messages(), &all);
        let last = messages(&mut root.lines(tail(count)));
        prop_assert_eq!(&last[..], &all[all.len() - count.min(all.len())..]);
    }
}

/// A rotated file has the local time in its name. And of one that was compressed between two looks the archive has both forms.
#[test]
fn files_are_in_the_order_of_their_lines_and_each_is_read_once() {
    let root = Root::new();
    let line = |time: &str, text: &str| format!("2026-10-25T{time}Z stdout F {text}\n");
    root.write("0.log.20261025-025900", line("00:58:00", "first"));
    root.write("0.log.20261025-022900", line("01:28:00", "second"));
    root.write("0.log.20261025-023000", "\0\0\0\0");
    root.write("0.log.20261025-023500", "\0\0\0\0");
    root.write("0.log", line("02:00:00", "third"));
    assert_eq!(root.messages(), ["first", "second", "third"]);
    root.write("0.log.20261025-005801.gz", line("00:58:00", "first"));
    root.write("0.log.20261025-012801.gz", line("01:28:00", "second"));
    assert_eq!(root.messages(), ["first", "second", "third"]);
    assert_eq!(messages(&mut root.lines(tail(2))), ["second", "third"]);
    root.write("0.log.20261025-005802.gz", line("00:58:00", "another"));
    assert_eq!(root.messages().len(), 4, "the time alone does not say that it is the same");
}

/// A static pod that comes again has its uid, and the kubelet counts its instances from 0 again.
#[test]
fn lines_of_a_pod_that_comes_again_follow_its_earlier_ones() {
    let (root, archive) = (Root::new(), Root::new());
    let line = |hour: usize, text: &str| format!("2026-10-25T{hour:02}:00:00Z stdout F {text}\n");
    archive.write("0.log.20261025-000500", line(0, "1"));
    archive.write("1.log", line(1, "2"));
    root.write("0.log", line(2, "3"));
    let pods = PodLogs::find(Path::new("/"), (root.0.path(), archive.0.path()), &mut Vec::new()).unwrap();
    let files = pods[0].containers(&mut Vec::new()).pop().unwrap().files;
    assert_eq!(messages(&mut LogLines::new(&files, LogQuery::default())), ["1", "2", "3"]);
    assert_eq!(messages(&mut LogLines::new(&files, tail(2))), ["2", "3"]);
}

#[test]
fn without_an_archive_instances_are_in_the_order_of_their_numbers_although_the_clock_was_set_back() {
    let root = Root::new();
    root.write("0.log", "2026-10-25T02:00:00Z stdout F first\n");
    root.write("1.log", "2026-10-25T01:00:00Z stdout F second\n");
    assert_eq!(root.messages(), ["first", "second"]);
}

#[test]
fn the_last_lines_of_a_sparse_file_are_found() {
    let root = Root::new();
    root.write("0.log", ["a", "b", "c", "d"].map(|text| raw(&format!("stdout F {text}"))).concat());
    let file = fs::File::options().write(true).open(root.path("0.log")).unwrap();
    file.set_len(8 << 40).unwrap();
    assert_eq!(messages(&mut root.lines(tail(3))), ["b", "c", "d"]);
    let text = format!("\n{}", raw("stdout F e"));
    std::os::unix::fs::FileExt::write_all_at(&file, text.as_bytes(), 8 << 40).unwrap();
    assert_eq!(messages(&mut root.lines(tail(1))), ["e"]);
    assert_eq!(root.messages().len(), 5);
}
