//! Plans of a cluster from a snapshot, for a person and for a gate.

use serde_json::{Value, json};

use crate::shell::Shell;

fn config_map(namespace: &str, name: &str, owner: Option<(&str, &str)>) -> Value {
    let uid = |name: &str| format!("uid-{name}");
    let owner =
        owner.map(|(name, of)| json!({ "api_version": "v1", "kind": "ConfigMap", "name": name, "uid": uid(of) }));
    let owners: Vec<_> = owner.into_iter().collect();
    json!({ "namespace": namespace, "name": name, "uid": uid(name), "owners": owners })
}

/// A cluster with these objects; each owner that no list has is absent.
fn snapshot(config_maps: &[Value], secrets: &Value) -> String {
    let served = |kind: &str, resource: &str| json!({ "api_version": "v1", "kind": kind, "resource": resource, "namespaced": true });
    let listed = |mut served: Value, objects: Value| {
        served["objects"] = objects;
        served
    };
    let owners = config_maps
        .iter()
        .flat_map(|object| object["owners"].as_array().unwrap().iter().map(move |owner| (object, owner)));
    let owners = owners.map(|(object, owner)| {
        let mut read = owner.clone();
        read["namespace"] = object["namespace"].clone();
        read["read_at"] = "2026-11-21T12:00:00Z".into();
        read["answer"] = "not_found".into();
        read
    });
    let kinds = [served("ConfigMap", "configmaps"), served("Secret", "secrets")];
    let resources =
        [listed(kinds[0].clone(), json!({ "seen": config_maps })), listed(kinds[1].clone(), secrets.clone())];
    json!({
        "kind": "kubegc.controller.snapshot", "version": 1, "taken_at": "2026-11-21T12:00:00Z", "server": "https://api.example",
        "served": kinds, "resources": resources, "owners": owners.collect::<Vec<_>>(),
    })
    .to_string()
}

/// A namespace whose deletion cannot end says why, in a plan and by itself.
#[test]
fn a_stuck_namespace_names_its_content() {
    let mut held = config_map("team", "held", None);
    held["finalizers"] = json!(["example.com/hold"]);
    let text = snapshot(&[held, config_map("team", "plain", None)], &json!({ "not_seen": "no answer" }));
    let mut cluster: Value = serde_json::from_str(&text).unwrap();
    let kind = json!({ "api_version": "v1", "kind": "Namespace", "resource": "namespaces", "namespaced": false });
    let mut listed = kind.clone();
    listed["objects"] =
        json!({ "seen": [{ "name": "team", "uid": "uid-team", "deletion_timestamp": "2026-11-21T00:00:00Z" }] });
    cluster["served"].as_array_mut().unwrap().push(kind);
    cluster["resources"].as_array_mut().unwrap().push(listed);
    let shell = Shell::new().with("cluster.json", &cluster.to_string());
    let why = [
        "since 2026-11-21T00:00:00Z",
        "waits for its content: 2 ConfigMap.v1 (in 1 of 2 objects the finalizer example.com/hold)",
        "cannot list in it: secrets",
    ];
    for (command, between) in [(&["plan"][..], "; "), (&["why", "ns/team"], "\n  ")] {
        let text = shell.run(&[&["controller"], command, &["--snapshot", "cluster.json"]].concat());
        assert!(text.contains(&why.join(between)), "{text}");
    }
}

fn all() -> Vec<Value> {
    let mut held = config_map("shop", "held", Some(("gone", "gone")));
    held["finalizers"] = json!(["example.com/hold"]);
    vec![
        config_map("shop", "app", None),
        config_map("lab", "elsewhere", Some(("app", "app"))),
        config_map("shop", "renamed", Some(("application", "app"))),
        config_map("shop", "orphan", Some(("gone", "gone"))),
        config_map("shop", "one", Some(("other", "other"))),
        config_map("shop", "other", Some(("one", "one"))),
        held,
    ]
}

