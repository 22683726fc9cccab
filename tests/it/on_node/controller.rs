//! `kubegc controller plan` and `why` on a real API server, without any controller beside it.

mod by_rules;
mod control_planes;
mod reported;
mod since_1_36;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use by_rules::rules_delete_objects_by_their_metadata_and_age;
use control_planes::each_way_on_the_page_collects_with_its_permissions;
use reported::{names_of_any_kind_give_rows_of_equal_length, owners_of_every_group_get_their_dependents_again};

use crate::rig::{NodeRig, Program, becomes_true, scenarios};

/// Creates a ConfigMap in the namespace `default` and returns its uid.
async fn create(node: &NodeRig, name: &str, owners: &[Value]) -> String {
    let object = json!({"metadata": {"name": name, "ownerReferences": owners}});
    let object: ConfigMap = serde_json::from_value(object).unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(node.kube(), "default");
    maps.create(&PostParams::default(), &object).await.unwrap().metadata.uid.unwrap()
}

fn owner(name: &str, uid: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid})
}

/// An owner that never existed.
fn absent() -> Value {
    owner("absent", "00000000-0000-4000-8000-000000000001")
}

fn controller(node: &NodeRig, args: &[&str]) -> crate::rig::Ran {
    let kubeconfig = node.kubeconfig("admin").display().to_string();
    let args = [&["controller"][..], args, &["--kubeconfig", &kubeconfig]].concat();
    node.kubegc(&args)
}

