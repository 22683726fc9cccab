//! The busy node: running, crash-looping, terminated and deleted pods, logs without a pod, 40 images that share layers,
//! and a full disk.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::model::{Absence, ImageMemory, Memory, Phase, Pod, PodList};
use crate::sim::{GIB, MIB, Node};

/// The disk usage in percent.
const USED_PERCENT: u64 = 91;
const CAPACITY: u64 = 64 * GIB;

/// The services, each on one of the base layers.
const SERVICES: [(&str, &str); 10] = [
    ("api", "jdk"),
    ("billing", "jdk"),
    ("cart", "jdk"),
    ("checkout", "node"),
    ("frontend", "node"),
    ("mailer", "python"),
    ("metrics", "debian"),
    ("reports", "python"),
    ("search", "jdk"),
    ("thumbnails", "debian"),
];
/// The number of releases of each service; the last release runs.
const RELEASES: u64 = 4;
/// Every third service is in a crash loop.
const CRASHES: usize = 3;

/// A node with its pods and its memory.
pub(super) struct Busy {
    pub node: Node,
    pub pods: PodList,
    pub memory: Memory,
}

/// Returns the node as it is at `now`.
pub(super) fn busy(now: Timestamp) -> Busy {
    let mut node = Node::new().now(now).runtime("simulated", "1").disk(CAPACITY, 0);
    node = images(node);
    let mut pods = Vec::new();
    node = live(node, &mut pods);
    node = finished_jobs(node, &mut pods);
    node = deleted(node);
    node = leftovers(node);
    fill(&mut node);
    let pods = PodList { source: "demo".to_owned(), complete: true, pods, ..PodList::default() };
    let memory = memory(&node, now);
    Busy { node, pods, memory }
}

fn tag(service: &str, release: u64) -> String {
    format!("registry.example/shop/{service}:v{release}")
}

fn images(mut node: Node) -> Node {
    for ((service, base), size) in SERVICES.iter().zip(2_u64..) {
        for release in 1..=RELEASES {
            let own = format!("{service}-v{release}");
            let layers = [("debian", 75 * MIB), (base, 180 * MIB), (&own, (size * 70 + release * 20) * MIB)];
            node = node.image(&tag(service, release), &layers);
        }
    }
    node
}

fn hours(hours: u64) -> Duration {
    Duration::from_hours(hours)
}

/// Adds one pod for each service. Some are in a crash loop and have dead containers from earlier restarts.
fn live(mut node: Node, pods: &mut Vec<Pod>) -> Node {
    for (number, (service, _)) in SERVICES.iter().enumerate() {
        let (name, uid, image) = (format!("{service}-0"), format!("live-{number}"), tag(service, RELEASES));
        node = node.ago(hours(72)).pod("shop", &name, &uid);
        if number % CRASHES == 0 {
            for minutes in [50, 40, 30, 20] {
                node = node.ago(Duration::from_mins(minutes)).exited("app", &image).logging(20_000).rotated();
            }
        }
        node = node.ago(Duration::from_mins(5)).running("app", &image).logging(50_000);
        pods.push(pod(&name, &uid, Phase::Running));
    }
    node
}

/// Adds jobs that terminated and still exist. `kubectl logs` reads their last container.
fn finished_jobs(mut node: Node, pods: &mut Vec<Pod>) -> Node {
    for number in 0..4 {
        let (name, uid) = (format!("nightly-{number}"), format!("job-{number}"));
        node = node.ago(hours(24)).pod("shop", &name, &uid).exited("job", &tag("reports", RELEASES)).logging(9_000);
        node = node.stopped();
        pods.push(pod(&name, &uid, Phase::Succeeded));
    }
    node
}

/// Adds deleted pods, one of which still runs.
fn deleted(mut node: Node) -> Node {
    for number in 0..3 {
        let (name, uid) = (format!("old-{number}"), format!("deleted-{number}"));
        node = node.ago(hours(48)).pod("shop", &name, &uid).exited("init", &tag("mailer", 3));
        node = node.exited("app", &tag("mailer", 3)).logging(70_000).stopped();
    }
    node.ago(hours(48)).pod("shop", "ending-0", "deleted-ending").running("app", &tag("search", 3))
}

/// Adds logs without a pod, a container of another tool, and a container that is about to start.
fn leftovers(mut node: Node) -> Node {
    for number in 0..5 {
        node = node.orphan_logs("shop", &format!("forgotten-{number}"), &format!("orphan-{number}"));
    }
    node = node.dangling_link("shop", "forgotten-0", "app", &"d".repeat(64));
    node = node.ago(hours(5)).foreign("debugging").exited("shell", &tag("api", 3));
    node.ago(Duration::from_secs(2)).pod("shop", "next-0", "live-0").created("app", &tag("api", RELEASES))
}

/// Fills the disk with other data, as volumes, up to [`USED_PERCENT`].
fn fill(node: &mut Node) {
    let images = CAPACITY - node.file_system().available_bytes;
    node.set_other_bytes(CAPACITY / 100 * USED_PERCENT - images);
}

fn pod(name: &str, uid: &str, phase: Phase) -> Pod {
    Pod { uid: uid.into(), namespace: "shop".to_owned(), name: name.to_owned(), phase, ..Pod::default() }
}

/// Returns the memory of the node: older releases were last used longer ago, and deleted pods are missing for an hour.
fn memory(node: &Node, now: Timestamp) -> Memory {
    let ago = |hours: u64| now - SignedDuration::from_hours(i64::try_from(hours).unwrap_or(i64::MAX));
    let image = |(service, release): (u64, u64)| {
        let name = SERVICES.get(usize::try_from(service).unwrap_or(0)).map_or("", |(name, _)| name);
        let id = node.image_id(&tag(name, release))?;
        let unused_hours = (RELEASES - release) * 24 * 14 + service * 7;
        Some(ImageMemory {
            id: id.into(),
            first_seen: Some(ago(2000)),
            last_used: Some(ago(unused_hours)),
            last_used_by: None,
        })
    };
    let all = (0..SERVICES.len() as u64).flat_map(|service| (1..=RELEASES).map(move |release| (service, release)));
    let deleted =
        (0..3).map(|number| format!("deleted-{number}")).chain((0..5).map(|number| format!("orphan-{number}")));
    Memory {
        images: all.filter_map(image).collect(),
        absent_since: deleted.map(|uid| Absence { uid: uid.into(), since: ago(1) }).collect(),
        ..Memory::default()
    }
}
