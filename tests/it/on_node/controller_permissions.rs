//! `kubegc controller` with the shipped permissions: they allow everything that it does, and it uses all of them.

use std::process::Command;

use k8s_openapi::api::core::v1::{ConfigMap, Event, Namespace};
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use serde_json::{Value, json};

use crate::manifests::{kubectl, rendered, toml};
use crate::rig::{NodeRig, Program, becomes_true, run};

/// Grants the paths that are no resources, such as `/apis`, to every user.
const DISCOVERY: &str = "ClusterRoleBinding \"system:discovery\"";

/// The right to do one thing. `*` = all groups or resources, `None` = all namespaces or names.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Permission {
    verb: String,
    group: String,
    resource: String,
    namespace: Option<String>,
    name: Option<String>,
}

#[tokio::test]
async fn the_collector_uses_exactly_the_permissions_that_it_has() {
    let node = NodeRig::start_api_alone().await;
    install(&node, "controller").await;
    leave_forest(&node).await;

    launch(&node, "controller", &[]);
    let collected = becomes_true(async || differences(&node).await.is_empty()).await;
    assert!(collected, "{:#?}\n{}", differences(&node).await, node.log_of(Program::Kubegc));
    ends_and_has_used_its_permissions(&node, "controller").await;
}

#[tokio::test]
async fn the_collector_of_namespaces_uses_exactly_the_permissions_that_it_has() {
    let node = NodeRig::start_api_alone().await;
    install(&node, "overlays/namespaces").await;
    leave_forest(&node).await;
    let namespaces: Api<Namespace> = Api::all(node.kube());
    let gone: Namespace = serde_json::from_value(json!({ "metadata": { "name": "gone" } })).unwrap();
    namespaces.create(&PostParams::default(), &gone).await.unwrap();
    create(&node, "gone", "content", &[]).await;

    launch(&node, "overlays/namespaces", &[]);
    let collected = becomes_true(async || differences(&node).await.is_empty()).await;
    assert!(collected, "{:#?}\n{}", differences(&node).await, node.log_of(Program::Kubegc));
    namespaces.delete("gone", &DeleteParams::default()).await.unwrap();
    let ended = becomes_true(async || namespaces.get_opt("gone").await.unwrap().is_none()).await;
    assert!(ended, "{}", node.log_of(Program::Kubegc));
    ends_and_has_used_its_permissions(&node, "overlays/namespaces").await;
}

/// With the commands of `docs/cluster-gc.md`.
#[tokio::test]
async fn a_role_that_names_each_resource_suffices() {
    let node = NodeRig::start_api_alone().await;
    install(&node, "controller").await;
    let page = include_str!("../../../docs/cluster-gc.md");
    let commands = page.split("```sh\nresources=").nth(1).unwrap().split("```").next().unwrap();
    let kubectl = format!("{} --kubeconfig {}", kubectl().display(), node.kubeconfig("admin").display());
    let script = format!("set -e\nkubectl() {{ {kubectl} \"$@\"; }}\nresources={commands}");
    run(Command::new("bash").env("HOME", node.dir()).args(["-c", &script]));
    leave_forest(&node).await;

    launch(&node, "controller", &[]);
    let collected = becomes_true(async || differences(&node).await.is_empty()).await;
    assert!(collected, "{:#?}\n{}", differences(&node).await, node.log_of(Program::Kubegc));
    node.end(Program::Kubegc);
    assert!(!node.log_of(Program::Kubegc).contains("forbidden"), "{}", node.log_of(Program::Kubegc));
    let may = |verb: &str, what: &str| {
        let account = "system:serviceaccount:kubegc-system:kubegc-controller";
        let script = format!("{kubectl} auth can-i {verb} {what} -A --as {account} || true");
        run(Command::new("bash").env("HOME", node.dir()).args(["-c", &script])).trim().to_owned()
    };
    let answers = ["pods", "pods --subresource=proxy", "nodes --subresource=proxy"].map(|what| may("get", what));
    assert_eq!(answers, ["yes", "no", "no"]);
}

