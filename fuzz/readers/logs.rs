//! Log files of pods and their names, and documents in the archive.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::sync::LazyLock;

use flate2::Compression;
use flate2::write::GzEncoder;
use kubegc::model::{
    ArchivedPod, LogFileName, PodRef, attempt_of_log, container_id_of_link, container_log_dir, container_of_link,
    is_current_log, is_log_link, is_log_link_without_id, log_dir_name, log_file_name, pod_of_dir, pod_uid_of_dir,
    rotated_log,
};
use kubegc::observe::{Archive, LogLine, LogLines, LogQuery, LoggedContainer, PodLogs, read_archived_pod};
use tempfile::TempDir;

use super::dir;

const POD: &str = "pods/shop_web_u1";
const CURRENT: &str = "0.log";
const ROTATED: &str = "0.log.20260102-150405";
const COMPRESSED: &str = "0.log.20260102-150405.gz";

/// Ends the open line of each stream: one that has no end is the last of all lines, but `tail` does not look for it through all files.
const ENDS: &[u8] = b"\n2026-11-21T12:00:00Z stdout F \n2026-11-21T12:00:00Z stderr F \n";

/// The document of a pod in the archive, with and without what was known before.
pub fn archived_pod(text: &[u8]) {
    static DIR: LazyLock<TempDir> = LazyLock::new(|| with_files(&[(CURRENT, b"")]));
    let document = DIR.path().join(POD).join(ArchivedPod::FILE);
    fs::write(&document, text).expect("the file can be written");
    let found = Archive::of(DIR.path(), Path::new("/pods")).expect("the archive can be read");
    assert_eq!(found.logs.len(), 1);
    let Some(pod) = read_archived_pod(File::open(document).expect("the file can be read")) else { return };
    let again = pod.clone().after(pod.clone(), |_| true);
    assert_eq!(again.containers.len(), pod.containers.len(), "{pod:?}");
    let _ = pod.dir();
}

/// The lines of a log file: the last ones, those since a time, and all of them over a rotation, compressed or not. The first byte says
/// how often the rest is repeated, the second where the file was rotated.
pub fn log_lines(input: &[u8]) {
    let [times, place, text @ ..] = input else { return };
    let text = [text.repeat(usize::from(times % 8) + 1), ENDS.to_vec()].concat();
    let directory = with_files(&[(CURRENT, &text)]);
    let all = lines(directory.path(), LogQuery::default());
    for count in [0, 1, 3] {
        let last = lines(directory.path(), LogQuery { tail: Some(count), ..LogQuery::default() });
        assert_eq!(last, all[all.len().saturating_sub(count)..], "the last {count}");
    }
    let since = Some("2016-10-06T00:17:09Z".parse().expect("a time"));
    let recent: Vec<_> = all.iter().filter(|line| Some(line.time) >= since).cloned().collect();
    assert_eq!(lines(directory.path(), LogQuery { since, ..LogQuery::default() }), recent);

    let ends = text.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    let Some(end) = ends.take(usize::from(*place) + 1).last() else { return };
    let (before, after) = text.split_at(end);
    // Files that begin with the same lines are one file.
    if before.iter().take(4096).eq(after.iter().take(4096)) {
        return;
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(before).expect("memory");
    let compressed = encoder.finish().expect("memory");
    for rotated in [(ROTATED, before), (COMPRESSED, &compressed[..])] {
        let directory = with_files(&[rotated, (CURRENT, after)]);
        assert_eq!(lines(directory.path(), LogQuery::default()), all, "rotated at {end}");
    }
}

/// A compressed log file.
pub fn compressed_log(content: &[u8]) {
    static DIR: LazyLock<TempDir> = LazyLock::new(|| with_files(&[]));
    fs::write(DIR.path().join(POD).join("web").join(COMPRESSED), content).expect("the file can be written");
    let all = lines(DIR.path(), LogQuery::default());
    let last = lines(DIR.path(), LogQuery { tail: Some(1), ..LogQuery::default() });
    assert_eq!(last, all[all.len().saturating_sub(1)..]);
}

/// Returns a directory with the log files of a container.
fn with_files(files: &[(&str, &[u8])]) -> TempDir {
    let directory = dir();
    let container = directory.path().join(POD).join("web");
    fs::create_dir_all(&container).expect("the directory can be created");
    for (name, content) in files {
        fs::write(container.join(name), content).expect("the file can be written");
    }
    directory
}

fn lines(root: &Path, query: LogQuery) -> Vec<LogLine> {
    let mut omitted = Vec::new();
    let pods = PodLogs::find(root, (Path::new("/pods"), Path::new("/archive")), &mut omitted).expect("a list");
    let containers: Vec<_> = pods.iter().flat_map(|pod| pod.containers(&mut omitted)).collect();
    assert_eq!(omitted, [""; 0]);
    let of_container = |container: &LoggedContainer| LogLines::new(&container.files, query);
    containers.iter().flat_map(of_container).collect()
}

/// The names of directories, links and files of logs. Those that are taken apart have no more than their parts (I7).
pub fn log_names(text: &[u8]) {
    let Ok(name) = std::str::from_utf8(text) else { return };
    let _ = (pod_uid_of_dir(name), container_id_of_link(name), is_log_link_without_id(name));
    if let Some(pod) = pod_of_dir(name) {
        assert!(pod.namespace.is_empty() || log_dir_name(&pod) == name, "{name:?}");
    }
    if container_of_link(name).is_some() {
        assert!(is_log_link(name), "{name:?}");
    }
    let web = PodRef { namespace: "shop".to_owned(), name: "web".to_owned(), uid: "u1".into() };
    if let Some(dir) = container_log_dir(&web, name) {
        assert!(dir.parent() == Some(Path::new("shop_web_u1")) && dir.file_name() == Some(name.as_ref()), "{name:?}");
    }
    let attempt = attempt_of_log(name);
    assert_eq!(attempt.map(log_file_name).as_deref() == Some(name), is_current_log(name));
    assert!(rotated_log(name).is_none_or(|rotated| rotated_log(rotated) == Some(rotated)), "{name:?}");
    if let Some(parsed) = LogFileName::parse(name) {
        assert!(attempt == Some(parsed.attempt) && parsed.is_current == is_current_log(name), "{parsed:?}");
    }
}
