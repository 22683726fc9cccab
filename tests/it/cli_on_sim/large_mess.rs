//! A large mess and all that a node can do at once: the command begins to remove soon, and ends.

use std::fs;
use std::sync::mpsc::channel;
use std::time::Instant;

use kubegc::sim::{GIB, MIB, Node, Rpc};

use super::Host;

/// Pods, each with two dead containers and a rotated log file, and as many unused images.
const MANY: usize = 10_000;
/// Where the pods are.
const NAMESPACES: usize = 50;
/// A file of the newest instance.
const ROTATED: &str = "1.log.20261121-090000.gz";
const ON: [&str; 7] = [
    "--set=logs.archive=keep 24h,pod 1MiB,node 1GiB",
    "--set=logs.limits=pod 4KiB,namespace 1MiB,node 10MiB",
    "--set=images.undo=1h",
    "--set=images.min_age=0s",
    "--set=images.targets=total 399GiB..398GiB",
    "--set=leftovers.remove=termination_log,pod_directory,unreferenced",
    r#"--set=rule=[{name = "unused", for = "image", when = "image.repository.contains(\"/unused\")", then = { total = "399GiB..398GiB" }}]"#,
];

#[test]
#[ignore = "it takes minutes: make test-churn"]
fn ten_thousand_of_each_are_collected_with_everything_on() {
    let host = Host::with(node());
    for number in 0..MANY {
        let logs = host.sim.log_roots().pods.join(directory(number)).join("app");
        fs::create_dir_all(&logs).unwrap();
        fs::write(logs.join(ROTATED), [7; 8192]).unwrap();
    }
    let (begun, (send, first)) = (Instant::now(), channel());
    let note = move |_: &mut Node| send.send(begun.elapsed()).unwrap();
    host.sim.on_call(Rpc::RemoveContainer, 1, note);
    let ran = host.spawn(&[&["collect"], &ON[..]].concat()).wait_with_output().unwrap();
    let (first, all) = (first.try_recv(), begun.elapsed());
    println!("{}", String::from_utf8_lossy(&ran.stdout).lines().rev().take(12).collect::<Vec<_>>().join("\n"));
    let first = first.unwrap();
    println!("first removal after {first:.1?}, all after {all:.1?}");
    assert!(
        ran.status.success(),
        "{}",
        String::from_utf8_lossy(&ran.stderr).lines().take(20).collect::<Vec<_>>().join("\n")
    );
    assert!(first * 2 < all, "the first removal after {first:.1?} of {all:.1?}");
    let [containers, _, images] = host.rest();
    assert_eq!(containers.len(), MANY, "one container of each pod is left");
    // Each has 41 MiB.
    assert!((9_900..9_980).contains(&images.len()), "{}", images.len());
    let logs = |number: &usize| host.sim.log_roots().pods.join(directory(*number)).join("app").join(ROTATED).exists();
    let left = (0..MANY).filter(logs).count();
    assert!(left < MANY / 100, "{left}: each is over the limit of its pod; what could not be read in time goes later");
}

fn directory(number: usize) -> String {
    format!("ns-{}_pod-{number}_{}", number % NAMESPACES, uid(number))
}

fn uid(number: usize) -> String {
    format!("00000000-0000-4000-8000-{number:012}")
}

fn node() -> Node {
    let day = std::time::Duration::from_hours(24);
    let mut node = Node::new().now(jiff::Timestamp::now()).disk(1000 * GIB, 500 * GIB).ago(2 * day);
    node = node.image("r.example/used:1", &[("base", 40 * MIB)]);
    for number in 0..MANY {
        node = node.image(&format!("r.example/unused-{number}:1"), &[("base", 40 * MIB), (&uid(number), MIB)]);
    }
    for number in 0..MANY {
        node = node.pod(&format!("ns-{}", number % NAMESPACES), &format!("pod-{number}"), &uid(number));
        node = node.exited("app", "r.example/used:1").exited("app", "r.example/used:1").stopped();
    }
    node
}
