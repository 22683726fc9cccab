//! The node itself: what the other tests take for granted. Where these fail, look at the machine first.

use std::collections::BTreeSet;

use crate::rig::{Manifest, NodeRig, Options, Program};

#[tokio::test]
async fn a_node_runs_pods_of_every_kind() {
    let node = NodeRig::start(Options::default()).await;
    let web = Manifest::new("web").init("prepare", "echo ready").container("app", "echo hello; exec sleep 1000000");
    let uid = node.create(&web).await;
    node.await_running("web", "app").await;
    let names = node.left_of("web", &uid).await;
    for part in ["container web/prepare#0 exited", "container web/app#0 running", "sandbox web#0 ready", "kubelet dir"]
    {
        assert!(names.contains(part), "{names:#?}");
    }
    assert!(names.contains(&format!("link to default_web_{uid}/app/0.log")), "{names:#?}");

    let fixed = Manifest::new("fixed").container("app", "exec sleep 1000000");
    let mirror = node.write_manifest(&fixed);
    node.await_running(&mirror, "app").await;
    node.remove_manifest(&fixed);
    node.await_gone(&mirror).await;

    node.delete("web").await;
    node.await_gone("web").await;
    assert_eq!(node.pod_named("web").await, None);
}

#[tokio::test]
async fn a_crashing_container_can_be_read() {
    let node = NodeRig::start(Options::default()).await;
    node.create(&Manifest::new("crash").container("app", "echo once more; exit 1")).await;
    node.await_backoff("crash", "app", 1).await;
    assert_eq!(node.previous_log("crash", "app").await.unwrap(), "once more\n");
    node.end(Program::Kubelet);
    node.begin(Program::Kubelet).await;
    node.kill(Program::ApiServer);
    node.begin(Program::ApiServer).await;
    assert_eq!(node.uids().await.len(), 1);
}

#[tokio::test]
async fn kubegc_runs_where_the_node_is() {
    let node = NodeRig::start(Options::default()).await;
    node.create(&Manifest::new("web").container("app", "exec sleep 1000000")).await;
    node.await_running("web", "app").await;
    let before = node.look().await;
    let plan = node.kubegc(&["plan", "-o", "json"]).ok().json();
    assert_eq!(node.changes_since(&before).await, Vec::<String>::new());
    assert!(plan.to_string().contains("running"), "{plan:#}");
    let _: BTreeSet<String> = node.uids().await;
}