fn names(plan: &Value, list: &str) -> Vec<String> {
    let of_test = plan[list].as_array().unwrap().iter().filter(|entry| entry["object"]["namespace"] == "default");
    of_test.map(|entry| entry["object"]["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn plans_explanations_and_documents() {
    let node = NodeRig::start_api_alone().await;
    node.play(&scenarios![
        a_plan_shows_what_would_be_deleted_and_what_follows_and_changes_nothing,
        why_shows_the_owners_above_and_the_dependents_below_and_what_a_deletion_would_do,
        a_snapshot_gives_the_same_plan_without_the_api_server,
        every_document_follows_its_schema,
        what_may_not_be_read_is_named_and_deletes_nothing,
        permissions_in_a_namespace_are_enough_for_its_plan,
        flags_limit_a_plan_and_a_collection_to_some_objects,
        a_plan_has_the_pods_that_no_kubelet_finishes_once,
        saved_objects_can_be_created_again,
        rules_delete_objects_by_their_metadata_and_age,
        a_restored_owner_has_its_dependents_again,
        names_of_any_kind_give_rows_of_equal_length,
        owners_of_every_group_get_their_dependents_again,
        each_way_on_the_page_collects_with_its_permissions,
        whatever_means_to_remove_nothing_does,
        the_status_says_whether_the_api_server_collects_and_who_leads
    ])
    .await;
}

async fn a_plan_shows_what_would_be_deleted_and_what_follows_and_changes_nothing(node: &NodeRig) {
    let parent = create(node, "parent", &[]).await;
    create(node, "child", &[owner("parent", &parent)]).await;
    let dangling = create(node, "dangling", &[absent()]).await;
    create(node, "below", &[owner("dangling", &dangling)]).await;
    create(node, "half", &[absent(), owner("parent", &parent)]).await;
    create(node, "other-name", &[owner("another-name", &parent)]).await;
    create(node, "list-kind", &[json!({"apiVersion": "v1", "kind": "ConfigMapList", "name": "parent", "uid": parent})])
        .await;
    create(
        node,
        "old-version",
        &[json!({"apiVersion": "apps/v1beta7", "kind": "Deployment", "name": "x", "uid": "u"})],
    )
    .await;

    let ran = controller(node, &["plan", "-o", "json"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let plan: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(names(&plan, "actions"), ["dangling", "half", "other-name"]);
    assert_eq!(names(&plan, "predicted"), ["below"]);
    assert_eq!(names(&plan, "kept"), ["below", "child", "list-kind", "old-version"]);
    let findings: Vec<_> =
        plan["findings"].as_array().unwrap().iter().map(|finding| finding["kind"].as_str().unwrap()).collect();
    assert_eq!(findings, ["kind_not_served", "kind_not_served", "wrong_owner"]);
    let evidence = plan["actions"][0]["owners"][0]["evidence"].as_str().unwrap();
    assert!(
        evidence.starts_with("the API server answered NotFound for ConfigMap.v1/absent in namespace default"),
        "{evidence}"
    );

    let failed = controller(node, &["plan", "--fail-on", "unresolvable,stuck"]);
    assert_eq!(failed.code, 4, "{}", failed.stderr);
    assert!(failed.stderr.ends_with("the plan has a condition of --fail-on: unresolvable\n"), "{}", failed.stderr);
    let maps: Api<ConfigMap> = Api::namespaced(node.kube(), "default");
    assert_eq!(maps.list(&ListParams::default()).await.unwrap().items.len(), 8);
}

async fn why_shows_the_owners_above_and_the_dependents_below_and_what_a_deletion_would_do(node: &NodeRig) {
    let parent = create(node, "parent", &[]).await;
    let child = create(node, "child", &[owner("parent", &parent)]).await;
    create(node, "grandchild", &[owner("child", &child)]).await;

    let ran = controller(node, &["why", "configmap/child", "-n", "default"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let expected = "ConfigMap.v1/child in namespace default: keep, owner exists\n\
        Owners:\n└─ ConfigMap.v1/parent: exists, in the list of its resource\n\
        Dependents:\n└─ ConfigMap.v1/grandchild\n";
    assert_eq!(ran.stdout, expected);
    let ran = controller(node, &["why", "configmap/parent", "--if-deleted", "background", "-o", "json"]);
    let answer: Value = serde_json::from_str(&ran.stdout).unwrap();
    let then: Vec<_> =
        answer["if_deleted"].as_array().unwrap().iter().map(|action| action["object"]["name"].clone()).collect();
    assert_eq!(then, ["child", "grandchild"]);
    assert_eq!(controller(node, &["why", "configmap/nothing"]).code, 2);
    assert_eq!(controller(node, &["why", "nothing"]).code, 2);
}

async fn a_snapshot_gives_the_same_plan_without_the_api_server(node: &NodeRig) {
    create(node, "dangling", &[absent()]).await;
    let snapshot = controller(node, &["snapshot"]);
    assert_eq!(snapshot.code, 0, "{}", snapshot.stderr);
    let file = node.write_config("snapshot", &snapshot.stdout);
    node.end(Program::ApiServer);
    let ran = controller(node, &["plan", "--snapshot", &file, "-o", "json"]);
    let plan: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(names(&plan, "actions"), ["dangling"]);
    let down = controller(node, &["plan"]);
    assert_eq!(down.code, 3, "{}", down.stderr);
    assert!(down.stderr.contains("the API server cannot be reached"), "{}", down.stderr);
    node.begin(Program::ApiServer).await;
}

async fn the_status_says_whether_the_api_server_collects_and_who_leads(node: &NodeRig) {
    let status = controller(node, &["status", "-o", "json"]);
    assert_eq!(status.code, 0, "{}", status.stderr);
    let document: Value = serde_json::from_str(&status.stdout).unwrap();
    is_valid("cluster-status", &document);
    let version = document["server_version"]["seen"].as_str();
    assert!(version.is_some_and(|version| version.starts_with('v')), "{version:?}");
    assert_eq!(document["garbage_collection"]["seen"], true);
    assert_eq!(document["collectors"][0]["leader"], json!({"seen": null}));
    let (all, collected) = (&document["resources"], &document["collected_resources"]);
    assert!(all.as_u64() > collected.as_u64() && collected.as_u64() > Some(40), "{document:#}");
    let maps: Api<ConfigMap> = Api::namespaced(node.kube(), "kube-system");
    let known = maps.get("extension-apiserver-authentication").await.unwrap();
    assert_eq!(known.metadata.deletion_timestamp, None, "the deletion is a dry run");

    lead(node).await;
    node.end(Program::ApiServer);
    node.add_flag(Program::ApiServer, "--enable-garbage-collector=false");
    node.begin(Program::ApiServer).await;
    let status = controller(node, &["status"]);
    assert_eq!(status.code, 1, "{}", status.stderr);
    assert!(status.stdout.contains("Garbage collection:      disabled in the API server\n"), "{}", status.stdout);
    assert!(status.stderr.contains("--enable-garbage-collector=false"), "{}", status.stderr);
    let leader = "kube-controller-manager: active, leader host-1, lease kube-system/kube-controller-manager renewed ";
    assert!(status.stdout.contains(leader), "{}", status.stdout);
    assert!(maps.get_opt("extension-apiserver-authentication").await.unwrap().is_some());
}

/// Each flag and setting, with each command that deletes.
async fn whatever_means_to_remove_nothing_does(node: &NodeRig) {
    create(node, "observed", &[absent()]).await;
    let config = node.dir().join("observe.toml");
    std::fs::write(&config, "mode = \"observe\"\n").unwrap();
    let config = format!("--config={}", config.display());
    let ways = ["--dry-run", "--mode=observe", "--set=mode=observe", &config];
    for way in ways {
        for what in [&[][..], &["--pods-only"]] {
            let collected = controller(node, &[&["collect", way][..], what].concat());
            let expected = i32::from(way != "--dry-run");
            assert_eq!(collected.code, expected, "{way}: {}", collected.stderr);
            assert!(expected == 0 || collected.stderr.contains("nothing was removed"), "{way}: {}", collected.stderr);
        }
        let running = node.controller(&format!("observing-{}", way.len()), &[way]);
        let would = async || running.log().lines().any(|line| line.contains("/observed") && line.contains("dry_run"));
        assert!(becomes_true(would).await, "{way}: {}", running.log());
        assert_eq!(running.terminate(), 0);
    }
    let maps: Api<ConfigMap> = Api::namespaced(node.kube(), "default");
    assert!(maps.get_opt("observed").await.unwrap().is_some());
}

/// Writes the Lease of kube-controller-manager, as its leader does.
async fn lead(node: &NodeRig) {
    let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime(jiff::Timestamp::now());
    let spec = json!({"holderIdentity": "host-1", "leaseDurationSeconds": 3600, "renewTime": now});
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": spec,
        "metadata": {"name": "kube-controller-manager", "namespace": "kube-system"}});
    node.create_object(&lease).await;
}

/// Asserts that a document follows the schema that `kubegc config schema` prints.
fn is_valid(document: &str, value: &Value) {
    let schema = assert_cmd::Command::new(env!("CARGO_BIN_EXE_kubegc"))
        .args(["config", "schema", document])
        .output()
        .unwrap()
        .stdout;
    let schema = jsonschema::validator_for(&serde_json::from_slice(&schema).unwrap()).unwrap();
    let errors: Vec<_> = schema.iter_errors(value).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{document}: {errors:?}");
    assert!(!schema.is_valid(&json!({"kind": "Other"})), "{document}: anything is valid");
}

async fn every_document_follows_its_schema(node: &NodeRig) {
    let parent = create(node, "parent", &[]).await;
    create(node, "child", &[owner("parent", &parent)]).await;
    create(node, "dangling", &[absent(), owner("other-name", &parent)]).await;
    let rows: [(&str, &[&str]); 7] = [
        ("cluster-snapshot", &["snapshot"]),
        ("cluster-plan", &["plan", "-o", "json"]),
        ("cluster-explanation", &["why", "configmap/child", "--if-deleted", "foreground", "-o", "json"]),
        ("cluster-report", &["collect", "-o", "json"]),
        ("relink-report", &["relink", "--dry-run", "-o", "json"]),
        ("pod-plan", &["plan", "--pods-only", "-o", "json"]),
        ("pod-report", &["collect", "--pods-only", "-o", "json"]),
    ];
    for (schema, args) in rows {
        let ran = controller(node, args);
        assert_eq!(ran.code, 0, "{args:?}: {}", ran.stderr);
        is_valid(schema, &serde_json::from_str(&ran.stdout).unwrap());
    }
}

/// Reading is not allowed, so nothing counts as absent.
async fn what_may_not_be_read_is_named_and_deletes_nothing(node: &NodeRig) {
    create(node, "dangling", &[absent()]).await;
    let kubeconfig = node.kubeconfig("restricted").display().to_string();
    let ran = node.kubegc(&["controller", "plan", "-o", "json", "--kubeconfig", &kubeconfig]);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    let plan: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(names(&plan, "actions"), [""; 0]);
    let errors: Vec<_> = plan["errors"].as_array().unwrap().iter().map(|error| error.as_str().unwrap()).collect();
    assert!(errors.iter().any(|error| error.starts_with("may not list configmaps (v1): ")), "{errors:?}");
    let missing = node.kubegc(&["controller", "plan", "--kubeconfig", "/nowhere"]);
    assert_eq!(missing.code, 2, "nothing but the configuration can help");
    assert!(missing.stderr.contains("kubeconfig /nowhere does not exist"), "{}", missing.stderr);
}

async fn permissions_in_a_namespace_are_enough_for_its_plan(node: &NodeRig) {
    create(node, "dangling", &[absent()]).await;
    let all = json!({ "apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"] });
    node.grant_in("default", "restricted", vec![serde_json::from_value(all).unwrap()]).await;
    let kubeconfig = node.kubeconfig("restricted").display().to_string();
    let plan = |more: &[&str]| {
        node.kubegc(&[&["controller", "plan", "-o", "json", "--kubeconfig", &kubeconfig], more].concat())
    };
    assert_eq!(plan(&[]).code, 1, "it may not list the others");
    let ran = plan(&["-n", "default"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let plan: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((names(&plan, "actions"), &plan["errors"]), (vec!["dangling".to_owned()], &json!([])));
    let why = |args: &[&str]| {
        let kubeconfig = ["--kubeconfig", &kubeconfig];
        node.kubegc(&[&["controller", "why", "configmap/dangling"], args, &kubeconfig].concat())
    };
    let ran = why(&["-n", "default"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stdout.contains("delete, owners absent"), "{}", ran.stdout);
    assert_ne!(why(&[]).code, 0, "it may not list the others");
}

/// Neither `plan` nor `collect` shows or changes anything else.
async fn flags_limit_a_plan_and_a_collection_to_some_objects(node: &NodeRig) {
    let kubeconfig = node.kubeconfig("restricted").display().to_string();
    let all = json!({ "apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "patch", "delete"] });
    node.grant_in("default", "restricted", vec![serde_json::from_value(all).unwrap()]).await;
    for name in ["one", "two", "three", "four"] {
        create(node, name, &[absent()]).await;
    }
    let maps: Api<ConfigMap> = Api::namespaced(node.kube(), "default");
    for name in ["one", "two"] {
        let label = json!({ "metadata": { "labels": { "app": name } } });
        maps.patch(name, &PatchParams::default(), &Patch::Merge(&label)).await.unwrap();
    }
    let planned = |args: &[&str]| {
        let mut names = names(&controller(node, &[&["plan", "-o", "json"], args].concat()).json(), "actions");
        names.sort();
        names
    };
    let wide = controller(node, &["plan", "-L", "app"]).stdout;
    let row = wide.lines().find(|line| line.contains("one")).unwrap_or_default().split_whitespace().collect::<Vec<_>>();
    assert!(row.contains(&"app=one") && wide.contains("CHANGED BY"), "{wide}");
    assert_eq!(planned(&["-l", "app"]), ["one", "two"]);
    assert_eq!(planned(&["-l", "app=one"]), ["one"]);
    assert_eq!(planned(&["--only", "secrets"]), [""; 0]);
    assert_eq!(planned(&["--ignore", "secrets", "-n", "default"]), ["four", "one", "three", "two"]);
    let file = node.dir().join("cluster-plan.json");
    std::fs::write(&file, controller(node, &["plan", "-o", "json", "-l", "app=one"]).stdout).unwrap();
    assert_eq!(planned(&["--plan", file.to_str().unwrap()]), ["one"]);

    let collect = async |args: &[&str]| {
        let ran =
            node.kubegc(&[&["controller", "collect", "-n", "default", "--kubeconfig", &kubeconfig], args].concat());
        assert_eq!(ran.code, 0, "{ran:#?}");
        let left = maps.list(&ListParams::default()).await.unwrap().items.into_iter().filter_map(|it| it.metadata.name);
        left.filter(|name| ["one", "two", "three", "four"].contains(&&**name)).collect::<Vec<_>>()
    };
    assert_eq!(collect(&["--only", "secrets"]).await, ["four", "one", "three", "two"]);
    assert_eq!(collect(&["--plan", file.to_str().unwrap()]).await, ["four", "three", "two"]);
    assert_eq!(collect(&["-l", "app=two"]).await, ["four", "three"]);
    assert_eq!(collect(&["--ignore", "configmaps"]).await, ["four", "three"]);
    assert_eq!(collect(&[]).await, [""; 0]);
}

async fn a_plan_has_the_pods_that_no_kubelet_finishes_once(node: &NodeRig) {
    for (name, owners) in [("garbage-pod", vec![absent()]), ("orphaned-pod", Vec::new())] {
        let pod = json!({ "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": name, "namespace": "default", "ownerReferences": owners },
            "spec": { "nodeName": "deleted", "automountServiceAccountToken": false,
                "containers": [{ "name": "a", "image": "example.com/a" }] } });
        node.create_object(&pod).await;
    }
    let plan = |args: &[&str]| {
        let ran = controller(node, &[&["plan", "--set=pod_gc.node_quarantine=0s"][..], args].concat());
        assert_eq!(ran.code, 0, "{ran:#?}");
        ran
    };
    let pods = |args: &[&str]| {
        let plan = plan(&[args, &["-o", "json"]].concat()).json();
        is_valid("cluster-plan", &plan);
        let pods = plan["pods"]["actions"].as_array()?.iter().map(|pod| pod["name"].as_str().unwrap().to_owned());
        Some((names(&plan, "actions"), pods.collect::<Vec<_>>()))
    };
    let (garbage, orphaned) = (vec!["garbage-pod".to_owned()], vec!["orphaned-pod".to_owned()]);
    assert_eq!(pods(&[]), Some((garbage.clone(), orphaned.clone())));
    assert_eq!(pods(&["-n", "default", "--only", "pods"]), Some((garbage, orphaned.clone())));
    assert_eq!(pods(&["-l", "app=none"]), Some((vec![], vec![])));
    assert_eq!(pods(&["-n", "kube-system"]), Some((vec![], vec![])));
    assert_eq!(pods(&["--ignore", "pods"]), None);
    assert_eq!(pods(&["--owners-only"]), None);
    let table = plan(&[]).stdout;
    let (objects, pods) =
        table.split_once("\n\nOrphaned, unscheduled and surplus terminated pods:\n").unwrap_or_default();
    assert!(objects.ends_with('.') && objects.contains("\n1 object to delete"), "{table}");
    assert!(pods.contains("orphaned-pod  deleted  node deleted") && pods.ends_with("\n1 pod to delete.\n"), "{table}");
    let names = plan(&["-o", "name"]).stdout;
    assert_eq!(names, "pod/garbage-pod\npod/orphaned-pod\n");
    let csv = plan(&["-o", "csv"]).stdout;
    assert!(csv.contains("\r\npod,\"mark failed, delete\",v1,Pod,default,orphaned-pod,"), "{csv}");

    // Pods and nodes of a whole cluster may not be read.
    let all = json!({ "apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"] });
    node.grant_in("default", "restricted", vec![serde_json::from_value(all).unwrap()]).await;
    let kubeconfig = node.kubeconfig("restricted").display().to_string();
    let ran = node.kubegc(&["controller", "plan", "-n", "default", "--kubeconfig", &kubeconfig]);
    assert_eq!((ran.code, ran.stdout.contains("1 object to delete")), (0, true), "{ran:#?}");
    assert!(
        ran.stderr.contains("orphaned, unscheduled and surplus terminated pods are not planned: ")
            && ran.stderr.contains("list pods"),
        "{ran:#?}"
    );
}

/// `kubectl create -f` creates what was deleted again.
async fn saved_objects_can_be_created_again(node: &NodeRig) {
    let gone = absent();
    create(node, "saved", std::slice::from_ref(&gone)).await;
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "stringData": { "password": "hunter2" },
        "metadata": { "name": "saved", "namespace": "default", "ownerReferences": [gone] } });
    node.create_object(&secret).await;
    let directory = node.dir().join("saved");
    let history = ["--controller-history".to_owned(), node.dir().join("controller.jsonl").display().to_string()];
    let history = [&*history[0], &history[1]];
    let ran = controller(
        node,
        &[&["collect", "-n", "default", "--save", directory.to_str().unwrap()][..], &history].concat(),
    );
    assert_eq!(ran.code, 0, "{ran:#?}");
    let past = controller(node, &[&["history", "-n", "default"][..], &history].concat()).stdout;
    let rows: Vec<_> =
        past.lines().skip(1).map(|line| line.split_whitespace().skip(1).collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(rows.len(), 2, "{past}");
    let row = "controller collect delete Secret default saved removed owners absent: ConfigMap/absent";
    assert!(rows.iter().any(|it| it == row), "{past}");
    let text = |name: &str| std::fs::read_to_string(directory.join(name)).unwrap();
    assert!(!text("Secret_default_saved.json").contains("password"), "{}", text("Secret_default_saved.json"));
    let maps: Api<ConfigMap> = Api::namespaced(node.kube(), "default");
    assert!(maps.get_opt("saved").await.unwrap().is_none());
    let mut create = std::process::Command::new(crate::manifests::kubectl());
    create.args(["create", "-f", directory.to_str().unwrap(), "--kubeconfig"]).arg(node.kubeconfig("admin"));
    crate::rig::run(create.env("HOME", node.dir()));
    assert!(maps.get_opt("saved").await.unwrap().is_some());
    assert_eq!(
        controller(node, &["collect", "-n", "default"]).stdout,
        "0 objects deleted, 0 changed.\n",
        "no owner is absent"
    );

    // An object that cannot be saved stays.
    create_dangling(node, "unsaved").await;
    let file = node.dir().join("a-file");
    std::fs::write(&file, "").unwrap();
    let ran = controller(node, &["collect", "-n", "default", "--save", "/proc/self", "--timeout", "10s"]);
    assert!(ran.code == 1 && ran.stderr.contains("cannot save \"unsaved\""), "{ran:#?}");
    assert!(maps.get_opt("unsaved").await.unwrap().is_some());
    let ran = controller(node, &["collect", "--save", file.to_str().unwrap()]);
    assert_eq!(ran.code, 2, "{ran:#?}");
}

/// With the permissions to read and to patch alone.
async fn a_restored_owner_has_its_dependents_again(node: &NodeRig) {
    let kubeconfig = node.kubeconfig("restricted").display().to_string();
    let all = json!({ "apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "patch"] });
    node.grant_in("default", "restricted", vec![serde_json::from_value(all).unwrap()]).await;
    let restored = create(node, "restored", &[]).await;
    let mut stale = owner("restored", "00000000-0000-4000-8000-000000000002");
    (stale["controller"], stale["blockOwnerDeletion"]) = (true.into(), true.into());
    create(node, "child", &[absent(), stale]).await;
    create(node, "child-of-both", &[owner("restored", &restored), owner("restored", "before")]).await;
    let maps: Api<ConfigMap> = Api::namespaced(node.kube(), "default");
    let relink = |args: &[&str]| {
        let to = ["controller", "relink", "-n", "default", "--kubeconfig", &kubeconfig];
        let ran = node.kubegc(&[&to[..], args].concat());
        assert_eq!(ran.code, 0, "{ran:#?}");
        ran.stdout
    };
    assert_eq!(names(&controller(node, &["plan", "-o", "json"]).json(), "actions"), ["child", "child-of-both"]);
    let before = maps.get("child").await.unwrap();
    let shown = relink(&["--dry-run"]);
    let row = shown.lines().find(|line| line.contains(" child ")).unwrap_or_default();
    let row: Vec<_> = row.split_whitespace().collect();
    let old = "00000000-0000-4000-8000-000000000002";
    assert_eq!(row, ["ConfigMap", "default", "child", "ConfigMap/restored", old, &*restored, "dry", "run"], "{shown}");
    assert!(shown.ends_with("\n1 reference would be relinked, 1 skipped.\n"), "{shown}");
    assert_eq!(maps.get("child").await.unwrap(), before);
    assert_eq!(relink(&["-o", "name"]), "configmap/child\n");
    let mut expected = before;
    expected.metadata.owner_references.as_mut().unwrap()[1].uid = restored;
    let mut now = maps.get("child").await.unwrap();
    (now.metadata.resource_version, now.metadata.managed_fields) =
        (expected.metadata.resource_version.clone(), expected.metadata.managed_fields.clone());
    assert_eq!(now, expected, "nothing else has changed");
    assert!(relink(&[]).ends_with("\n0 references relinked, 1 skipped.\n"));
    let plan = controller(node, &["plan", "-o", "json"]).json();
    let words = plan["actions"].as_array().unwrap().iter().map(|it| it["action"].as_str().unwrap());
    assert_eq!(words.collect::<Vec<_>>(), ["drop_references", "drop_references"], "{plan:#}");
}

async fn create_dangling(node: &NodeRig, name: &str) {
    create(node, name, &[absent()]).await;
}
