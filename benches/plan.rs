//! Planning alone, for 1,000, 10,000 and 100,000 containers, and how it grows.
//!
//! `cargo bench --bench plan`. Each size is planned once in a process of its own, as the program does it, round after
//! round, so that a machine whose speed drifts slows all sizes alike and no plan pays for the memory that another gave
//! back; the growth is the median of the ratios within a round.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    reason = "a benchmark may fail loudly and asks the clock"
)]

#[path = "common/figures.rs"]
mod figures;

use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use figures::{is_chosen, median, row};
use jiff::{SignedDuration, Timestamp};
use kubegc::model::{Seen, Snapshot};
use kubegc::plan::{Policy, Scope, decide};
use kubegc::rules::{Rule, RuleSubject, RuleText, Then};
use serde_json::{Value, json};

const SIZES: [usize; 3] = [1_000, 10_000, 100_000];
const ROUNDS: usize = 9;

fn main() {
    if let Some(file) = std::env::args().nth(1).filter(|argument| Path::new(argument).is_file()) {
        return println!("{}", once(Path::new(&file), &Policy::default()));
    }
    if is_chosen("growth") {
        compare();
    }
    if is_chosen("rules") {
        compare_rules();
    }
}

/// Plans once; seconds. The snapshot comes from a file, so that making it leaves no litter in this process's memory.
fn once(file: &Path, policy: &Policy) -> f64 {
    let node: Snapshot = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let start = Instant::now();
    let plan = black_box(decide(black_box(&node), policy, Scope::All));
    let seconds = start.elapsed().as_secs_f64();
    assert!(!plan.actions.is_empty());
    seconds
}

/// Plans all sizes, round after round, and prints how the time grows.
fn compare() {
    let itself = std::env::current_exe().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let files = SIZES.map(|size| dir.path().join(format!("{size}.json")));
    for (file, size) in files.iter().zip(SIZES) {
        std::fs::write(file, serde_json::to_vec(&node(size)).unwrap()).unwrap();
    }
    let mut seconds: Vec<Vec<f64>> = vec![Vec::new(); SIZES.len()];
    for _ in 0..ROUNDS {
        for (times, file) in seconds.iter_mut().zip(&files) {
            let output = Command::new(&itself).arg(file).output().unwrap();
            times.push(String::from_utf8(output.stdout).unwrap().trim().parse().unwrap());
        }
    }
    for ((pair, sizes), aim) in seconds.windows(2).zip(SIZES.windows(2)).zip([11.0, 12.0]) {
        let growth = median(pair[1].iter().zip(&pair[0]).map(|(large, small)| large / small));
        let [small, large] = [0, 1].map(|of| format!("{:.1} ms", 1e3 * median(pair[of].iter().copied())));
        row(&format!("planning alone, {} containers beside {}", sizes[1], sizes[0]), &large, &small, growth, aim);
    }
}

/// Plans 10,000 containers and 1,000 images without rules and with twenty that hold for nothing, so that all are evaluated.
fn compare_rules() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("node.json");
    std::fs::write(&file, serde_json::to_vec(&node(10_000)).unwrap()).unwrap();
    let policy = Policy { rules: (0..20).map(rule).collect(), ..Policy::default() };
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        without.push(once(&file, &Policy::default()));
        with.push(once(&file, &policy));
    }
    let ratios = with.iter().zip(&without).map(|(with, without)| with / without);
    let ratio = median(ratios);
    let [without, with] = [without, with].map(|seconds| format!("{:.1} ms", 1e3 * median(seconds)));
    row("planning with 20 rules, 10,000 containers, beside none", &with, &without, ratio, 1.5);
    let most = Policy { rules: (0..64).map(rule).collect(), ..Policy::default() };
    let plan = decide(&node(10_000), &most, Scope::All);
    let left = plan.rules.iter().map(|note| note.errors).sum::<u64>();
    println!("64 rules: {:.2} s, {left} objects not evaluated (aim: 0)", once(&file, &most));
}

