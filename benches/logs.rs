//! The archive of logs: the first look at 5,000 files, and the watch of 500 pods whose logs rotate, beside the same program without an
//! archive. And `kubegc logs`, beside `cat` and `zcat`.
//!
//! `cargo bench --bench logs`, or with the name of a part: `archive`, `read`.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    reason = "a benchmark may fail loudly, asks the clock and starts programs"
)]

#[path = "common/figures.rs"]
mod figures;
#[path = "common/on_sim.rs"]
mod on_sim;

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use figures::{is_chosen, median, memory, mib, row};
use kubegc::sim::{Node, Sim};

const PODS: usize = 500;
/// The files of each pod: one that is written, and rotated ones.
const FILES: usize = 10;
const ARCHIVE: &str = "logs.archive=keep 24h";
const RUNS: usize = 5;
/// The kubelet looks every 10 s whether a log must be rotated. So often each of them is.
const ROTATION: Duration = Duration::from_secs(10);
const ROTATIONS: usize = 2;

/// The lines of a log that is read, and how many are written at once.
const LINES: usize = 12_000_000;
const AT_ONCE: usize = 100_000;

fn main() {
    if is_chosen("archive") {
        archive();
    }
    if is_chosen("read") {
        read();
    }
}

/// Prints a log of 1 GB as it is, and compressed.
fn read() {
    let sim = Sim::start(Node::new()).unwrap();
    let (current, app) = (app(&sim, 0).join("0.log"), app(&sim, 0));
    fs::create_dir_all(&app).unwrap();
    let mut file = fs::File::create(&current).unwrap();
    let line =
        |number| format!("2026-11-21T12:00:00.123456789Z stdout F {number:08} GET /api/v1/items?page=17 200 12ms\n");
    for begin in (0..LINES).step_by(AT_ONCE) {
        file.write_all((begin..begin + AT_ONCE).map(line).collect::<String>().as_bytes()).unwrap();
    }
    compare_with("`kubegc logs`, 12,000,000 lines", "cat", &sim, &current);
    assert!(Command::new("gzip").arg("-1").arg(&current).status().unwrap().success());
    let rotated = app.join("0.log.20261121-120000.gz");
    fs::rename(app.join("0.log.gz"), &rotated).unwrap();
    fs::write(&current, "").unwrap();
    compare_with("the same, compressed", "zcat", &sim, &rotated);
}

fn compare_with(what: &str, peer: &str, sim: &Sim, path: &Path) {
    let out = sim.dir().join("out");
    let timed = |command: &mut Command| {
        let (begun, out) = (Instant::now(), fs::File::create(&out).unwrap());
        assert!(command.stdout(out).status().unwrap().success());
        begun.elapsed().as_secs_f64()
    };
    let words = on_sim::kubegc(sim, &sim.dir().join("state/kubegc.db"), &["logs", "web-0"]);
    let ours = median((0..RUNS).map(|_| timed(Command::new(&words[0]).args(&words[1..]))));
    let written = BufReader::new(fs::File::open(&out).unwrap()).split(b'\n').count();
    assert_eq!(written, LINES);
    let theirs = median((0..RUNS).map(|_| timed(Command::new(peer).arg(path))));
    row(what, &format!("{ours:.2} s"), &format!("`{peer}`: {theirs:.2} s"), ours / theirs, 1.5);
}

fn archive() {
    let (mut without, mut first, mut later) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let sim = node();
        let collect = |settings: &[&str]| {
            let begun = Instant::now();
            assert!(kubegc(&sim, "collect", settings).stdout(Stdio::null()).status().unwrap().success());
            begun.elapsed().as_secs_f64()
        };
        without.push(collect(&[]));
        first.push(collect(&[ARCHIVE]));
        later.push(collect(&[ARCHIVE]));
    }
    let [without, first, later] = [without, first, later].map(median);
    let texts = [without, first, later].map(|seconds| format!("{:.0} ms", 1e3 * seconds));
    let [peer, first_text, later_text] = &texts;
    row("`collect` beside 5,000 log files, first look of the archive", first_text, peer, first / without, 7.0);
    row("the same, a later look", later_text, peer, later / without, 4.5);
    let [without, with] = [&[][..], &[ARCHIVE]].map(service);
    let seconds = ROTATION.as_secs_f64() * ROTATIONS as f64;
    let [share, peer] = [with, without].map(|(cpu, _)| 100.0 * cpu / seconds);
    let what = "service with an archive, 500 pods whose logs rotate every 10 s, % of a core";
    row(what, &format!("{share:.1} %"), &format!("without one: {peer:.1} %"), share, 2.0);
    row(
        "its private memory, MiB more than without one",
        &format!("{:.1} MiB", mib(with.1)),
        "",
        mib(with.1) - mib(without.1),
        1.0,
    );
}