/// The pod of a missing node is read with its node, gets the phase Failed, and is deleted.
#[tokio::test]
async fn the_pod_collector_uses_exactly_its_permissions() {
    let node = NodeRig::start_api_alone().await;
    install(&node, "overlays/pods-only").await;
    let container = json!({ "name": "app", "image": "app" });
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "orphaned", "namespace": "default" },
        "spec": { "nodeName": "missing", "containers": [container] },
    });
    node.create_object(&pod).await;

    launch(&node, "overlays/pods-only", &["--set=pod_gc.node_quarantine=1s"]);
    let collected = becomes_true(async || node.pod_named("orphaned").await.is_none()).await;
    assert!(collected, "{:#?}\n{}", node.pod_named("orphaned").await, node.log_of(Program::Kubegc));
    ends_and_has_used_its_permissions(&node, "overlays/pods-only").await;
}

/// Starts the Deployment's command with its settings, and with the argument of `components/collect`.
fn launch(node: &NodeRig, within: &str, more: &[&str]) {
    let config = node.write_config("controller", &toml("controller"));
    let kubeconfig = node.kubeconfig("controller").display().to_string();
    let args = args(within, "/spec/template/spec");
    let args: Vec<_> = args.iter().map(String::as_str).collect();
    node.prepare_command(
        &[&args[..], &["--config", &config, "--kubeconfig", &kubeconfig, "--mode=collect"], more].concat(),
    );
    node.launch(Program::Kubegc);
}

async fn ends_and_has_used_its_permissions(node: &NodeRig, within: &str) {
    node.end(Program::Kubegc);
    // The API server logs a watch when it ends.
    let watches = || node.audit().into_iter().filter(|entry| entry["verb"] == "watch").count();
    assert!(becomes_true(async || watches() >= 2).await);
    uses_exactly_its_permissions(node, within);
    assert!(!node.log_of(Program::Kubegc).contains("forbidden"), "{}", node.log_of(Program::Kubegc));
}

#[tokio::test]
async fn the_audit_uses_exactly_the_permissions_that_it_has() {
    let node = NodeRig::start_api_alone().await;
    install(&node, "overlays/audit-only").await;
    create(&node, "default", "dangling", &[owner("absent", "00000000-0000-4000-8000-000000000001", false)]).await;

    let kubeconfig = node.kubeconfig("audit").display().to_string();
    let args = args("overlays/audit-only", "/spec/jobTemplate/spec/template/spec");
    let args: Vec<_> = args.iter().map(String::as_str).collect();
    let ran = node.kubegc(&[&args[..], &["--kubeconfig", &kubeconfig]].concat());
    assert_eq!(ran.code, 4, "{ran:#?}");
    assert_eq!(ran.stderr, "error: the plan has a condition of --fail-on: dangling\n");
    uses_exactly_its_permissions(&node, "overlays/audit-only");
}

/// With these names, the request for an owner would go to a pod of the tenant, to another resource or to a watch (G2).
#[tokio::test]
async fn no_request_leaves_the_paths_of_objects() {
    let node = NodeRig::start_api_alone().await;
    install(&node, "overlays/audit-only").await;
    let mut of_pod = owner("evil:8080/proxy/x", "00000000-0000-4000-8000-000000000001", false);
    of_pod["kind"] = json!("Pod");
    create(&node, "default", "by-proxy", &[of_pod]).await;
    for (name, path) in [("by-watch", "x/configmaps?watch=true&timeoutSeconds=60"), ("by-dots", "../../kube-system/x")]
    {
        create(&node, "default", name, &[owner(path, "00000000-0000-4000-8000-000000000002", false)]).await;
    }

    let kubeconfig = node.kubeconfig("audit").display().to_string();
    let ran = node.kubegc(&["controller", "plan", "-o", "json", "--kubeconfig", &kubeconfig]);
    let admin = node.kubeconfig("admin").display().to_string();
    let collected = node.kubegc(&["controller", "collect", "--kubeconfig", &admin]);
    let requests = node.audit();
    assert!(!requests.is_empty() && ran.code == 0, "{ran:#?}");
    let strange = |request: &&Value| {
        let uri = request["requestURI"].as_str().unwrap_or_default();
        request["objectRef"]["subresource"].is_string() || request["verb"] == "watch" || uri.contains("..")
    };
    assert_eq!(requests.iter().filter(strange).collect::<Vec<_>>(), Vec::<&Value>::new());
    let maps: Api<ConfigMap> = Api::namespaced(node.kube(), "default");
    for name in ["by-proxy", "by-watch", "by-dots"] {
        assert!(maps.get_opt(name).await.unwrap().is_some(), "{name}");
    }
    let reported = collected.stderr.contains("is not an object name, and 2 objects more");
    assert!(collected.code == 1 && reported, "{collected:#?}");
}

