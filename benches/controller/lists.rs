//! What the start of `controller run` costs beside 100,000 objects on a real API server, and the memory of a plan of as many.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::aim::Aim;
use crate::contest::{Collector, start};
use crate::figures::{median, mib};
use crate::filled::filled;
use crate::process::{Usage, usage};
use crate::rig::{NodeRig, Program, binary, kubernetes_version};
use crate::simulated::Server;

const OBJECTS: usize = 100_000;
const ROUNDS: usize = 3;

/// One start of a collector until its first deletion.
struct Start {
    seconds: f64,
    usage: Usage,
}

/// The start until the first deletion, in turn with kube-controller-manager.
pub async fn measure() {
    let node = filled(OBJECTS).await;
    let (mut ours, mut upstream) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        ours.push(started(&node, Collector::Ours).await);
        upstream.push(started(&node, Collector::Upstream).await);
        node.end(Program::ControllerManager);
    }
    println!("start beside {OBJECTS} objects, real API server {}; medians of {ROUNDS}", kubernetes_version());
    row("first deletion, s", (&ours, &upstream), |it| it.seconds, Aim::AtMost(1.0));
    row("peak memory, MiB", (&ours, &upstream), |it| mib(it.usage.peak), Aim::AtMost(0.2));
    row("memory now, MiB", (&ours, &upstream), |it| mib(it.usage.now), Aim::AtMost(0.2));
}

fn row(what: &str, (ours, upstream): (&[Start], &[Start]), of: fn(&Start) -> f64, aim: Aim) {
    let (ours, upstream) = (median(ours.iter().map(of)), median(upstream.iter().map(of)));
    println!("{what:<18} kubegc {ours:.1}, kube-controller-manager {upstream:.1}: {}", aim.text(ours / upstream));
}

/// The peak memory of a plan. Three of four objects have an owner, and all have labels and managed fields.
pub fn measure_plan() {
    let (server, kubeconfig) = (Server::start(OBJECTS), tempfile::NamedTempFile::new().unwrap());
    std::fs::write(&kubeconfig, server.kubeconfig()).unwrap();
    println!("peak memory of a plan beside {OBJECTS} objects, simulated API server");
    for (aim, arguments) in [(100.0, &[][..]), (120.0, &["-L", "app"])] {
        let peak = plan(kubeconfig.path(), arguments);
        println!("plan {}: {} MiB", arguments.join(" "), Aim::AtMost(aim).text(peak));
    }
}

async fn started(node: &NodeRig, collector: Collector) -> Start {
    let begun = Instant::now();
    let running = start(node, collector).await;
    Start { seconds: begun.elapsed().as_secs_f64(), usage: usage(running.pid) }
}

/// Returns the peak memory of a plan in MiB, as it was last seen before its end.
fn plan(kubeconfig: &Path, arguments: &[&str]) -> f64 {
    let mut command = Command::new(binary());
    command.args(["controller", "plan", "--owners-only", "--kubeconfig"]).arg(kubeconfig).args(arguments);
    let mut plan = command.env_clear().stdout(Stdio::null()).spawn().unwrap();
    let mut peak = 0;
    while plan.try_wait().unwrap().is_none() {
        peak = peak.max(usage(plan.id()).peak);
        std::thread::sleep(Duration::from_millis(1));
    }
    mib(peak)
}
