//! Metrics and health of two replicas of `kubegc controller run`.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, PostParams};
use nix::sys::signal::Signal;
use serde_json::json;

use crate::monitoring::dashboard::Dashboard;
use crate::monitoring::http::get;
use crate::monitoring::prometheus::Prometheus;
use crate::monitoring::value;
use crate::rig::{Daemon, NodeRig, becomes_true, scenarios};

const ARGS: &[&str] =
    &["--leader-elect", "--leader-elect-resource-namespace", "default", "--set", "controller.address=127.0.0.1:0"];

#[tokio::test(flavor = "multi_thread")]
async fn health_metrics_and_reload() {
    let node = NodeRig::start_api_alone().await;
    node.play(&scenarios![
        the_leader_and_the_standby_are_ready_and_the_dashboard_shows_what_the_leader_deletes,
        a_reload_changes_the_level_of_the_log_and_names_what_needs_a_restart,
        what_waits_is_in_the_status_and_a_resource_that_fails_in_readiness
    ])
    .await;
}

async fn the_leader_and_the_standby_are_ready_and_the_dashboard_shows_what_the_leader_deletes(node: &NodeRig) {
    let leader = node.controller("leader", ARGS);
    let first = address(&leader).await;
    assert!(becomes_true(async || get(&first, "/readyz").status == 200 && leader.log().contains("collecting")).await);
    let standby = node.controller("standby", ARGS);
    let second = address(&standby).await;

    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "absent", "uid": "00000000-0000-4000-8000-000000000001"});
    let object = json!({"metadata": {"name": "dangling", "ownerReferences": [owner]}});
    let object: ConfigMap = serde_json::from_value(object).unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(node.kube(), "default");
    maps.create(&PostParams::default(), &object).await.unwrap();
    let deleted = "kubegc_controller_changes_total{action=\"delete\",result=\"removed\"}";
    let counted = async || value(&get(&first, "/metrics").body, deleted) == Some(1.0);
    assert!(becomes_true(counted).await, "{}\n{}", get(&first, "/metrics").body, leader.log());

    let [of_leader, of_standby] = [&first, &second].map(|address| get(address, "/metrics").body);
    let objects = |metrics: &str| value(metrics, "kubegc_controller_objects").unwrap();
    assert!(objects(&of_leader) > 20.0 && objects(&of_standby) < 1.0, "{of_leader}\n{of_standby}");
    assert_eq!(value(&of_leader, "kubegc_controller_unlisted_resources"), Some(0.0));
    assert!(value(&of_leader, "workqueue_adds_total{name=\"garbage_collector_attempt_to_delete\"}").unwrap() > 0.0);
    let leads = [&of_leader, &of_standby].map(|metrics| value(metrics, "kubegc_controller_leader"));
    assert_eq!(leads, [Some(1.0), Some(0.0)]);
    for (address, lease) in [(&first, "leading"), (&second, "standby, another process may collect")] {
        let ready = get(address, "/readyz");
        assert_eq!((ready.status, ready.body), (200, format!("ok\nlease: {lease}\n")));
        assert_eq!(get(address, "/livez").status, 200);
    }

    let prometheus = Prometheus::start(&[&first, &second]).await;
    let empty = [("Deleted pods per hour B", "no deletion of a pod fails")];
    prometheus.shows(&Dashboard::read().queries("Controller"), &empty).await;
    assert_eq!((leader.terminate(), standby.terminate()), (0, 0));
}

async fn a_reload_changes_the_level_of_the_log_and_names_what_needs_a_restart(node: &NodeRig) {
    let file = node.dir().join("controller.toml");
    let set = |text: &str| std::fs::write(&file, text).unwrap();
    set("log.level = \"info\"\n[controller]\ncalls_per_second = 2\n");
    let config = ["--config", file.to_str().unwrap(), "--set", "controller.address=127.0.0.1:0"];
    let controller = node.controller("reloaded", &config);
    let address = address(&controller).await;
    let shows = async |status: u16, successful: f64| {
        let metric = || value(&get(&address, "/metrics").body, "kubegc_config_last_reload_successful");
        becomes_true(async || get(&address, "/readyz").status == status && metric() == Some(successful)).await
    };
    assert!(shows(200, 1.0).await, "{}", controller.log());

    set("controller.calls_per_second = \"many\"\n");
    controller.signal(Signal::SIGHUP);
    assert!(shows(503, 0.0).await, "{}", controller.log());
    let ready = get(&address, "/readyz").body;
    assert!(ready.contains("configuration: ") && ready.contains("controller.calls_per_second = \"many\""), "{ready}");

    // The watch of the files finds this change.
    set("log.level = \"warn\"\n[controller]\ncalls_per_second = 3\n");
    assert!(shows(200, 1.0).await, "{}", controller.log());
    let log = controller.log();
    assert!(log.contains("changed settings need a restart settings=\"controller.calls_per_second\""), "{log}");
    assert!(!log.contains("settings reloaded"), "the level of that message is below the new one: {log}");
    assert_eq!(controller.terminate(), 0);
}

async fn what_waits_is_in_the_status_and_a_resource_that_fails_in_readiness(node: &NodeRig) {
    let maps: Api<ConfigMap> = Api::namespaced(node.kube(), "default");
    let create = async |object: serde_json::Value| {
        let object: ConfigMap = serde_json::from_value(object).unwrap();
        maps.create(&PostParams::default(), &object).await.unwrap().metadata.uid.unwrap()
    };
    let uid = create(json!({"metadata": {"name": "waits"}})).await;
    let owner =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "waits", "uid": uid, "blockOwnerDeletion": true});
    let held = json!({"name": "held", "ownerReferences": [owner], "finalizers": ["example.com/hold"]});
    create(json!({"metadata": held})).await;
    maps.delete("waits", &DeleteParams::foreground()).await.unwrap();

    let leader = node.controller("attention", ARGS);
    let admin = node.kubeconfig("admin").display().to_string();
    let args = ["controller", "status", "--kubeconfig", &admin, "--set", "controller.lease_namespace=default"];
    let status = || node.kubegc(&args).stdout;
    let expected = "Needs attention:         longest foreground deletion: ";
    assert!(becomes_true(async || status().contains(expected)).await, "{}\n{}", status(), leader.log());
    assert_eq!(leader.terminate(), 0);
}

/// Returns the address as soon as it is served.
async fn address(controller: &Daemon) -> String {
    let find = || {
        let log = controller.log();
        let line = log.lines().find(|line| line.contains("serving metrics and health"))?;
        Some(line.split("address=").nth(1)?.trim().to_owned())
    };
    assert!(becomes_true(async || find().is_some()).await, "{}", controller.log());
    find().unwrap()
}