/// A node with the log files of its pods.
fn node() -> Sim {
    let sim = Sim::start(Node::new().now(kubegc::daemon::now())).unwrap();
    for pod in 0..PODS {
        let app = app(&sim, pod);
        fs::create_dir_all(&app).unwrap();
        for file in 1..FILES {
            fs::write(app.join(format!("0.log.20261121-{file:06}")), "2026-11-21T10:00:00Z stdout F line\n").unwrap();
        }
        fs::write(app.join("0.log"), "2026-11-21T10:00:00Z stdout F line\n").unwrap();
    }
    sim
}

fn app(sim: &Sim, pod: usize) -> PathBuf {
    sim.log_roots().pods.join(format!("default_web-{pod}_uid-{pod}/app"))
}

/// A kubegc that makes a pass over containers at its start only.
fn kubegc(sim: &Sim, verb: &str, settings: &[&str]) -> Command {
    let words = on_sim::kubegc(sim, &sim.dir().join("state/kubegc.db"), &[verb]);
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).env_clear().arg("--set=containers.interval=1h");
    command.args(settings.iter().map(|setting| format!("--set={setting}")));
    command
}

/// Rotates the logs of all pods beside the service, one after the other. Returns the processor time in seconds, and the private memory.
fn service(settings: &[&str]) -> (f64, u64) {
    let sim = node();
    let mut service = kubegc(&sim, "run", settings).stderr(Stdio::piped()).spawn().unwrap();
    let log = BufReader::new(service.stderr.take().unwrap());
    let mut lines = log.lines().map_while(Result::ok);
    assert_eq!(lines.by_ref().filter(|line| line.contains("pass done")).take(2).count(), 2, "the service ended");
    let before = after_the_start(service.id());
    let step = ROTATION / u32::try_from(PODS).unwrap();
    for rotation in 0..ROTATIONS {
        for pod in 0..PODS {
            let app = app(&sim, pod);
            fs::rename(app.join("0.log"), app.join(format!("0.log.20261122-{rotation:06}"))).unwrap();
            fs::write(app.join("0.log"), "").unwrap();
            std::thread::sleep(step);
            fs::write(app.join("0.log"), "2026-11-22T10:00:00Z stdout F line\n").unwrap();
        }
    }
    let seconds = processor_seconds(service.id()) - before;
    let (_, private) = memory(service.id());
    let linked = (0..PODS).filter(|pod| is_linked(&app(&sim, *pod).join("0.log"))).count();
    assert!(settings.is_empty() || linked > PODS * 9 / 10, "only {linked} current files are in the archive");
    service.kill().unwrap();
    service.wait().unwrap();
    (seconds, private)
}

/// Waits until the service has accounted for the disks and is idle. Returns its processor time then.
fn after_the_start(id: u32) -> f64 {
    let mut before = processor_seconds(id);
    loop {
        std::thread::sleep(Duration::from_secs(2));
        let now = processor_seconds(id);
        if now - before < 0.02 {
            return now;
        }
        before = now;
    }
}

fn is_linked(file: &Path) -> bool {
    std::os::unix::fs::MetadataExt::nlink(&fs::metadata(file).unwrap()) == 2
}

/// Returns the processor time of a process so far, in the kernel and outside. The kernel counts in hundredths of a second.
fn processor_seconds(id: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
    let fields: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    [11, 12].iter().map(|at| fields[*at].parse::<f64>().unwrap()).sum::<f64>() / 100.0
}
