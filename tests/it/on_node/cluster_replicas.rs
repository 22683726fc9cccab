//! Two replicas of `controller run --leader-elect`. The leader is killed again and again while forests are deleted.

use std::collections::BTreeMap;

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::Api;

use super::owner_forests::player::Player;
use super::owner_forests::{WHERE_CALLS_FAIL, forests_in_any_order};
use crate::rig::{Daemon, NodeRig, becomes_true_within};

/// Starts a replica. It is killed with SIGKILL when it is dropped.
fn start(node: &NodeRig, name: &str) -> Daemon {
    let args = ["--leader-elect", "--owners-only", "--profile", "upstream", "--node-name", name];
    let limits = ["--kube-api-qps", "5000", "--leader-elect-resource-namespace", "default"];
    node.controller(name, &[args.as_slice(), &limits].concat())
}

/// Returns the name of the replica that has the lease.
async fn leader(node: &NodeRig) -> Option<String> {
    let leases: Api<Lease> = Api::namespaced(node.kube(), "default");
    let holder = leases.get_opt("kubegc-controller").await.unwrap()?.spec?.holder_identity?;
    Some(holder.split('_').next().unwrap().to_owned())
}

/// Waits for a leader.
async fn await_leader(node: &NodeRig) -> String {
    let mut held_by = None;
    // A new leader waits 15 s, and the restarted replica lists everything.
    let has_leader = becomes_true_within(WHERE_CALLS_FAIL.limit, async || {
        held_by = leader(node).await;
        held_by.is_some()
    });
    assert!(has_leader.await);
    held_by.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn forests_end_the_same_although_each_leader_is_killed() {
    let node = NodeRig::start_api_alone().await;
    let player = Player::create(&node, forests_in_any_order()).await;
    let mut replicas = BTreeMap::from(["one", "two"].map(|name| (name.to_owned(), start(&node, name))));
    let kill_leader = async |steps| {
        // In every second step, so that the test takes less than two minutes.
        if steps % 2 == 1 {
            let name = await_leader(&node).await;
            drop(replicas.remove(&name).unwrap());
            replicas.insert(name.clone(), start(&node, &name));
        }
        player.await_states(steps, WHERE_CALLS_FAIL).await;
    };
    player.play(kill_leader).await;
}
