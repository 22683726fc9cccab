//! The memory of an agent that waits: the real binary on a big simulated node.

use std::time::Duration;

use kubegc::sim::{Node, Sim};

use crate::agent::{Home, private_kib};

/// 6 MiB for the idle agent and what it remembers of 10,000 containers, 2 MiB of addresses that the loader writes into a debug
/// build, and room for what depends on the order of calls on a busy machine. With the allocator of glibc it is 24 MiB.
/// `cargo bench --bench whole` measures the release.
const LIMIT_KIB: u64 = 12 << 10;

#[tokio::test]
async fn memory_for_10_000_containers_is_returned_after_passes() {
    let sim = Sim::start(Node::big(10_000, 1_000)).unwrap();
    let home = Home::new(&sim, "containers.interval = \"1h\"\nimages.interval = \"1h\"");
    let mut service = home.start(&["run"]);
    service.first_passes().await;
    let returned = async {
        while private_kib(service.pid) >= LIMIT_KIB {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let in_time = tokio::time::timeout(Duration::from_mins(3), returned).await;
    in_time.unwrap_or_else(|_| panic!("{} KiB are private", private_kib(service.pid)));
}