/// Creates all objects of a kustomization. This API server has no `CronJob` v1, so its Job takes its place.
async fn install(node: &NodeRig, within: &str) {
    for object in rendered(within) {
        let object = match object["kind"].as_str() {
            Some("CronJob") => json!({
                "apiVersion": "batch/v1", "kind": "Job", "metadata": object["metadata"],
                "spec": object["spec"]["jobTemplate"]["spec"],
            }),
            _ => object,
        };
        node.create_object(&object).await;
    }
}

/// Returns the arguments of the only container.
fn args(within: &str, pod: &str) -> Vec<String> {
    let pods: Vec<_> = rendered(within).iter().filter_map(|object| object.pointer(pod).cloned()).collect();
    let [pod] = &pods[..] else { panic!("{pods:#?}") };
    serde_json::from_value(pod["containers"][0]["args"].clone()).unwrap()
}

// --- The forest: a deletion with each policy, and a reference to an owner in another namespace.

async fn leave_forest(node: &NodeRig) {
    let namespace: Namespace = serde_json::from_value(json!({ "metadata": { "name": "elsewhere" } })).unwrap();
    Api::all(node.kube()).create(&PostParams::default(), &namespace).await.unwrap();
    for (name, delete) in [
        ("background", DeleteParams::background()),
        ("foreground", DeleteParams::foreground()),
        ("orphan", DeleteParams::orphan()),
    ] {
        let uid = create(node, "default", name, &[]).await;
        let blocks = name == "foreground";
        create(node, "default", &format!("{name}-dependent"), &[owner(name, &uid, blocks)]).await;
        maps(node, "default").delete(name, &delete).await.unwrap();
    }
    let uid = create(node, "default", "owner", &[]).await;
    create(node, "elsewhere", "lost", &[owner("owner", &uid, false)]).await;
}

/// Compares the cluster with what a garbage collector leaves of the forest.
async fn differences(node: &NodeRig) -> Vec<String> {
    let mut left = Vec::new();
    for namespace in ["default", "elsewhere"] {
        let list = maps(node, namespace).list(&ListParams::default()).await.unwrap().items;
        let named = list.into_iter().map(|map| (map.metadata.name.unwrap(), map.metadata.owner_references));
        let of_us = named.filter(|(name, _)| name != "kube-root-ca.crt");
        left.extend(of_us.map(|(name, owners)| (name, owners.unwrap_or_default().len())));
    }
    let events: Api<Event> = Api::namespaced(node.kube(), "elsewhere");
    let events = events.list(&ListParams::default().fields("reason=OwnerRefInvalidNamespace")).await.unwrap().items;
    let about: Vec<_> = events.into_iter().filter_map(|event| event.involved_object.name).collect();
    let mut different = Vec::new();
    if left != [("orphan-dependent".to_owned(), 0), ("owner".to_owned(), 0)] {
        different.push(format!("objects with numbers of owners: {left:?}"));
    }
    if about != ["lost"] {
        different.push(format!("events: {about:?}"));
    }
    different
}

fn maps(node: &NodeRig, namespace: &str) -> Api<ConfigMap> {
    Api::namespaced(node.kube(), namespace)
}

/// Creates a ConfigMap and returns its uid.
async fn create(node: &NodeRig, namespace: &str, name: &str, owners: &[Value]) -> String {
    let object = json!({ "metadata": { "name": name, "ownerReferences": owners } });
    let object: ConfigMap = serde_json::from_value(object).unwrap();
    maps(node, namespace).create(&PostParams::default(), &object).await.unwrap().metadata.uid.unwrap()
}

fn owner(name: &str, uid: &str, blocks: bool) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid, "blockOwnerDeletion": blocks })
}

// --- Permissions

