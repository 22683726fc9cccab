//! Rules for objects, and annotations of kube-janitor, on a real API server.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Api, DeleteParams};
use serde_json::json;

use super::controller;
use crate::rig::{NodeRig, Program, Ran, becomes_true};

const RULES: &str = r#"
controller.janitor_annotations = ["secrets"]

[[rule]]
name = "builds"
for = "object"
resource = "configmaps"
when = "'build' in object.labels && object.age >= duration('0s')"
then = "delete"
"#;

/// `plan` and `why` name the rule, `collect` deletes what they show with its dependents, and `run` does so too.
pub(super) async fn rules_delete_objects_by_their_metadata_and_age(node: &NodeRig) {
    let file = node.dir().join("rules.toml");
    std::fs::write(&file, RULES).unwrap();
    let kubegc = |args: &[&str]| -> Ran { controller(node, &[args, &["--config", file.to_str().unwrap()]].concat()) };
    let maps: Api<ConfigMap> = Api::namespaced(node.kube(), "default");
    let secrets: Api<Secret> = Api::namespaced(node.kube(), "default");
    let leave = async || {
        for (name, labels) in [("build-1", json!({ "build": "1" })), ("config", json!({}))] {
            let metadata = json!({ "name": name, "namespace": "default", "labels": labels });
            node.create_object(&json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata })).await;
        }
        let build = maps.get("build-1").await.unwrap().metadata.uid.unwrap();
        let owner = json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "build-1", "uid": build });
        let expired = json!({ "janitor/expires": "2020-01-01" });
        for (name, owners, annotations) in
            [("of-build", json!([owner]), json!({})), ("expired", json!([]), expired), ("kept", json!([]), json!({}))]
        {
            let metadata =
                json!({ "name": name, "namespace": "default", "ownerReferences": owners, "annotations": annotations });
            node.create_object(&json!({ "apiVersion": "v1", "kind": "Secret", "metadata": metadata })).await;
        }
    };
    let left = async || {
        let of = async |name: &str| secrets.get_opt(name).await.unwrap().is_some();
        let of_build = maps.get_opt("build-1").await.unwrap().is_some();
        [of_build, of("of-build").await, of("expired").await, of("kept").await]
    };
    let end = async || {
        maps.delete("config", &DeleteParams::default()).await.unwrap();
        secrets.delete("kept", &DeleteParams::default()).await.unwrap();
    };

    leave().await;
    let planned = kubegc(&["plan", "-n", "default"]);
    let rows: Vec<_> =
        planned.stdout.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for row in [
        "delete ConfigMap default build-1 rule builds",
        "delete Secret default expired janitor/expires 2020-01-01",
        "delete Secret default of-build owner ConfigMap/build-1 absent",
    ] {
        assert!(rows.iter().any(|known| known == row), "{row}: {planned:#?}");
    }
    let dangling = kubegc(&["plan", "-n", "default", "--fail-on", "dangling"]);
    assert_eq!(dangling.code, 0, "no owner is absent: {dangling:#?}");
    let why = kubegc(&["why", "configmap/build-1", "-n", "default"]).stdout;
    assert!(why.contains("ConfigMap.v1/build-1 in namespace default: delete, rule builds"), "{why}");
    assert_eq!(left().await, [true; 4]);
    let collected = kubegc(&["collect", "-n", "default"]);
    assert_eq!((collected.code, left().await), (0, [false, false, false, true]), "{collected:#?}");
    assert!(maps.get_opt("config").await.unwrap().is_some());
    end().await;

    leave().await;
    let (config, kubeconfig) = (file.to_str().unwrap(), node.kubeconfig("admin").display().to_string());
    let args = ["controller", "run", "--owners-only", "--set=controller.address=", "--config", config];
    node.prepare_command(&[&args[..], &["--kubeconfig", &kubeconfig]].concat());
    node.launch(Program::Kubegc);
    let is_collected = becomes_true(async || left().await == [false, false, false, true]).await;
    assert!(is_collected, "{}", node.log_of(Program::Kubegc));
    node.end(Program::Kubegc);
    end().await;
}
