//! The node of the matrix: something removable of each kind, and something that each invariant protects.

use std::time::Duration;

use jiff::Timestamp;
use kubegc::model::{Absence, ImageMemory, ListCounts, Memory, Phase, Pod, PodList};
use kubegc::sim::{MIB, Node, Sim, Streaming};

/// The number of removable objects of each kind.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Size {
    /// Few.
    Small,
    /// So many that the sum of their limits exceeds the limit of a pass.
    Wide,
}

pub const WEB: &str = "docker.io/library/web:2";
/// Used only by a dead container that is kept.
const DEAD: &str = "docker.io/library/dead:1";
/// Used by containers of deleted pods.
pub const GONE: &str = "docker.io/library/gone:1";
/// Used by a terminated pod.
const DONE: &str = "docker.io/library/done:1";
const VOLUME: &str = "docker.io/library/volume:1";
const PINNED: &str = "docker.io/library/pinned:1";
/// Matched by [`KEEP_PATTERN`].
const TOOL: &str = "registry.example/tools/debug:1";
pub const KEEP_PATTERN: &str = "registry.example/tools/*";
/// Used by a pod that has not started.
pub const WANTED: &str = "docker.io/library/wanted:1";
/// Being pulled.
pub const PULLING: &str = "docker.io/library/pulling:1";
pub const SANDBOX_IMAGE: &str = "registry.k8s.io/pause:3.10";
/// The uid of a pod that no source lists and that has a kubelet directory.
pub const POD_WITH_DIRECTORY: &str = "terminating-0";
/// The uid of a terminated pod.
pub const TERMINATED: &str = "done-0";
const LIVE: usize = 3;

// === impl Size ===

impl Size {
    /// Returns the number of objects of each kind.
    fn count(self) -> usize {
        match self {
            Self::Small => 1,
            Self::Wide => 7,
        }
    }
}

fn hours(hours: u64) -> Duration {
    Duration::from_hours(hours)
}

/// Returns the node, at noon of its day.
pub fn node(size: Size, streaming: Streaming) -> Node {
    let node = Node::new().disk(1000 * MIB, 960 * MIB).streaming(streaming).sandbox_image(SANDBOX_IMAGE).ago(hours(50));
    let node = live_pods(images(node, size));
    let node = deleted_pods(node, size).ago(hours(9)).foreign("debug").exited("shell", WEB);
    node.foreign("old-debug").stopped().ago(Duration::ZERO)
}

fn images(mut node: Node, size: Size) -> Node {
    for tag in [WEB, DEAD, GONE, DONE, VOLUME, TOOL, WANTED, PULLING] {
        node = node.image(tag, &[(tag, MIB)]);
    }
    node = node.image(PINNED, &[(PINNED, MIB)]).pinned().image(SANDBOX_IMAGE, &[(SANDBOX_IMAGE, MIB / 2)]);
    for number in 0..=size.count() {
        let tag = format!("docker.io/library/unused:{number}");
        node = node.image(&tag, &[(&tag, MIB)]);
    }
    node
}

fn live_pods(mut node: Node) -> Node {
    for number in 0..LIVE {
        let name = format!("live-{number}");
        node = node.ago(hours(40)).pod("default", &name, &name).ago(hours(1)).running("app", WEB).logging(100);
    }
    node = node.ago(hours(40)).pod("default", "crash-0", "crash-0");
    for age in [6, 5, 4] {
        node = node.ago(hours(age)).exited("app", WEB).rotated();
    }
    node = node.ago(hours(3)).running("app", WEB).exited("once", DEAD).ago(hours(30)).created("late", WEB);
    node = node.ago(hours(1)).created("late", WEB).ago(hours(2)).unknown("lost", WEB).ago(hours(1)).exited("lost", WEB);
    node = node.ago(Duration::from_mins(1)).created("young", WEB);
    // Its sandbox is not ready, so its container of unknown state does not run.
    node = node.ago(hours(40)).pod("default", "lost-0", "lost-0").stopped().ago(hours(2)).unknown("lost", WEB);
    node = node.ago(hours(1)).exited("lost", WEB);
    // Its first sandbox is empty, and the second has a container that is the newest of its slot.
    node = node.ago(hours(40)).pod("default", "restarted-0", "restarted-0").stopped();
    node = node.ago(hours(30)).pod("default", "restarted-0", "restarted-0").exited("init", WEB).stopped();
    node = node.ago(hours(20)).pod("default", "restarted-0", "restarted-0").running("app", WEB);
    node = node.ago(hours(20)).pod("default", "mount-0", "mount-0").running("app", WEB).mounting(VOLUME);
    node = node.ago(hours(20)).pod("default", TERMINATED, TERMINATED).exited("app", DONE);
    node = node.ago(hours(19)).exited("app", DONE).stopped();
    node.ago(hours(20)).pod("default", POD_WITH_DIRECTORY, POD_WITH_DIRECTORY).exited("app", WEB).stopped()
}

