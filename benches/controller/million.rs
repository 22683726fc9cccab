//! The memory of `controller run` for a million objects.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::figures::mib;
use crate::process::{Usage, usage};
use crate::simulated::Server;

const OBJECTS: usize = 1_000_000;
/// The objects of the largest page that kubegc requests.
const PAGE: usize = 2000;
/// Without calls for this time, nothing is left to do.
const QUIET: Duration = Duration::from_secs(2);

/// A start of the service until it has nothing to do.
struct Start {
    /// Until its last call.
    last_call: Duration,
    /// When nothing is left to do.
    usage: Usage,
    reads: usize,
}

pub fn measure() {
    let (empty, full) = (start(0), start(OBJECTS));
    let bytes = (full.usage.now - empty.usage.now) as f64 / OBJECTS as f64;
    println!("{OBJECTS} objects, four resources, 750,000 owner references, simulated API server");
    println!("bytes per object:  {bytes:>8.1} (aim: at most 200)");
    println!("peak memory:       {:>8.1} MiB (aim: at most 238.4, 0.25 GB)", mib(full.usage.peak));
    println!("memory afterward:  {:>8.1} MiB, without objects {:.1} MiB", mib(full.usage.now), mib(empty.usage.now));
    println!("last call:         {:>8.1} s after the start", full.last_call.as_secs_f64());
    println!("live reads:        {:>8} (the graph is complete, so none is needed)", full.reads);
    println!("CPU time:          {:>8.1} s", full.usage.cpu.as_secs_f64());
}

fn start(objects: usize) -> Start {
    let server = Server::start(objects);
    let kubeconfig = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&kubeconfig, server.kubeconfig()).unwrap();
    let begun = Instant::now();
    let mut command = Command::new(crate::rig::binary());
    command.args(["controller", "run", "--owners-only", "--kube-api-qps", "5000", "--kubeconfig"]);
    let mut service = command.arg(kubeconfig.path()).env_clear().stderr(Stdio::piped()).spawn().unwrap();
    let mut log = BufReader::new(service.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(log.any(|line| line.contains("collecting")), "the service ended");
    thread::spawn(move || log.for_each(drop));
    // On a slow machine the service begins to collect before the lists are complete.
    let last_call = until_quiet(&server, objects / PAGE, begun);
    let reads = server.reads();
    let usage = usage(service.id());
    service.kill().unwrap();
    service.wait().unwrap();
    Start { last_call, usage, reads }
}

/// Waits until there were more than `least` calls and no other follows. Returns the time from `begun` to the last one.
fn until_quiet(server: &Server, least: usize, begun: Instant) -> Duration {
    let (mut known, mut last) = (0, Instant::now());
    while known <= least || known != server.calls() || last.elapsed() < QUIET {
        if known != server.calls() {
            (known, last) = (server.calls(), Instant::now());
        }
        thread::sleep(Duration::from_millis(50));
    }
    last - begun
}
