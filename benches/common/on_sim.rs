//! A kubegc on a simulated node.

use std::path::Path;

use kubegc::sim::Sim;

#[path = "program.rs"]
mod program;

/// The command line of a kubegc that knows nothing of this machine.
pub fn kubegc(sim: &Sim, state: &Path, verb: &[&str]) -> Vec<String> {
    let roots = sim.log_roots();
    let mut words = vec![program::kubegc()];
    words.extend(verb.iter().map(|word| (*word).to_owned()));
    for set in [
        format!("runtime.endpoint={}", sim.socket().display()),
        format!("state.path={}", state.display()),
        format!("state.lock={}", state.with_extension("lock").display()),
        format!("logs.pods_root={}", roots.pods.display()),
        format!("logs.containers_root={}", roots.containers.display()),
        format!("kubelet_root={}", sim.dir().join("kubelet").display()),
        "pods.source=none".to_owned(),
        "images.high_threshold_percent=100".to_owned(),
    ] {
        words.extend(["--set".to_owned(), set]);
    }
    words
}
