//! The kustomizations of the agent, one per distribution: the API server accepts what `kubectl apply -k` sends.

use std::process::Command;

use crate::manifests::{AGENTS, kubectl, packaging};
use crate::rig::{NodeRig, run};

#[tokio::test]
async fn the_api_server_accepts_every_overlay_of_the_agent() {
    let node = NodeRig::start_api_alone().await;
    let kubectl = || {
        let mut command = Command::new(kubectl());
        command.env_clear().env("HOME", node.dir()).arg("--kubeconfig").arg(node.kubeconfig("admin"));
        command
    };
    // In a dry run the namespace would not exist for the other objects.
    run(kubectl().args(["create", "namespace", "kubegc-system"]));
    for agent in AGENTS {
        let applied = run(kubectl().args(["apply", "--dry-run=server", "-k"]).arg(packaging(agent.within)));
        assert!(applied.contains("daemonset.apps/kubegc created (server dry run)"), "{}: {applied}", agent.within);
        assert!(applied.contains("configmap/kubegc-"), "{}: {applied}", agent.within);
    }
}
