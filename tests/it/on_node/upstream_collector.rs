//! Random forests, collected by kube-controller-manager and by `kubegc controller run`, each on an API server of its own:
//! the same objects are left in the same state after every step. A forest that ends differently may end in several ways:
//! then kube-controller-manager leaves our state too when it plays the forest again ([`replays`]).
//!
//! `KUBEGC_SEED` and `KUBEGC_FORESTS` choose other forests; a failure prints both. `make test` has 40, `make test-forests`
//! 600.

mod comparison;
mod guards;
mod random_forests;
mod replays;
mod sentinel;

use std::time::{Duration, Instant};

use self::comparison::{Difference, compare};
use self::guards::Guarded;
use self::replays::Replays;
use super::owner_forests::forest::Forest;
use super::owner_forests::player::{Patience, Player};
use crate::rig::{Daemon, NodeRig, Program, kubernetes_minor};

/// Two API servers and two collectors share a machine with other tests.
const PATIENCE: Patience = Patience { limit: Duration::from_mins(5), quiet: Duration::from_secs(3), tolerated: 0 };
/// A difference that lasts so long is played again. Sooner, a collector may still be at work.
const LASTING: Duration = Duration::from_secs(5);
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
    async fn start(args: &[&str], with_namespaces: bool) -> Self {
        let number = |name: &str, default| std::env::var(name).map_or(default, |text| text.parse().unwrap());
        let (seed, count) = (number("KUBEGC_SEED", 1), usize::try_from(number("KUBEGC_FORESTS", 40)).unwrap());
        let forests = || random_forests::forests(seed, count, with_namespaces);
        let (upstream, ours) = tokio::join!(plant(forests()), plant(forests()));
        upstream.0.launch(Program::ControllerManager);
        let run = ours.0.controller("run", &[LIMITS.as_slice(), args].concat());
        Self { upstream, ours, seed, count, run }
    }

    /// Makes all steps on both API servers. After each, waits until `unexplained` returns nothing of the differences, or
    /// only what kube-controller-manager leaves too when it plays the forest again.
    async fn play(&self, mut unexplained: impl AsyncFnMut(Vec<Difference>) -> Vec<Difference>) {
        let mut replays = Replays::default();
        for steps in 0..=self.upstream.1.steps() {
            if let Some(step) = steps.checked_sub(1) {
                tokio::join!(self.upstream.1.step(step), self.ours.1.step(step));
            }
            let (mut last, mut since) = (Vec::new(), Instant::now());
            let look = async || {
                let (mut waits, different) = match Box::pin(self.look(steps)).await {
                    Ok(found) => found,
                    Err(error) => return vec![error.to_string()],
                };
                let different = replays.unknown(steps, &unexplained(different).await);
                if different != last {
                    (last, since) = (different.clone(), Instant::now());
                } else if waits.is_empty() && since.elapsed() >= LASTING {
                    replays.add(self.forests().iter().filter(|forest| is_of(forest, &different))).await;
                    since = Instant::now();
                }
                waits.extend(different.iter().map(|difference| {
                    format!("{}; {}", self.describe(steps, difference), replays.describe(steps, difference))
                }));
                waits
            };
            PATIENCE.agree(look).await;
        }
        replays.print();
    }

    /// Returns what the collectors have still to do for certain, and the objects that they left in different states.
    async fn look(&self, steps: usize) -> Result<(Vec<String>, Vec<Difference>), kube::Error> {
        let (upstream, ours) = tokio::try_join!(self.upstream.1.states(), self.ours.1.states())?;
        let mut waits = sentinel::waits(steps, &upstream, "kube-controller-manager");
        waits.extend(sentinel::waits(steps, &ours, "kubegc"));
        waits.extend(sentinel::waits_in_namespaces(self.forests(), &upstream, "kube-controller-manager"));
        waits.extend(sentinel::waits_in_namespaces(self.forests(), &ours, "kubegc"));
        Ok((waits, compare(self.forests(), (&upstream, &ours))))
    }

    fn describe(&self, steps: usize, difference: &Difference) -> String {
        let Self { seed, count, .. } = self;
        let forest = self.forests().iter().find(|forest| is_of(forest, std::slice::from_ref(difference)));
        format!("KUBEGC_SEED={seed} KUBEGC_FORESTS={count}: after step {steps}, {difference}\nin {forest:?}")
    }

    fn forests(&self) -> &[Forest] {
        self.ours.1.forests()
    }
}

fn is_of(forest: &Forest, different: &[Difference]) -> bool {
    different.iter().any(|difference| difference.forest == forest.name)
}

/// Creates the objects of these forests, and of one sentinel for each step, on an API server of their own.
async fn plant(mut forests: Vec<Forest>) -> (NodeRig, Player) {
    let node = NodeRig::start_api_alone().await;
    if kubernetes_minor() >= 36 {
        node.add_flag(Program::ControllerManager, "--controllers=namespace-controller");
    }
    let steps = forests.iter().map(|forest| forest.steps.len()).max().unwrap();
    forests.extend((0..steps).map(sentinel::forest));
    let player = Player::create(&node, forests).await;
    (node, player)
}

#[tokio::test(flavor = "multi_thread")]
async fn run_leaves_what_kube_controller_manager_leaves() {
    // Before 1.33 pods are not deleted before what else is in a namespace.
    let with_namespaces = kubernetes_minor() >= 36;
    let args = ["--profile", "upstream", "--namespaces"];
    let args = if with_namespaces { &args[..] } else { &args[..2] };
    let contest = Contest::start(args, with_namespaces).await;
    Box::pin(contest.play(async |different| different)).await;
}

/// With few objects, a brake at its default would never act.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "make test-forests: only many forests have a case for the brake"]
async fn a_guard_explains_each_difference_of_the_profile_safe() {
    let args = ["--profile", "safe", "--set", "guards.brake_count=40"];
    let contest = Contest::start(&args, false).await;
    let (mut guarded, mut last) = (Guarded::default(), Vec::new());
    let unexplained = async |different: Vec<Difference>| {
        // A plan reads each doubtful owner. Made again and again while the collectors work, plans take most of the machine.
        let is_settled = different == last;
        last.clone_from(&different);
        if is_settled && different.iter().any(|difference| !guarded.explains(contest.forests(), difference)) {
            guarded.look(&contest.ours.0, &contest.run, &args);
        }
        different.into_iter().filter(|difference| !guarded.explains(contest.forests(), difference)).collect()
    };
    Box::pin(contest.play(unexplained)).await;
    guarded.assert_the_brake_acted();
}