#[test]
fn a_plan_says_at_each_object_what_is_wrong_with_its_reference() {
    let shell = Shell::new().with("cluster.json", &snapshot(&all(), &json!({ "seen": [] })));
    insta::assert_snapshot!(shell.run(&["controller", "plan", "--snapshot", "cluster.json"]), @"
    Cluster: https://api.example

    ACTION  KIND       NAMESPACE  NAME       WHY
    delete  ConfigMap  lab        elsewhere  owner ConfigMap/app is in namespace shop
    delete  ConfigMap  shop       held       owner ConfigMap/gone absent; held by finalizer example.com/hold
    delete  ConfigMap  shop       orphan     owner ConfigMap/gone absent
    delete  ConfigMap  shop       renamed    owner ConfigMap/application is absent, and ConfigMap.v1/app in namespace shop has its uid

    Findings:
    FINDING                     KIND       NAMESPACE  NAME       DETAIL
    owner in another namespace  ConfigMap  lab        elsewhere  owner ConfigMap.v1/app; its uid is that of ConfigMap.v1/app in namespace shop
    owner is another object     ConfigMap  shop       renamed    owner ConfigMap.v1/application; its uid is that of ConfigMap.v1/app in namespace shop
    owners in a cycle           ConfigMap  shop       one
    owners in a cycle           ConfigMap  shop       other

    3 objects to delete; finalizers hold 1 more; kept: 2 owner exists.
    ");
}

#[test]
fn a_plan_has_groups_for_people_and_csv_for_their_lists() {
    let objects: Vec<_> =
        (0..700).map(|number| config_map("shop", &format!("map{number}"), Some(("gone", "gone")))).collect();
    let more = [config_map("lab", "=cmd", Some(("gone", "gone"))), config_map("lab", "other", Some(("lost", "lost")))];
    let shell =
        Shell::new().with("cluster.json", &snapshot(&[objects, more.to_vec()].concat(), &json!({ "seen": [] })));
    let groups = |by: &str| shell.run(&["controller", "plan", "--snapshot", "cluster.json", "--group-by", by]);
    let rows =
        |text: String| text.lines().skip(2).take_while(|line| !line.is_empty()).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(
        rows(groups("owner")),
        [
            "ACTION  OBJECTS  KIND       NAMESPACE  WHY",
            "delete  700      ConfigMap  shop       owner ConfigMap/gone absent",
            "delete  1        ConfigMap  lab        owner ConfigMap/gone absent",
            "delete  1        ConfigMap  lab        owner ConfigMap/lost absent",
        ]
    );
    assert_eq!(
        rows(groups("namespace"))[1..],
        [
            "delete  700      ConfigMap  shop       owner ConfigMap/gone absent",
            "delete  2        ConfigMap  lab        owner ConfigMap/gone absent, owner ConfigMap/lost absent",
        ]
    );
    assert_eq!(rows(groups("kind")).len(), 2);
    let csv = shell.run(&["controller", "plan", "--snapshot", "cluster.json", "-o", "csv"]);
    let lines: Vec<_> = csv.split("\r\n").collect();
    assert_eq!(lines[0], "part,what,api_version,kind,namespace,name,uid,created_at,last_manager,held_by,why");
    assert_eq!(lines.len(), 704);
    let formula = "action,delete,v1,ConfigMap,lab,\"'=cmd\",uid-=cmd,,,,owner ConfigMap/gone absent";
    assert!(lines.contains(&formula), "{}", lines[1]);
}

#[test]
fn a_gate_fails_for_what_is_new_and_proven() {
    let (known, new) =
        (config_map("shop", "orphan", Some(("gone", "gone"))), config_map("shop", "new", Some(("gone", "gone"))));
    let forbidden = json!({ "not_seen": "may not list secrets" });
    let shell = Shell::new()
        .with("known.json", &snapshot(std::slice::from_ref(&known), &json!({ "seen": [] })))
        .with("new.json", &snapshot(&[known, new], &forbidden));
    let known = shell.run(&["controller", "plan", "--snapshot", "known.json", "-o", "json"]);
    let shell = shell.with("baseline.json", &known);
    let plan = |file: &str, more: &[&str]| {
        let text = shell.run(&[&["controller", "plan", "--snapshot", file], more].concat());
        let status = text.lines().next().and_then(|line| line.strip_prefix("exit Some(")?.strip_suffix(')'));
        (status.map_or(0, |status| status.parse().unwrap()), text)
    };
    let of_baseline = ["--fail-on", "dangling", "--baseline", "baseline.json"];
    assert_eq!(plan("known.json", &["--fail-on", "dangling"]).0, 4);
    assert_eq!(plan("known.json", &of_baseline).0, 0);
    let (status, text) = plan("new.json", &of_baseline);
    let cause = "the plan has a condition of --fail-on: dangling; the plan is incomplete: it shows 1 error";
    assert!(status == 4 && text.contains(cause), "what could not be read does not make it uncertain: {text}");
    assert_eq!(plan("new.json", &["--fail-on", "stuck"]).0, 1, "nothing is proven, and not all was read");
    assert_eq!(plan("new.json", &["--fail-on", "unreadable"]).0, 4);
    assert_eq!(plan("known.json", &["--fail-on", "unreadable"]).0, 0);
    assert_eq!(plan("known.json", &["--baseline", "baseline.json"]).0, 2, "it is of use with --fail-on alone");
    let (status, text) = plan("known.json", &["--fail-on", "stuck", "--baseline", "known.json"]);
    assert!(status == 2 && text.contains("known.json is not a plan of a cluster"), "{text}");
}