fn uses_exactly_its_permissions(node: &NodeRig, within: &str) {
    let (granted, used) = (granted(within), used(node));
    let unproven: Vec<_> = used.iter().filter(|used| !granted.iter().any(|granted| granted.covers(used))).collect();
    assert!(unproven.is_empty(), "done, but not by a permission of the manifests: {unproven:#?}");
    let by_use: Vec<_> = used.iter().filter_map(|used| narrowest(&granted, used)).collect();
    let unused: Vec<_> = granted.iter().filter(|granted| !by_use.contains(granted)).collect();
    assert!(unused.is_empty(), "granted for nothing: {unused:#?}; used are {used:#?}");
}

/// Returns the permission that a use needs. It is no use of a wider one, such as that for all resources.
fn narrowest<'a>(granted: &'a [Permission], used: &Permission) -> Option<&'a Permission> {
    let width = |it: &&Permission| {
        let limits = [it.group != "*", it.resource != "*", it.namespace.is_some(), it.name.is_some()];
        limits.into_iter().filter(|is_limited| !is_limited).count()
    };
    granted.iter().filter(|granted| granted.covers(used)).min_by_key(width)
}

/// Returns the permissions in the manifests.
fn granted(within: &str) -> Vec<Permission> {
    let roles = rendered(within).into_iter().filter(|object| object["rules"].is_array());
    roles.flat_map(|role| permissions(&role)).collect()
}

fn permissions(role: &Value) -> Vec<Permission> {
    let words = |list: &Value| -> Vec<String> { serde_json::from_value(list.clone()).unwrap() };
    let mut permissions = Vec::new();
    for rule in role["rules"].as_array().unwrap() {
        let names: Vec<_> = match &rule["resourceNames"] {
            Value::Null => vec![None],
            names => words(names).into_iter().map(Some).collect(),
        };
        for verb in words(&rule["verbs"]) {
            for group in words(&rule["apiGroups"]) {
                for resource in words(&rule["resources"]) {
                    permissions.extend(names.iter().map(|name| Permission {
                        verb: verb.clone(),
                        group: group.clone(),
                        resource: resource.clone(),
                        namespace: role["metadata"]["namespace"].as_str().map(str::to_owned),
                        name: name.clone(),
                    }));
                }
            }
        }
    }
    permissions
}

/// Returns the permissions that were used, each once.
fn used(node: &NodeRig) -> Vec<Permission> {
    let audit = node.audit();
    let is_allowed = |entry: &&Value| {
        entry["annotations"]["authorization.k8s.io/decision"] == "allow" && entry["responseStatus"]["code"] != 403
    };
    let refused: Vec<_> = audit
        .iter()
        .filter(|entry| !is_allowed(entry))
        .map(|entry| (&entry["verb"], &entry["requestURI"], &entry["responseStatus"]))
        .collect();
    assert!(refused.is_empty(), "{refused:#?}");
    let is_discovery = |entry: &&Value| {
        let reason = &entry["annotations"]["authorization.k8s.io/reason"];
        reason.as_str().is_some_and(|reason| reason.contains(DISCOVERY))
    };
    let mut used: Vec<_> = audit.iter().filter(|entry| !is_discovery(entry)).map(permission).collect();
    used.sort();
    used.dedup();
    used
}

fn permission(entry: &Value) -> Permission {
    let object = &entry["objectRef"];
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let resource = text(&object["resource"]).or(text(&entry["requestURI"])).unwrap();
    Permission {
        verb: text(&entry["verb"]).unwrap(),
        group: text(&object["apiGroup"]).unwrap_or_default(),
        resource: text(&object["subresource"]).map(|part| format!("{resource}/{part}")).unwrap_or(resource),
        namespace: text(&object["namespace"]),
        name: text(&object["name"]),
    }
}

// === impl Permission ===

impl Permission {
    /// Says whether a role with this permission allows the other one.
    fn covers(&self, used: &Self) -> bool {
        let word = |granted: &str, used: &str| granted == "*" || granted == used;
        let place = |granted: &Option<String>, used: &Option<String>| granted.is_none() || granted == used;
        self.verb == used.verb
            && word(&self.group, &used.group)
            && word(&self.resource, &used.resource)
            && place(&self.namespace, &used.namespace)
            && place(&self.name, &used.name)
    }
}
