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

/// Returns the identity of the replica that has the lease: its name, and a part that is new in each start.
async fn holder(node: &NodeRig) -> Option<String> {
    let leases: Api<Lease> = Api::namespaced(node.kube(), "default");
    leases.get_opt("kubegc-controller").await.unwrap()?.spec?.holder_identity
}

/// Waits for another leader than the last one.
async fn await_leader(node: &NodeRig, last: Option<&str>) -> String {
    let mut held_by = None;
    // A new leader waits 15 s, and the restarted replica lists everything.
    let has_leader = becomes_true_within(WHERE_CALLS_FAIL.limit, async || {
        held_by = holder(node).await.filter(|holder| Some(holder.as_str()) != last);
        held_by.is_some()
    });
    assert!(has_leader.await, "no leader after {last:?}");
    held_by.unwrap()
}

/// `KUBEGC_KILLS` sets how many leaders are killed; 9, in `make test-kills`, take some three minutes.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "make test-kills: each leader is waited for"]
async fn forests_end_the_same_although_each_leader_is_killed() {
    let node = NodeRig::start_api_alone().await;
    let player = Player::create(&node, forests_in_any_order()).await;
    let kills: usize = std::env::var("KUBEGC_KILLS").map_or(1, |text| text.parse().unwrap());
    let mut replicas = BTreeMap::from(["one", "two"].map(|name| (name.to_owned(), start(&node, name))));
    let (mut killed, mut last) = (0, None);
    let kill_leaders = async |steps: usize| {
        // Spread over the steps, the last of them included.
        while killed < kills * (steps + 1) / (player.steps() + 1) {
            let leader = await_leader(&node, last.as_deref()).await;
            let name = leader.split('_').next().unwrap().to_owned();
            drop(replicas.remove(&name).unwrap());
            replicas.insert(name.clone(), start(&node, &name));
            (killed, last) = (killed + 1, Some(leader));
        }
        player.await_states(steps, WHERE_CALLS_FAIL).await;
    };
    player.play(kill_leaders).await;
    assert_eq!(killed, kills);
}
