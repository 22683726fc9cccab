//! How long a scrape of `/metrics` takes while a pass waits for a runtime that hangs. Aim: less than 50 ms.
//!
//! `cargo bench --bench scrape`. The node is simulated in this process; the service is a process of its own. A scrape is a
//! connection, a request and the whole answer.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    reason = "a benchmark may fail loudly, starts programs and measures time"
)]

#[path = "common/figures.rs"]
mod figures;
#[path = "common/program.rs"]
mod program;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use figures::row;
use kubegc::sim::{Fault, MIB, Node, Rpc, Sim, Times};

const SCRAPES: usize = 1000;
const IMAGE: &str = "docker.io/library/web:1";

#[tokio::main]
async fn main() {
    let sim = Sim::start(node()).unwrap();
    // The first passes fill the metrics; then a pass over containers hangs in its list.
    let home = tempfile::tempdir().unwrap();
    let (mut service, mut lines) = start(&sim, home.path());
    let line = until(&mut lines, "serving metrics and health");
    let address = line.split("address=").nth(1).unwrap().trim().to_owned();
    for _ in 0..2 {
        until(&mut lines, "pass done");
    }
    sim.fault(Rpc::StreamContainers, Fault::Hang, Times::Forever);
    while !scrape(&address).1.contains("kubegc_passes_running{scope=\"containers\"} 1") {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let mut times: Vec<_> = (0..SCRAPES).map(|_| scrape(&address)).collect();
    let bytes = times[0].1.len();
    times.sort_by_key(|(time, _)| *time);
    let at = |percent: usize| times[(SCRAPES - 1) * percent / 100].0;
    let [half, most] = [50, 99].map(|percent| 1e3 * at(percent).as_secs_f64());
    let what = "scrape of `/metrics` while a pass hangs, 99 of 100, ms";
    row(what, &format!("{most:.1} ms, half {half:.1} ms, {bytes} bytes"), "", most, 50.0);
    service.kill().unwrap();
    service.wait().unwrap();
}

/// A node with 1,000 dead containers.
fn node() -> Node {
    let node = Node::new().now(kubegc::daemon::now()).ago(Duration::from_hours(5)).image(IMAGE, &[("web", MIB)]);
    (0..1000).fold(node, |node, n| {
        let name = format!("pod-{n}");
        node.pod("default", &name, &name).exited("app", IMAGE).stopped()
    })
}

fn start(sim: &Sim, home: &std::path::Path) -> (Child, impl Iterator<Item = String>) {
    let mut command = Command::new(program::kubegc());
    command.args(["run", "--dry-run", "-r", &sim.endpoint()]).current_dir(home).env_clear();
    for setting in [
        "state.path=kubegc.db",
        "state.lock=run/kubegc.lock",
        "pods.source=runtime",
        "containers.interval=1s",
        "metrics.address=127.0.0.1:0",
    ] {
        command.args(["--set", setting]);
    }
    let mut service = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(service.stderr.take().unwrap()).lines().map_while(Result::ok);
    (service, lines)
}

fn until(lines: &mut impl Iterator<Item = String>, text: &str) -> String {
    lines.find(|line| line.contains(text)).unwrap()
}

fn scrape(address: &str) -> (Duration, String) {
    let (begun, mut text) = (Instant::now(), String::new());
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: kubegc\r\n\r\n").unwrap();
    stream.read_to_string(&mut text).unwrap();
    (begun.elapsed(), text)
}
