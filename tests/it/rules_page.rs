//! Each rule of docs/rules.md decides a node as the page says, with the binary: `plan --snapshot FILE --config FILE`.

use std::collections::BTreeMap;

use kubegc::plan::{KeepReason, Plan, RemoveReason, RuleReason};
use serde_json::{Value, json};

use crate::shell::Shell;

const PAGE: &str = include_str!("../../docs/rules.md");
const FAULTY: &str = "sha256:6b245f040973ac6cd3fa8f0c5b7e3b1c5e2d8f3c0a7a2f6e4b9d1c8e7f6a5b4c";
const GIB: u64 = 1 << 30;

/// The name of each rule, what it keeps and what it removes, by the last part of the id.
const ROWS: &[(&str, &str, &str)] = &[
    ("base images stay", "base", ""),
    ("old images of builds", "", "b1"),
    ("imported images stay", "imported", ""),
    ("the shop starts quickly", "shop", ""),
    ("marked by its builder", "marked", ""),
    ("slow pulls", "base", ""),
    ("only our registry", "", "imported outside"),
    ("large images", "", "large"),
    ("pulled and never used", "", "never"),
    ("stale builds", "", "stale"),
    ("built on the faulty base", "", "faulty"),
    ("pre-releases on build nodes", "", "pre"),
    (
        "a day on the nodes of the build pool",
        "base faulty imported marked outside pre shop stale",
        "b1 b2 b3 b4 large never",
    ),
    ("ci keeps nothing", "", "ci0 ci1"),
    ("dead containers of the lab", "lab1 lab2", ""),
    ("out of memory", "oom", ""),
    ("large dead containers", "", "big0"),
    ("budget of builds", "", "b1 b2"),
    ("sandboxes of jobs", "job0", ""),
    ("logs of payments", "payments_gone_u9", ""),
    ("failed jobs", "ci_report_u10", ""),
    ("old checkpoints", "", "checkpoint-old.tar"),
];

fn hours_ago(hours: i64) -> String {
    let now: jiff::Timestamp = "2026-11-26T12:00:00Z".parse().unwrap();
    (now - jiff::SignedDuration::from_hours(hours)).to_string()
}

/// An image without users: its name, when it was built, for how many hours it is unused, and other fields.
fn image(id: &str, name: &str, built: &str, unused: i64, more: &Value) -> [Value; 3] {
    let digest = format!("{}@sha256:00", name.split(':').next().unwrap());
    let mut listed = json!({ "id": format!("sha256:{id}"), "tags": [name], "digests": [digest], "size_bytes": 100 });
    let mut details = json!({ "created_at": format!("{built}T00:00:00Z"), "labels": {}, "layers": ["sha256:11"] });
    let mut past =
        json!({ "id": format!("sha256:{id}"), "first_seen": hours_ago(unused), "last_used": hours_ago(unused) });
    for (part, fields) in [("listed", &mut listed), ("details", &mut details), ("past", &mut past)] {
        let more = more.get(part).and_then(Value::as_object).into_iter().flatten();
        fields.as_object_mut().unwrap().extend(more.map(|(key, value)| (key.clone(), value.clone())));
    }
    [listed, json!({ (format!("sha256:{id}")): { "seen": details } }), past]
}

fn images() -> Vec<[Value; 3]> {
    let none = json!({});
    let build = |n: i64| {
        let (name, built) = (format!("registry.example.com/build/app:{n}"), format!("2026-10-0{n}"));
        image(&format!("b{n}"), &name, &built, 100, &json!({ "listed": { "size_bytes": GIB } }))
    };
    let x = |id: &str, more: &Value| image(id, &format!("registry.example.com/x/{id}:1"), "2026-11-01", 2, more);
    let mut images: Vec<_> = (1..=4).map(build).collect();
    images.extend([
        image("base", "registry.example.com/base/os:1", "2026-11-01", 2, &none),
        image("imported", "docker.io/library/imported:1", "2026-11-01", 2, &json!({ "listed": { "digests": [] } })),
        image(
            "shop",
            "registry.example.com/shop/web:1",
            "2026-11-01",
            20,
            &json!({ "past": { "last_used_by": "shop/web/web" } }),
        ),
        image("outside", "docker.io/library/nginx:1", "2026-11-01", 2, &none),
        image(
            "large",
            "registry.example.com/ml/train:1",
            "2026-11-01",
            30,
            &json!({ "listed": { "size_bytes": 6 * GIB } }),
        ),
        image("pre", "registry.example.com/x/app:2.0-rc1", "2026-11-01", 2, &none),
        x("marked", &json!({ "details": { "labels": { "com.example.keep": "1" } } })),
        x("never", &json!({ "past": { "first_seen": hours_ago(500), "last_used": null } })),
        x("stale", &json!({ "details": { "created_at": "2026-01-01T00:00:00Z" } })),
        x("faulty", &json!({ "details": { "layers": ["sha256:11", FAULTY] } })),
    ]);
    images
}