fn rule(number: usize) -> Rule {
    let (of, when) = if number.is_multiple_of(2) {
        (RuleSubject::Image, format!("image.repository.startsWith('registry.example/none-{number}/')"))
    } else {
        (RuleSubject::Container, format!("pod.namespace == 'none-{number}' && container.age > duration('1h')"))
    };
    let (name, note) = (format!("rule {number}"), String::new());
    Rule::compile(RuleText { name, subject: of, when, then: Then::Keep, until: None, resource: String::new(), note })
        .unwrap()
}

/// A node with so many containers: pods of five, each with a dead instance or two, half of the pods gone; an image for
/// every ten containers, half of them unused; log directories and links; a disk that is too full.
fn node(containers: usize) -> Snapshot {
    let now: Timestamp = "2026-11-21T12:00:00Z".parse().unwrap();
    let ago = |seconds: usize| now - SignedDuration::from_secs(i64::try_from(seconds).unwrap());
    let pods = containers / 5;
    let pod = |n: usize| json!({ "uid": uid(n), "namespace": "default", "name": format!("pod-{n}") });
    let state = |n: usize| if n.is_multiple_of(5) { "running" } else { "exited" };
    let container = |n: usize| {
        json!({
            "id": format!("{n:064x}"), "sandbox_id": format!("{:064x}", n / 5), "pod": pod(n / 5), "name": format!("c{}", n % 5 / 2),
            "attempt": n % 5, "state": if (n / 5).is_multiple_of(2) { state(n) } else { "exited" },
            "created_at": ago(1000 + n * 7919 % 1_000_000), "image_id": image(n / 20), "image": tag(n / 20),
        })
    };
    let sandbox = |n: usize| {
        let state = if n.is_multiple_of(2) { "ready" } else { "not_ready" };
        json!({ "id": format!("{n:064x}"), "pod": pod(n), "state": state, "created_at": ago(1000 + n) })
    };
    let images = containers / 10;
    let past =
        |n: usize| json!({ "id": image(n), "first_seen": ago(1_000_000), "last_used": ago(n * 7919 % 1_000_000) });
    let listed = (0..pods).step_by(2).map(pod).collect::<Vec<_>>();
    let absent = (1..pods).step_by(2).map(|n| json!({ "uid": uid(n), "since": ago(3600) }));
    let mut snapshot: Snapshot = serde_json::from_value(json!({
        "taken_at": now,
        "containers": { "seen": (0..containers).map(container).collect::<Vec<_>>() },
        "sandboxes": { "seen": (0..pods).map(sandbox).collect::<Vec<_>>() },
        "images": { "seen": (0..images).map(|n| json!({ "id": image(n), "tags": [tag(n)], "size_bytes": 1_000_000 })).collect::<Vec<_>>() },
        "image_filesystem": { "seen": { "capacity_bytes": 4_000_000_u64 * images as u64, "available_bytes": 0 } },
        "log_links": { "seen": (0..containers).map(link).collect::<Vec<_>>() },
        "pods": { "seen": { "source": "bench", "complete": true, "pods": listed } },
        "memory": { "images": (0..images).map(past).collect::<Vec<_>>(), "absent_since": absent.collect::<Vec<_>>() },
    }))
    .unwrap();
    let dir = |n: usize| kubegc::model::LogDir { name: format!("default_pod-{n}_{}", uid(n)), ..Default::default() };
    snapshot.log_dirs = Seen::Seen((0..pods).map(dir).collect());
    snapshot
}

fn uid(n: usize) -> String {
    format!("{n:08x}-0000-4000-8000-000000000000")
}

fn image(n: usize) -> String {
    format!("sha256:{n:064x}")
}

fn tag(n: usize) -> String {
    format!("registry.example/team/service-{n}:v1")
}

fn link(n: usize) -> Value {
    let target = if n.is_multiple_of(3) { "missing" } else { "exists" };
    json!({ "name": format!("pod-{}_default_c{}-{n:064x}.log", n / 5, n % 5 / 2), "target": target })
}
