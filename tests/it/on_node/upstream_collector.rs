//! Random forests, collected by kube-controller-manager 1.20.2 and by `kubegc controller run`, each on an API server of its
//! own: the same objects are left in the same state after every step.
//!
//! `KUBEGC_SEED` and `KUBEGC_FORESTS` choose other forests; a failure prints both. `make test` has 40, `make test-forests`
//! 600.

mod comparison;
mod guards;
mod random_forests;
mod sentinel;

use std::time::Duration;

use self::comparison::{Difference, compare};
use self::guards::Guarded;
use super::owner_forests::forest::Forest;
use super::owner_forests::player::{Patience, Player};
use crate::rig::{Daemon, NodeRig, Program};

/// Two API servers and two collectors share a machine with other tests.
const PATIENCE: Patience = Patience { limit: Duration::from_mins(5), quiet: Duration::from_secs(3), tolerated: 0 };
/// Makes `run` as fast as kube-controller-manager, whose limits are raised too.
const LIMITS: [&str; 3] = ["--owners-only", "--kube-api-qps", "5000"];

/// The same forests on two API servers, each with a collector.
struct Contest {
    upstream: (NodeRig, Player),
    ours: (NodeRig, Player),
    seed: u64,
    count: usize,
    /// The collector of ours; killed when dropped.
    run: Daemon,
}

// === impl Contest ===

impl Contest {
    /// Creates the objects before the collectors start, because a collector may delete an object before its circle is
    /// closed.
    async fn start(args: &[&str]) -> Self {
        let number = |name: &str, default| std::env::var(name).map_or(default, |text| text.parse().unwrap());
        let (seed, count) = (number("KUBEGC_SEED", 1), usize::try_from(number("KUBEGC_FORESTS", 40)).unwrap());
        let (upstream, ours) = tokio::join!(plant(seed, count), plant(seed, count));
        upstream.0.launch(Program::ControllerManager);
        let run = ours.0.controller("run", &[LIMITS.as_slice(), args].concat());
        Self { upstream, ours, seed, count, run }
    }

    /// Makes all steps on both API servers. After each, waits until `unexplained` returns nothing of the differences.
    async fn play(&self, mut unexplained: impl AsyncFnMut(Vec<Difference>) -> Vec<Difference>) {
        for steps in 0..=self.upstream.1.steps() {
            if let Some(step) = steps.checked_sub(1) {
                tokio::join!(self.upstream.1.step(step), self.ours.1.step(step));
            }
            let mut different = Vec::new();
            let look = async || {
                let states = tokio::try_join!(self.upstream.1.states(), self.ours.1.states());
                let (upstream, ours) = match states {
                    Ok(states) => states,
                    Err(error) => return vec![error.to_string()],
                };
                let mut found = sentinel::waits(steps, &upstream, "kube-controller-manager");
                found.extend(sentinel::waits(steps, &ours, "kubegc"));
                different = compare(self.forests(), steps, (&upstream, &ours));
                let unexplained = unexplained(different.clone()).await;
                found.extend(unexplained.iter().map(|difference| self.describe(steps, difference)));
                found
            };
            PATIENCE.agree(look).await;
            comparison::print_explained(&different);
        }
    }

    fn describe(&self, steps: usize, difference: &Difference) -> String {
        let Self { seed, count, .. } = self;
        let forest = self.forests().iter().find(|forest| forest.name == difference.forest);
        format!("KUBEGC_SEED={seed} KUBEGC_FORESTS={count}: after step {steps}, {difference}\nin {forest:#?}")
    }

    fn forests(&self) -> &[Forest] {
        self.ours.1.forests()
    }
}

async fn plant(seed: u64, count: usize) -> (NodeRig, Player) {
    let node = NodeRig::start_api_alone().await;
    let mut forests = random_forests::forests(seed, count);
    let steps = forests.iter().map(|forest| forest.steps.len()).max().unwrap();
    forests.extend((0..steps).map(sentinel::forest));
    let player = Player::create(&node, forests).await;
    (node, player)
}

#[tokio::test(flavor = "multi_thread")]
async fn run_leaves_what_kube_controller_manager_leaves() {
    let contest = Contest::start(&["--profile", "upstream"]).await;
    Box::pin(contest.play(async |different| comparison::unexplained(different))).await;
}

/// With few objects, a brake at its default would never act.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "make test-forests: only many forests have a case for the brake"]
async fn a_guard_explains_each_difference_of_the_profile_safe() {
    let args = ["--profile", "safe", "--set", "guards.brake_count=40"];
    let contest = Contest::start(&args).await;
    let mut guarded = Guarded::default();
    let unexplained = async |different: Vec<Difference>| {
        let different = comparison::unexplained(different);
        if different.iter().any(|difference| !guarded.explains(contest.forests(), difference)) {
            guarded.look(&contest.ours.0, &contest.run, &args);
        }
        different.into_iter().filter(|difference| !guarded.explains(contest.forests(), difference)).collect()
    };
    Box::pin(contest.play(unexplained)).await;
    guarded.assert_the_brake_acted();
}
