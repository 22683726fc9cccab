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
use self::player::Player;
use crate::rig::{NodeRig, becomes_true_within};

/// A forest in which the upstream collector deleted an object before its late owners were added.
const COLLECTED_EARLY: &str = "f42";
/// Forests whose end depends on the order of two calls when objects are changed one by one, also in
/// kube-controller-manager: a reference to one owner is dropped, or the other owner is deleted before.
const ORDER_MATTERS: [&str; 2] = ["f86", "f126"];
/// Where calls fail, so many of the others may differ: an object with two owners that is checked late finds another state.
pub const TOLERATED: usize = 2;
/// How long a state must stay.
const QUIET: Duration = Duration::from_secs(3);

/// Returns all forests but these.
pub fn forests_without(names: &[&str]) -> Vec<Forest> {
    Forest::all().into_iter().filter(|forest| !names.contains(&&*forest.name)).collect()
}

/// Returns the forests that end the same in whatever order objects are checked, as far as is known.
pub fn forests_in_any_order() -> Vec<Forest> {
    forests_without(&[COLLECTED_EARLY, ORDER_MATTERS[0], ORDER_MATTERS[1]])
}

fn connection(node: &NodeRig) -> Arc<Connection> {
    let kubeconfig = Some(node.kubeconfig("admin"));
    Arc::new(Connection::new(CredentialCandidates { kubeconfig, ..CredentialCandidates::default() }))
}

/// As kube-controller-manager with its limits on calls raised.
fn upstream() -> ControllerSettings {
    let mut settings = ControllerSettings { guards: OwnerGuards::none(), ..ControllerSettings::default() };
    (settings.calls.per_second, settings.calls.burst) = (5000, 5000);
    settings
}

async fn await_state(player: &Player, steps: usize) {
    let mut different = Vec::new();
    let is_right = becomes_true_within(Duration::from_mins(1), async || {
        // Each look is seven lists of all objects.
        tokio::time::sleep(Duration::from_millis(100)).await;
        different = player.differences(steps).await;
        different.is_empty()
    });
    assert!(is_right.await, "{} differ:\n{}", different.len(), different.join("\n"));
    // There is no event to wait for: nothing must happen.
    tokio::time::sleep(QUIET).await;
    let different = player.differences(steps).await;
    assert!(different.is_empty(), "{}", different.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn run_leaves_the_states_of_kube_controller_manager() {
    let node = NodeRig::start_api_alone().await;
    let player = Player::create(&node, forests_in_any_order()).await;
    let stop = CancellationToken::new();
    let service = OwnersService::new(&connection(&node), upstream(), ResourceFilter::default(), now);
    let play = async {
        for steps in 0..=player.steps() {
            if let Some(step) = steps.checked_sub(1) {
                player.step(step).await;
            }
            await_state(&player, steps).await;
        }
        stop.cancel();
    };
    tokio::join!(service.run(stop.clone()), play);
}

#[tokio::test(flavor = "multi_thread")]
async fn collect_after_each_step_leaves_the_states_of_kube_controller_manager() {
    let node = NodeRig::start_api_alone().await;
    let player = Player::create(&node, forests_without(&[COLLECTED_EARLY])).await;
    for steps in 0..=player.steps() {
        if let Some(step) = steps.checked_sub(1) {
            player.step(step).await;
        }
        let options = CollectOptions { dry_run: false, max_objects: None, timeout: Duration::from_mins(2) };
        let report = collect(connection(&node), upstream(), &options, now, CancellationToken::new(), |_| {}).await;
        let report = report.unwrap();
        assert!(!report.interrupted && report.errors.is_empty(), "{:?} {:?}", report.errors, report.failures);
        let different = player.differences(steps).await;
        assert!(different.is_empty(), "{}", different.join("\n"));
    }
}

fn now() -> jiff::Timestamp {
    jiff::Timestamp::now()
}
