//! What the kubelet and the runtime write beside the calls: lines of logs, their rotations, and records of images that were pulled with a
//! secret. Judges what `kubegc logs` prints, and that each record stays.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use tokio::time::Instant;

use super::agent::Acts;
use super::judge::POD_UID;
use crate::model::ContainerState;
use crate::observe::{LogLines, LogQuery, PodLogs};
use crate::sim::Sim;
use crate::sim::sim_node::SimContainer;
use crate::testing::lives::clock;

/// For how long the archive of a life that archives has a line at least: it keeps for an hour.
const KEPT: Duration = Duration::from_mins(55);
/// The kubelet rotates a log of so many bytes, and leaves so many rotated files.
const MOST_BYTES: u64 = 300;
const MOST_FILES: usize = 2;

/// When a container wrote a line, which is a number, and to which file.
struct Line {
    at: Instant,
    log: PathBuf,
}

pub(super) struct Files {
    sim: Arc<Sim>,
    /// The archive has room, and is on during the whole life.
    archives: bool,
    /// The lines that were not lost before a pass saw them, by the directory of their container.
    lines: BTreeMap<PathBuf, BTreeMap<usize, Line>>,
    written: usize,
    records: Vec<PathBuf>,
}

// === impl Files ===

impl Files {
    pub(super) fn new(sim: Arc<Sim>, archives: bool) -> Self {
        Self { sim, archives, lines: BTreeMap::new(), written: 0, records: Vec::new() }
    }

    /// As the kubelet writes it when it has pulled an image with a secret.
    pub(super) fn records(&mut self, image: &str) {
        let directory = self.sim.dir().join("kubelet/image_manager/pulled");
        fs::create_dir_all(&directory).unwrap();
        self.records.push(directory.join(image.replace(':', "-")));
        fs::write(self.records.last().unwrap(), format!(r#"{{"imageRef":"{image}"}}"#)).unwrap();
    }

    /// Each running container writes a line, and the kubelet rotates its log.
    pub(super) fn writes(&mut self) {
        for (log, _) in self.running() {
            let path = self.sim.log_roots().pods.join(&log);
            let mut file = File::options().append(true).open(&path).expect("the log of a running container");
            if fs::read(&path).unwrap().ends_with(b"hello\n") {
                // The simulated node wrote a line of another time.
                file.set_len(0).unwrap();
            }
            self.written += 1;
            writeln!(file, "{} stdout F {}", clock(), self.written).unwrap();
            let lines = self.lines.entry(log.parent().unwrap().to_owned()).or_default();
            lines.insert(self.written, Line { at: Instant::now(), log });
            if file.metadata().unwrap().len() > MOST_BYTES {
                self.rotates(&path);
            }
        }
    }

    /// As the kubelet does: the oldest file goes, the last one is compressed, and the current one gets the time in its name.
    #[expect(clippy::disallowed_methods, reason = "the kubelet removes what it has compressed")]
    fn rotates(&mut self, log: &Path) {
        let rotated = files_of(log).into_iter().filter(|path| path != log).collect::<Vec<_>>();
        let (old, kept) = rotated.split_at(rotated.len().saturating_sub(MOST_FILES - 1));
        self.removes(old);
        for path in kept.iter().filter(|path| path.extension().unwrap() != "gz") {
            let compressed = File::create(format!("{}.gz", path.display())).unwrap();
            GzEncoder::new(compressed, Compression::fast()).write_all(&fs::read(path).unwrap()).unwrap();
            fs::remove_file(path).unwrap();
        }
        fs::rename(log, format!("{}.{}", log.display(), clock().strftime("%Y%m%d-%H%M%S"))).unwrap();
        File::create(log).unwrap();
    }

    /// The kubelet removes files. If the archive does not have one, lines are lost.
    #[expect(clippy::disallowed_methods, reason = "the kubelet removes logs too")]
    fn removes(&mut self, paths: &[PathBuf]) {
        for path in paths {
            if fs::metadata(path).unwrap().nlink() < 2 {
                self.lines.remove(path.parent().unwrap().strip_prefix(self.sim.log_roots().pods).unwrap());
            }
            fs::remove_file(path).unwrap();
        }
    }

    /// The kubelet removes the logs of a container that it removes.
    pub(super) fn removes_of(&mut self, container: &SimContainer) {
        self.removes(&files_of(&self.sim.log_roots().pods.join(&container.log_path)));
    }

    /// A pod of which nothing is left counts its instances from 0 again, so that its logs have names that were there before.
    pub(super) fn begins_again(&mut self, directory: &str, uid: &str) {
        let (logs, mut node) = (self.sim.log_roots().pods.join(directory), self.sim.state());
        if node.containers.of_pod(uid).count() + node.sandboxes.of_pod(uid).count() == 0 && !logs.exists() {
            node.forget_attempts(uid);
            self.lines.retain(|of, _| self.archives || !of.starts_with(directory));
        }
    }

    /// Returns the fault of what is there now.
    pub(super) fn judge(&self, acts: &Acts) -> Option<String> {
        if let Some(record) = self.records.iter().find(|record| !record.exists()) {
            return Some(format!("the record {:?} was removed", record.file_name()));
        }
        let (running, mut all) = (self.running(), self.printed());
        let runs = |log: &Path| running.iter().any(|(of, uid)| of == log && acts.is_kept(uid));
        for (of, lines) in &self.lines {
            let printed = all.remove(of).unwrap_or_default();
            if self.archives && !printed.is_sorted_by(|one, next| one < next) {
                return Some(format!("the lines of {} are printed as {printed:?}", of.display()));
            }
            let is_needed = |line: &Line| self.archives && line.at.elapsed() < KEPT || runs(&line.log);
            if let Some((lost, line)) = lines.iter().find(|(it, line)| is_needed(line) && !printed.contains(it)) {
                return Some(format!("line {lost} of {} is lost", line.log.display()));
            }
        }
        None
    }

    /// Returns the lines of each container as `kubegc logs` prints them.
    fn printed(&self) -> BTreeMap<PathBuf, Vec<usize>> {
        let (pods, mut omitted, mut printed) = (self.sim.log_roots().pods, Vec::new(), BTreeMap::new());
        let archive = pods.with_file_name("kubegc/archive");
        for pod in PodLogs::find(Path::new("/"), (&pods, &archive), &mut omitted).unwrap() {
            for container in pod.containers(&mut omitted) {
                let lines = LogLines::new(&container.files, LogQuery::default());
                let numbers = lines.filter_map(|line| str::from_utf8(&line.message).unwrap().parse().ok()).collect();
                printed.insert(Path::new(&pod.dir).join(container.name), numbers);
            }
        }
        printed
    }

    /// Returns the logs of the containers that run, and the uids of their pods.
    fn running(&self) -> Vec<(PathBuf, String)> {
        let node = self.sim.state();
        let running = node.containers.iter().filter(|it| it.state() == ContainerState::Running);
        running.map(|it| (it.log_path.clone(), it.listed.labels[POD_UID].clone())).collect()
    }
}

/// Returns a log and what was rotated of it, by name; nothing if its directory is not there.
fn files_of(log: &Path) -> Vec<PathBuf> {
    let all = fs::read_dir(log.parent().unwrap()).into_iter().flatten().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = all.filter(|path| path.to_str().unwrap().starts_with(log.to_str().unwrap())).collect();
    files.sort();
    files
}
