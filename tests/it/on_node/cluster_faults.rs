//! `controller run` beside an API server that fails: the forests end as without the failures.

mod faults;

use std::sync::Arc;
use std::time::Duration;

use ::kubegc::controller::{ControllerSettings, OwnersService, ResourceFilter};
use ::kubegc::kubernetes::Connection;
use ::kubegc::owners::OwnerGuards;
use tokio_util::sync::CancellationToken;

use super::owner_forests::player::Player;
use super::owner_forests::{WHERE_CALLS_FAIL, forests_in_any_order};
use super::random::Random;
use crate::rig::{NodeRig, Program};

fn settings() -> ControllerSettings {
    let mut settings = ControllerSettings { guards: OwnerGuards::none(), ..ControllerSettings::default() };
    (settings.calls.per_second, settings.calls.answer) = (5000, Duration::from_secs(2));
    settings
}

/// Makes all steps, each when the state of the one before is reached. `between` runs after each step.
async fn play(player: &Player, mut between: impl AsyncFnMut(usize)) {
    let reach = async |steps| {
        between(steps).await;
        player.await_states(steps, WHERE_CALLS_FAIL).await;
    };
    player.play(reach).await;
}

async fn beside_run(connection: Arc<Connection>, play: impl Future<Output = ()>) {
    let stop = CancellationToken::new();
    let service = OwnersService::new(&connection, settings(), ResourceFilter::default(), false, jiff::Timestamp::now);
    let play = async {
        play.await;
        stop.cancel();
    };
    tokio::join!(Box::pin(service.run(stop.clone())), play);
}

/// Of all calls, 10 % end in a conflict, a refusal, an error, an answer that is cut, or none.
#[tokio::test(flavor = "multi_thread")]
async fn forests_end_the_same_despite_failing_calls() {
    let node = NodeRig::start_api_alone().await;
    let player = Player::create(&node, forests_in_any_order()).await;
    let faults = faults::Faults::new(1);
    let connection = Connection::through(faults.client(&node.kubeconfig("admin")).await, "a faulty connection");
    Box::pin(beside_run(Arc::new(connection), play(&player, async |_| {}))).await;
    let (calls, failed) = faults.counts();
    println!("{failed} of {calls} calls failed");
    assert!(failed * 20 > calls && failed > 100, "{failed} of {calls}");
}

/// The API server is killed at random moments. `KUBEGC_RESTARTS` sets how often; 50 take about six minutes, in `make test-kills`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "make test-kills: an API server that starts again and again takes much of a machine"]
async fn forests_end_alike_with_apiserver_killed_again_and_again() {
    let node = NodeRig::start_api_alone().await;
    let player = Player::create(&node, forests_in_any_order()).await;
    let restarts: usize = std::env::var("KUBEGC_RESTARTS").map_or(2, |text| text.parse().unwrap());
    let (mut done, random) = (0, Random::new(7));
    let kubeconfigs = vec![node.kubeconfig("admin")];
    let candidates = ::kubegc::kubernetes::CredentialCandidates { kubeconfigs, ..Default::default() };
    let kill = async |steps: usize| {
        // Spread over the steps, the last of them included.
        while done < restarts * (steps + 1) / (player.steps() + 1) {
            tokio::time::sleep(Duration::from_millis(random.below(1500))).await;
            node.kill(Program::ApiServer);
            node.begin(Program::ApiServer).await;
            done += 1;
        }
    };
    Box::pin(beside_run(Arc::new(Connection::new(candidates)), play(&player, kill))).await;
    assert_eq!(done, restarts);
}
