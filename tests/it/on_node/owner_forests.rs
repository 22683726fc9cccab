//! The random forests that kube-controller-manager 1.36.2 collected, played on a real API server: kubegc leaves the same
//! state after every step.

pub mod forest;
pub mod player;

use std::sync::Arc;
use std::time::Duration;

use ::kubegc::controller::{CollectOptions, ControllerSettings, OwnersService, ResourceFilter, collect};
use ::kubegc::kubernetes::{Connection, CredentialCandidates};
use ::kubegc::owners::OwnerGuards;
use tokio_util::sync::CancellationToken;

use self::forest::Forest;
use self::player::{Patience, Player};
use crate::rig::NodeRig;
use crate::sample;

/// A forest in which the upstream collector deleted an object before its late owners were added.
const COLLECTED_EARLY: &str = "f42";
/// Forests whose end depends on the order of two calls when objects are changed one by one, also in
/// kube-controller-manager: a reference to one owner is dropped, or the other owner is deleted before.
const ORDER_MATTERS: [&str; 2] = ["f86", "f126"];
/// The states that were recorded, and no other.
const EXACT: Patience = Patience { limit: Duration::from_mins(5), quiet: Duration::from_secs(3), tolerated: 0 };
/// Where calls fail, two forests may differ: an object with two owners that is checked late finds another state.
pub const WHERE_CALLS_FAIL: Patience = Patience { limit: Duration::from_mins(5), quiet: Duration::ZERO, tolerated: 2 };

/// Returns all forests but these.
pub fn forests_without(names: &[&str]) -> Vec<Forest> {
    Forest::all().into_iter().filter(|forest| !names.contains(&&*forest.name)).collect()
}

/// Returns the forests that end the same in whatever order objects are checked, as far as is known.
pub fn forests_in_any_order() -> Vec<Forest> {
    forests_without(&[COLLECTED_EARLY, ORDER_MATTERS[0], ORDER_MATTERS[1]])
}

fn connection(node: &NodeRig) -> Arc<Connection> {
    let kubeconfigs = vec![node.kubeconfig("admin")];
    Arc::new(Connection::new(CredentialCandidates { kubeconfigs, ..CredentialCandidates::default() }))
}

/// As kube-controller-manager with its limits on calls raised.
fn upstream() -> ControllerSettings {
    let mut settings = ControllerSettings { guards: OwnerGuards::none(), ..ControllerSettings::default() };
    settings.calls.per_second = 5000;
    settings
}

#[tokio::test(flavor = "multi_thread")]
async fn run_leaves_the_states_of_kube_controller_manager() {
    let node = NodeRig::start_api_alone().await;
    let player = Player::create(&node, forests_in_any_order()).await;
    let stop = CancellationToken::new();
    let service = OwnersService::new(&connection(&node), upstream(), ResourceFilter::default(), false, now);
    let play = async {
        player.play(async |steps| player.await_states(steps, EXACT).await).await;
        stop.cancel();
    };
    tokio::join!(service.run(stop.clone()), play);
}

#[tokio::test(flavor = "multi_thread")]
async fn collect_after_each_step_matches_kube_controller_manager() {
    let node = NodeRig::start_api_alone().await;
    let player = Player::create(&node, sample::of(1, forests_without(&[COLLECTED_EARLY]))).await;
    let collect_all = async |steps| {
        let options = CollectOptions { timeout: Duration::from_mins(2), ..CollectOptions::default() };
        let report = collect(connection(&node), upstream(), &options, now, CancellationToken::new(), |_| {}).await;
        let report = report.unwrap();
        assert!(!report.interrupted && report.errors.is_empty(), "{:?} {:?}", report.errors, report.failures);
        let different = player.differences(steps).await;
        assert!(different.is_empty(), "{}", different.join("\n"));
    };
    player.play(collect_all).await;
}

fn now() -> jiff::Timestamp {
    jiff::Timestamp::now()
}
