//! A large mess and all that a node can do at once: the command begins to remove soon, and ends.

use std::fs;
use std::io::{BufRead, BufReader};
use std::time::Instant;

use kubegc::sim::{GIB, MIB, Node};

use super::Host;

/// Pods, each with two dead containers and a rotated log file, and as many unused images.
const MANY: usize = 10_000;
/// Where the pods are.
const NAMESPACES: usize = 50;
const ON: [&str; 6] = [
    "--set=logs.archive=keep 24h,pod 1MiB,node 1GiB",
    "--set=logs.limits=pod 4KiB,namespace 1MiB,node 10MiB",
    "--set=images.undo=1h",
    "--set=images.targets=total 1GiB..512MiB",
    "--set=leftovers.remove=termination_log,pod_directory,unreferenced",
    r#"--set=rule=[{name = "unused", for = "image", when = "image.repository.contains(\"/unused\")", then = "remove", total = "1GiB"}]"#,
];

#[test]
#[ignore = "it takes minutes: make test-churn"]
fn ten_thousand_of_each_are_collected_with_everything_on() {
    let host = Host::with(node());
    for number in 0..MANY {
        let logs = host.sim.log_roots().pods.join(directory(number)).join("app");
        fs::create_dir_all(&logs).unwrap();
        fs::write(logs.join("0.log.20261121-090000.gz"), [7; 8192]).unwrap();
    }
    let begun = Instant::now();
    let mut collect = host.spawn(&[&["collect"], &ON[..]].concat());
    let mut first = None;
    let mut removed = 0;
    for line in BufReader::new(collect.stdout.take().unwrap()).lines().map_while(Result::ok) {
        if line.contains("  removed  ") {
            first.get_or_insert_with(|| begun.elapsed());
            removed += 1;
        }
    }
    let (first, all) = (first.unwrap(), begun.elapsed());
    println!("first removal after {first:.1?}, {removed} after {all:.1?}");
    assert!(collect.wait().unwrap().success());
    assert!(first * 5 < all, "the first removal after {first:.1?} of {all:.1?}");
    let [containers, _, images] = host.rest();
    assert_eq!((containers.len(), images.len()), (MANY, 1), "one container of each pod is left, and the image of all");
}

fn directory(number: usize) -> String {
    format!("ns-{}_pod-{number}_{}", number % NAMESPACES, uid(number))
}

fn uid(number: usize) -> String {
    format!("00000000-0000-4000-8000-{number:012}")
}

fn node() -> Node {
    let day = std::time::Duration::from_hours(24);
    let mut node = Node::new().now(jiff::Timestamp::now()).disk(100 * GIB, 90 * GIB).ago(2 * day);
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
