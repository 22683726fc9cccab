//! SIGKILL of the service while pods write, rotate and lose log files: no line is lost of a file that had a name in the archive.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use kubegc::sim::{Node, Sim};
use nix::sys::signal::Signal;

use super::{Dice, kills};
use crate::agent::Home;

/// The pods that exist at the same time.
const PODS: usize = 6;
/// The time between two actions of the kubelet.
const ACTION: Duration = Duration::from_millis(2);
/// The shortest time between two rotations. The time in the name of a file has no fraction of a second.
const ROTATION: Duration = Duration::from_millis(1_100);
/// The longest time that the service runs, in milliseconds.
const RUNS: u64 = 500;

/// The kubelet: it has some pods, each with a container that writes numbered lines.
struct Kubelet {
    root: PathBuf,
    dice: Dice,
    /// The lines of each pod, and when its log was rotated, by its number.
    pods: BTreeMap<u64, (u64, Instant)>,
    created: u64,
    /// The lines of deleted pods that had a name in the archive.
    archived: BTreeMap<u64, BTreeSet<u64>>,
    /// How many pods `archived` has.
    pods_archived: Arc<AtomicUsize>,
}

/// A kubelet that runs.
struct RunningKubelet {
    thread: thread::JoinHandle<Kubelet>,
    pods_archived: Arc<AtomicUsize>,
}

// === impl Kubelet ===

impl Kubelet {
    fn new(root: PathBuf, seed: u64) -> Self {
        let (pods, archived, pods_archived) = Default::default();
        Self { root, dice: Dice(seed), pods, created: 0, archived, pods_archived }
    }

    fn dir(&self, pod: u64) -> PathBuf {
        self.root.join(format!("default_writer-{pod}_uid-{pod}"))
    }

    /// Does something, at random.
    fn act(&mut self) {
        let of = usize::try_from(self.dice.below(PODS as u64)).unwrap();
        let Some(pod) = self.pods.keys().nth(of).copied() else { return self.create() };
        match self.dice.below(400) {
            0 => self.delete(pod),
            1..20 => self.rotate(pod),
            20 => self.remove_oldest(pod),
            _ => self.write(pod),
        }
    }

    fn create(&mut self) {
        let pod = self.created;
        self.created += 1;
        fs::create_dir_all(self.dir(pod).join("app")).unwrap();
        fs::write(self.dir(pod).join("app/0.log"), "").unwrap();
        self.pods.insert(pod, (0, Instant::now()));
    }

    fn write(&mut self, pod: u64) {
        let mut log = fs::File::options().append(true).open(self.dir(pod).join("app/0.log")).unwrap();
        let (lines, _) = self.pods.get_mut(&pod).unwrap();
        writeln!(log, "2026-11-21T10:00:00.{lines:09}Z stdout F {lines}").unwrap();
        *lines += 1;
    }

    fn rotate(&mut self, pod: u64) {
        let app = self.dir(pod).join("app");
        let (_, rotated) = self.pods.get_mut(&pod).unwrap();
        if rotated.elapsed() < ROTATION {
            return;
        }
        *rotated = Instant::now();
        let at = kubegc::daemon::now().strftime("%Y%m%d-%H%M%S");
        fs::rename(app.join("0.log"), app.join(format!("0.log.{at}"))).unwrap();
        fs::write(app.join("0.log"), "").unwrap();
    }

    /// Removes the oldest rotated file, as the kubelet does with more than five.
    fn remove_oldest(&mut self, pod: u64) {
        let mut names: Vec<_> = files(&self.dir(pod)).filter(|path| !path.ends_with("0.log")).collect();
        names.sort();
        let Some(oldest) = names.first() else { return };
        self.note(pod, oldest);
        fs::remove_file(oldest).unwrap();
    }

    fn delete(&mut self, pod: u64) {
        for path in files(&self.dir(pod)).collect::<Vec<_>>() {
            self.note(pod, &path);
        }
        fs::remove_dir_all(self.dir(pod)).unwrap();
        self.pods.remove(&pod);
    }

    /// Notes the lines of a file that has a name in the archive.
    fn note(&mut self, pod: u64, path: &Path) {
        if fs::metadata(path).unwrap().nlink() == 2 {
            self.archived.entry(pod).or_default().extend(numbers(&fs::read_to_string(path).unwrap()));
            self.pods_archived.store(self.archived.len(), Ordering::Relaxed);
        }
    }
}

fn files(pod: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(pod.join("app")).unwrap().map(|entry| entry.unwrap().path())
}

/// Returns the numbers at the ends of lines.
fn numbers(text: &str) -> Vec<u64> {
    text.lines().map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect()
}

/// Starts a kubelet. It ends when the flag is set, and deletes its pods.
fn start(root: PathBuf, seed: u64, stop: &Arc<AtomicBool>) -> RunningKubelet {
    let (mut kubelet, stop) = (Kubelet::new(root, seed), Arc::clone(stop));
    let pods_archived = Arc::clone(&kubelet.pods_archived);
    let thread = thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            kubelet.act();
            thread::sleep(ACTION);
        }
        for pod in kubelet.pods.keys().copied().collect::<Vec<_>>() {
            kubelet.delete(pod);
        }
        kubelet
    });
    RunningKubelet { thread, pods_archived }
}

#[tokio::test]
async fn no_line_of_an_archived_file_is_lost_by_a_kill() {
    let set = std::env::var("KUBEGC_KILL_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = set.unwrap_or_else(|| RandomState::new().hash_one("seed"));
    let sim = Sim::start(Node::new().now(kubegc::daemon::now())).unwrap();
    let home = Home::new(&sim, "containers.interval = \"1s\"\nlogs.archive = [\"keep 1h\"]");
    home.replace("pods.source = \"runtime\"", "pods.source = \"none\"");
    let (mut dice, stop) = (Dice(seed), Arc::default());
    let kubelet = start(sim.log_roots().pods, seed, &stop);
    // On a busy machine a service may be killed before it has archived anything.
    let most = usize::try_from(kills()).unwrap();
    for kills in 0.. {
        let archived = kubelet.pods_archived.load(Ordering::Relaxed);
        if kills >= most && archived > most / 4 {
            break;
        }
        assert!(kills < 20 * most, "seed {seed}: the logs of {archived} pods were archived");
        let mut service = home.start(&["run"]);
        // The time is random, so there is no event to wait for.
        tokio::time::sleep(Duration::from_millis(dice.below(RUNS))).await;
        service.signal(Signal::SIGKILL);
        service.ended().await;
    }
    stop.store(true, Ordering::Relaxed);
    let kubelet = kubelet.thread.join().unwrap();
    for (pod, lines) in &kubelet.archived {
        let printed = home.run(&["logs", &format!("default/writer-{pod}")]);
        let printed = numbers(&String::from_utf8(printed.stdout).unwrap());
        assert!(printed.is_sorted_by(|a, b| a < b), "KUBEGC_KILL_SEED={seed}, pod {pod}: {printed:?}");
        let lost: Vec<_> = lines.iter().filter(|line| !printed.contains(line)).collect();
        assert!(lost.is_empty(), "KUBEGC_KILL_SEED={seed}, pod {pod}: {lost:?} of {lines:?}");
    }
    home.replace("keep 1h", "node 1B");
    let removed = home.run(&["collect"]);
    assert!(removed.status.success(), "{}", String::from_utf8_lossy(&removed.stderr));
    let archive = sim.log_roots().pods.parent().unwrap().join("kubegc/archive");
    let left: Vec<_> = fs::read_dir(archive).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(left.is_empty(), "KUBEGC_KILL_SEED={seed}: no list has {left:?}");
}