fn pod(name: &str) -> Value {
    let (namespace, name) = name.split_once('/').unwrap();
    json!({ "uid": format!("u-{name}"), "namespace": namespace, "name": name })
}

fn container(pod_name: &str, id: &str, attempt: u32, hours: i64, more: &Value) -> Value {
    let mut container = json!({
        "id": id, "sandbox_id": format!("s-{id}"), "pod": pod(pod_name), "name": "app", "attempt": attempt, "state": "exited",
        "created_at": hours_ago(hours), "finished_at": hours_ago(hours), "exit_code": 0, "log_bytes": 10,
    });
    container.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    container
}

fn listed_pod(name: &str, owner: &str) -> Value {
    let mut pod = pod(name);
    pod["phase"] = "running".into();
    pod["details"] = json!({ "labels": {}, "annotations": {}, "owner_kind": owner, "owner_name": "owner" });
    pod
}

fn checkpoint(name: &str, hours: i64) -> Value {
    let path = format!("/var/lib/kubelet/checkpoints/{name}");
    json!({ "kind": "checkpoint", "path": path, "bytes": 100, "inodes": 1, "modified_at": hours_ago(hours) })
}

fn snapshot() -> Value {
    let none = json!({});
    let [listed, details, past] =
        [0, 1, 2].map(|part| images().into_iter().map(|image| image[part].clone()).collect::<Vec<_>>());
    let details: serde_json::Map<_, _> = details.into_iter().flat_map(|one| one.as_object().unwrap().clone()).collect();
    let killed = json!({ "exit_code": 137 });
    let ready = |pod_name: &str| json!({ "id": format!("ready-{pod_name}"), "pod": pod(pod_name), "attempt": 9, "state": "ready", "created_at": hours_ago(0) });
    let pods = [
        ("ci/build", "Job"),
        ("lab/try", "ReplicaSet"),
        ("shop/web", "ReplicaSet"),
        ("shop/big", "ReplicaSet"),
        ("jobs/run", "Job"),
    ];
    let failed = json!({
        "uid": "u10", "namespace": "ci", "name": "report", "phase": "failed", "details": { "owner_kind": "Job" },
    });
    let absent = ["u9", "u10"].map(|uid| json!({ "uid": uid, "since": hours_ago(2) }));
    let mut sandboxes: Vec<_> = pods.iter().map(|(name, _)| ready(name)).collect();
    sandboxes.push(
        json!({ "id": "job0", "pod": pod("jobs/run"), "state": "not_ready", "created_at": "2026-11-26T11:30:00Z" }),
    );
    json!({
        "taken_at": "2026-11-26T12:00:00Z", "node": "build-1", "listening_since": { "seen": hours_ago(900) },
        "images": { "seen": listed }, "image_details": details,
        "image_filesystem": { "seen": { "capacity_bytes": 100 * GIB, "available_bytes": 50 * GIB } },
        "store": { "seen": {
            "parts": [{ "kind": "layer", "name": "l", "bytes": 100 }, { "kind": "writable", "name": "w", "bytes": 2 * GIB }, { "kind": "writable", "name": "w0", "bytes": 5 }],
            "holders": [
                { "kind": "image", "namespace": "k8s.io", "name": "registry.example.com/x/marked:1", "refs": [0] },
                { "kind": "container", "namespace": "k8s.io", "name": "big0", "refs": [1] },
                { "kind": "container", "namespace": "k8s.io", "name": "lab1", "refs": [2] },
            ],
        } },
        "containers": { "seen": [
            container("ci/build", "ci0", 0, 3, &none), container("ci/build", "ci1", 1, 2, &none), container("ci/build", "ci2", 2, 1, &none),
            container("lab/try", "lab0", 0, 60, &none), container("lab/try", "lab1", 1, 20, &none), container("lab/try", "lab2", 2, 1, &none),
            container("shop/web", "oom", 0, 10, &killed), container("shop/web", "web1", 1, 1, &none),
            container("shop/big", "big0", 0, 10, &none), container("shop/big", "big1", 1, 1, &none),
        ] },
        "sandboxes": { "seen": sandboxes },
        "leftovers": { "seen": [checkpoint("checkpoint-old.tar", 169), checkpoint("checkpoint-new.tar", 167)] },
        "log_dirs": { "seen": [{ "name": "payments_gone_u9", "size_bytes": 1000 }, { "name": "ci_report_u10" }] }, "log_links": { "seen": [] },
        "pods": { "seen": { "source": "test", "complete": true, "node_labels": { "pool": "build" },
            "pods": pods.map(|(name, owner)| listed_pod(name, owner)) } },
        "memory": { "pulls": {
            "registry.example.com/base/os": { "pulls": 4, "seconds": 61, "last": hours_ago(1) },
            "registry.example.com/shop/web": { "pulls": 3, "seconds": 61, "last": hours_ago(1) },
        }, "images": past, "absent_since": absent, "log_pods": [failed], "last_counts": { "containers": 10, "sandboxes": 6, "pods": 5 } },
    })
}

