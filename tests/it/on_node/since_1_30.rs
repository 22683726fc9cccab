//! The resources of a fleet: their definitions have rules in CEL (Kubernetes 1.25), and an admission policy guards them (1.30).
//!
//! `scripts/test.sh` leaves out these tests, and names them, where the Kubernetes under test is older.

mod fleet_of_a_thousand;

use kube::api::{Api, PostParams};
use kubegc::fleet::{NodeDiskPolicy, NodeDiskPolicySpec};

use super::distributions::{apply_chart, apply_overlay, define_monitors, kubectl_on};
use crate::manifests::packaging;
use crate::rig::{NodeRig, run};

#[tokio::test]
async fn the_api_server_accepts_every_manifest_of_a_fleet() {
    let node = NodeRig::start_api_alone().await;
    run(kubectl_on(&node).args(["create", "namespace", "kubegc-system"]));
    apply_overlay(&node, "overlays/fleet");
    define_monitors(&node).await;
    apply_chart(&node, "fleet=true");

    let definitions = packaging("components/fleet/crds.yaml");
    run(kubectl_on(&node).arg("apply").arg("-f").arg(&definitions));
    run(kubectl_on(&node).args(["wait", "--for=condition=Established", "-f"]).arg(&definitions));
    let policies = Api::<NodeDiskPolicy>::all(node.kube());
    let empty = NodeDiskPolicy::new("empty", NodeDiskPolicySpec::default());
    let error = policies.create(&PostParams::default(), &empty).await.unwrap_err().to_string();
    assert!(error.contains("a policy must have paused, mode or removeImages"), "{error}");
}
