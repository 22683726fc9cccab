//! Cases that share a rig, because a rig takes longer to start than most cases run.

use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;
use futures::future::LocalBoxFuture;

use super::NodeRig;

/// A case on a node.
pub type Scenario = for<'a> fn(&'a NodeRig) -> LocalBoxFuture<'a, ()>;

/// Plays all cases one after the other, also after one that fails. Fails with the names of those that failed; the messages
/// of each follow its name in the output.
pub async fn in_turn<C>(cases: &[(&str, C)], play: impl AsyncFn(&C)) {
    let mut failed = Vec::new();
    for (name, case) in cases {
        println!("case {name}");
        let outcome = AssertUnwindSafe(play(case)).catch_unwind().await;
        failed.extend(outcome.is_err().then_some(*name));
    }
    assert!(failed.is_empty(), "failed cases: {failed:?}");
}

/// Makes the list for [`NodeRig::play`] from functions of the type `async fn(&NodeRig)`.
#[allow(unused_macros, reason = "the benchmarks use the rig without it")]
macro_rules! scenarios {
    ($($case:ident),* $(,)?) => {
        [$((stringify!($case), (|node| Box::pin($case(node))) as $crate::rig::Scenario)),*]
    };
}
pub(crate) use scenarios;

// === impl NodeRig ===

impl NodeRig {
    /// Plays scenarios that need nothing but the API server. Each starts with an empty namespace `default` and without nodes.
    pub async fn play(&self, scenarios: &[(&str, Scenario)]) {
        let play = async |scenario: &Scenario| {
            self.clear().await;
            scenario(self).await;
        };
        in_turn(scenarios, play).await;
    }
}