/// Returns the text of each rule of the page by its name.
fn rules() -> BTreeMap<String, String> {
    let blocks = PAGE.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let rules = blocks.flat_map(|block| block.split("[[rule]]").skip(1));
    let name = |rule: &str| rule.parse::<toml::Table>().unwrap()["name"].as_str().unwrap().to_owned();
    rules.map(|rule| (name(rule), format!("[[rule]]{rule}"))).collect()
}

fn last_parts<'a>(ids: impl Iterator<Item = (&'a String, String)>, rule: &str) -> String {
    let of_rule = ids.filter(|(of, _)| *of == rule).map(|(_, id)| id);
    let mut parts: Vec<_> = of_rule.map(|id| id.rsplit([':', '/']).next().unwrap().to_owned()).collect();
    parts.sort();
    parts.join(" ")
}

#[test]
fn each_rule_of_the_page_does_what_the_page_says() {
    let mut rules = rules();
    for (name, kept, removed) in ROWS {
        let rule = rules.remove(*name).unwrap_or_else(|| panic!("{name}"));
        let shell = Shell::new().with("kubegc.toml", &format!("{rule}\n[images]\nmin_age = 0\n"));
        let shell = shell.with("node.json", &snapshot().to_string());
        let text = shell.run(&["plan", "--snapshot", "node.json", "-o", "json"]);
        let plan: Plan = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}: {text}"));
        let is_kept = plan.kept.iter().filter_map(|kept| match &kept.reason {
            KeepReason::Rule(RuleReason { rule, .. }) => Some((rule, kept.id.clone())),
            _ => None,
        });
        let is_removed = plan.actions.iter().filter_map(|action| match &action.reason {
            RemoveReason::Rule(RuleReason { rule, .. }) => Some((rule, action.target.id())),
            _ => None,
        });
        assert_eq!(
            (last_parts(is_kept, name), last_parts(is_removed, name)),
            ((*kept).to_owned(), (*removed).to_owned()),
            "{name}: {:?}",
            plan.rules
        );
    }
    assert!(rules.is_empty(), "no row for {:?}", rules.keys());
}

#[test]
fn each_order_of_the_page_is_an_order() {
    let blocks = PAGE.split("```toml\n").filter(|block| block.starts_with("[images]"));
    assert_eq!(blocks.map(|block| block.split("```").next().unwrap()).map(is_an_order).count(), 2);
}

fn is_an_order(block: &str) {
    let shell = Shell::new().with(
        "kubegc.toml",
        &block.replace("[images]", "[images]\nhigh_threshold_percent = 40\nlow_threshold_percent = 30"),
    );
    let shell = shell.with("node.json", &snapshot().to_string());
    let plan: Plan = serde_json::from_str(&shell.run(&["plan", "--snapshot", "node.json", "-o", "json"])).unwrap();
    assert_eq!(
        (
            plan.actions.iter().find(|action| action.target.id().contains("sha256")).unwrap().target.id(),
            plan.images.unscored
        ),
        ("sha256:large".to_owned(), 0)
    );
}
