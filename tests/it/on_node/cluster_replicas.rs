//! Two replicas of `controller run --leader-elect`. The leader is killed again and again while forests are deleted.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::Api;

use super::owner_forests::player::Player;
use super::owner_forests::{TOLERATED, forests_in_any_order};
use crate::rig::{NodeRig, becomes_true_within};

/// A new leader waits 15 s, and the restarted replica lists everything.
const PATIENCE: Duration = Duration::from_mins(2);
/// One replica; it is killed when it is dropped.
struct Replica(Child);

impl Replica {
    fn start(node: &NodeRig, name: &str) -> Self {
        let kubeconfig = node.kubeconfig("admin");
        let mut command = Command::new(env!("CARGO_BIN_EXE_kubegc"));
        command.args(["controller", "run", "--leader-elect", "--owners-only", "--profile", "upstream"]);
        command.args(["--node-name", name, "--kube-api-qps", "5000", "--leader-elect-resource-namespace", "default"]);
        command.arg("--kubeconfig").arg(kubeconfig).env_clear().stderr(Stdio::null());
        Self(command.spawn().unwrap())
    }

    /// Kills it with SIGKILL.
    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the name of the replica that has the lease.
async fn leader(node: &NodeRig) -> Option<String> {
    let leases: Api<Lease> = Api::namespaced(node.kube(), "default");
    let holder = leases.get_opt("kubegc-controller").await.unwrap()?.spec?.holder_identity?;
    Some(holder.split('_').next().unwrap().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn forests_end_the_same_although_each_leader_is_killed() {
    let node = NodeRig::start_api_alone().await;
    let player = Player::create(&node, forests_in_any_order()).await;
    let mut replicas = ["one", "two"].map(|name| (name, Replica::start(&node, name)));
    for steps in 0..=player.steps() {
        if let Some(step) = steps.checked_sub(1) {
            player.step(step).await;
        }
        // In every second step, so that the test takes less than two minutes.
        if steps % 2 == 1 {
            let mut held_by = None;
            let has_leader = becomes_true_within(PATIENCE, async || {
                held_by = leader(&node).await;
                held_by.is_some()
            });
            assert!(has_leader.await);
            let killed = replicas.iter_mut().find(|(name, _)| Some(*name) == held_by.as_deref()).unwrap();
            killed.1.kill();
            killed.1 = Replica::start(&node, killed.0);
        }
        let mut different = Vec::new();
        let is_right = becomes_true_within(PATIENCE, async || {
            tokio::time::sleep(Duration::from_millis(300)).await;
            different = player.differences(steps).await;
            different.len() <= TOLERATED
        });
        assert!(is_right.await, "{} differ:\n{}", different.len(), different.join("\n"));
    }
}