fn deleted_pods(mut node: Node, size: Size) -> Node {
    for number in 0..size.count() {
        let (gone, bare) = (format!("gone-{number}"), format!("bare-{number}"));
        node = node.ago(hours(30)).pod("default", &gone, &gone).exited("app", GONE).stopped();
        // This follows the stop, which would make the container exit.
        node = node.unknown("lost", GONE).ago(hours(30)).pod("default", &bare, &bare).stopped();
        let forgotten = format!("forgotten-{number}");
        node = node.orphan_logs("default", &forgotten, &forgotten);
        node = node.dangling_link("default", &forgotten, "app", &format!("{number:064}"));
    }
    node
}

/// Returns the pods of the API server.
pub fn pods() -> PodList {
    let live = (0..LIVE).map(|number| format!("live-{number}"));
    let running = live.chain(["crash-0", "lost-0", "restarted-0", "mount-0"].map(str::to_owned));
    let running = running.map(|name| pod(&name, Phase::Running, &[WEB]));
    let others = [pod("pending-0", Phase::Pending, &[WANTED]), pod(TERMINATED, Phase::Succeeded, &[DONE])];
    let pods = running.chain(others).collect();
    PodList { source: "test".to_owned(), complete: true, pods, ..PodList::default() }
}

fn pod(name: &str, phase: Phase, images: &[&str]) -> Pod {
    let images = images.iter().map(|image| (*image).to_owned()).collect();
    Pod { uid: name.into(), namespace: "default".to_owned(), name: name.to_owned(), phase, images, ..Pod::default() }
}

/// Returns the memory of earlier passes: images are known for two days, deleted pods are missing for an hour, and the
/// last lists were as long as the next ones.
pub fn past(sim: &Sim, now: Timestamp) -> Memory {
    let ago = |time| now.checked_sub(hours(time)).unwrap();
    let state = sim.state();
    let image = |id: String| ImageMemory {
        id: id.into(),
        first_seen: Some(ago(48)),
        last_used: Some(ago(30)),
        last_used_by: None,
    };
    let listed = pods().pods;
    let uids = state.sandboxes().into_iter().filter_map(|sandbox| Some(sandbox.metadata?.uid));
    let logs = std::fs::read_dir(sim.log_roots().pods).unwrap();
    let logs = logs.filter_map(|entry| entry.unwrap().file_name().to_str()?.rsplit('_').next().map(str::to_owned));
    let missing = uids.chain(logs).filter(|uid| listed.iter().all(|pod| pod.uid.as_str() != uid));
    let missing: std::collections::BTreeSet<_> = missing.filter(|uid| uid != POD_WITH_DIRECTORY).collect();
    let [containers, sandboxes, images] =
        [state.containers().len(), state.sandboxes().len(), state.image_ids().len()].map(|length| length as u64);
    let counts = ListCounts { containers, sandboxes, images };
    Memory {
        images: state.image_ids().into_iter().map(image).collect(),
        absent_since: missing.into_iter().map(|uid| Absence { uid: uid.as_str().into(), since: ago(1) }).collect(),
        last_counts: Some(counts),
        ..Memory::default()
    }
}
