//! The value of each fact, and which are absent.

use serde_json::json;

use super::*;
use crate::model::pod_of_dir;
use crate::rules::RuleSubject;
use crate::rules::{Budget, Rule, RuleText, Then, Verdict};

/// A node with an image and a container of which all is known, and with ones of which nothing is.
fn snapshot() -> Snapshot {
    let pod = json!({ "uid": "u1", "namespace": "shop", "name": "web" });
    // Another pod whose author wrote this uid.
    let forged = json!({ "uid": "u1", "namespace": "aaa", "name": "web", "details": { "labels": { "app": "other" } } });
    let configured = |created: &str, labels: serde_json::Value, layers: &[&str]| json!({ "seen": { "created_at": created, "labels": labels, "layers": layers } });
    serde_json::from_value(json!({
        "taken_at": "2026-11-21T12:00:00Z",
        "node": "node-1",
        "images": { "seen": [
            { "id": "sha256:full", "tags": ["r.example/team/app:1.2"], "digests": ["r.example/team/app@sha256:0a"], "size_bytes": 700, "pinned": true },
            { "id": "sha256:newer", "tags": ["r.example/team/app:1.3", "r.example/other:1"] },
            { "id": "sha256:twin", "tags": ["r.example/team/app:1.2b"] },
            { "id": "sha256:old", "tags": ["r.example/other:0"] },
            { "id": "sha256:bare" },
            { "id": "sha256:unknown", "tags": ["r.example/cache:1"] },
            { "id": "sha256:known", "tags": ["r.example/cache:2"] },
            { "id": "sha256:unread", "tags": ["r.example/cache:3"] },
        ] },
        "image_details": {
            "sha256:full": configured("2026-10-01T00:00:00Z", json!({ "keep": "true" }), &["sha256:1", "sha256:2"]),
            "sha256:newer": configured("2026-11-01T00:00:00Z", json!({}), &[]),
            "sha256:twin": configured("2026-10-01T00:00:00Z", json!({}), &[]),
            "sha256:old": configured("2026-09-01T00:00:00Z", json!({}), &[]),
            "sha256:known": configured("2026-09-01T00:00:00Z", json!({}), &[]),
            "sha256:unknown": configured("1980-01-01T00:00:01Z", json!(null), &[]),
            "sha256:bare": { "not_seen": "it was removed meanwhile" },
        },
        "workloads": { "seen": [{ "kind": "CronJob", "namespace": "shop", "name": "report", "images": ["r.example/team/app:1.2"] }] },
        "image_filesystem": { "seen": { "capacity_bytes": 1000, "available_bytes": 95, "inodes": 100, "inodes_free": 40 } },
        "store": { "seen": {
            "parts": [{ "kind": "layer", "name": "l", "bytes": 300 }, { "kind": "layer", "name": "own", "bytes": 400, "refs": [0] }, { "kind": "writable", "name": "w", "bytes": 66 }],
            "holders": [
                { "kind": "container", "namespace": "k8s.io", "name": "c1", "refs": [2] },
                { "kind": "image", "namespace": "k8s.io", "name": "r.example/team/app:1.2", "refs": [1] },
                { "kind": "image", "namespace": "k8s.io", "name": "r.example/team/app:1.3", "refs": [0] },
            ],
        } },
        "containers": { "seen": [
            { "id": "c1", "name": "app", "pod": pod, "attempt": 3, "state": "exited", "created_at": "2026-11-21T09:00:00Z", "image": "r.example/team/app:1.2",
              "finished_at": "2026-11-21T10:00:00Z", "exit_code": 137, "log_bytes": 55 },
            { "id": "c2", "name": "", "state": "exited", "created_at": "1970-01-01T00:00:00Z", "finished_at": "2026-11-21T12:00:00Z" },
        ] },
        "sandboxes": { "seen": [
            { "id": "s1", "pod": pod, "attempt": 1, "state": "not_ready", "created_at": "2026-11-21T10:00:00Z" },
            { "id": "s2", "state": "not_ready", "created_at": "1970-01-01T00:00:00Z" },
        ] },
        "leftovers": { "seen": [
            { "kind": "checkpoint", "path": "/var/lib/kubelet/checkpoints/checkpoint-web_shop-app-2026.tar", "bytes": 88, "inodes": 1, "modified_at": "2026-11-21T08:00:00Z" },
            { "kind": "checkpoint", "path": "/var/lib/kubelet/checkpoints/checkpoint-bare.tar", "bytes": 0, "inodes": 0 },
        ] },
        "log_dirs": { "seen": [{ "name": "shop_web_u9", "size_bytes": 77 }, { "name": "lost" }] },
        "pods": { "seen": { "source": "test", "complete": true, "node_labels": { "pool": "build" }, "pods": [forged, {
            "uid": "u1", "namespace": "shop", "name": "web", "phase": "failed", "deleting": true,
            "details": { "labels": { "app": "web" }, "annotations": { "team": "shop" }, "owner_kind": "ReplicaSet", "owner_name": "web-1" },
        }, forged] } },
        "memory": {
            "images": [{
                "id": "sha256:full", "first_seen": "2026-11-01T00:00:00Z", "last_used": "2026-11-21T06:00:00Z", "last_used_by": "shop/web/app",
            }],
            "pulls": { "r.example/team/app": { "pulls": 4, "seconds": 45, "last": "2026-11-20T00:00:00Z" } },
        },
    }))
    .unwrap()
}

fn verdict(of: RuleSubject, id: &str, when: &str) -> Verdict {
    let text = |when: &str| RuleText {
        name: "r".to_owned(),
        subject: of,
        resource: String::new(),
        when: when.to_owned(),
        then: Then::Keep,
        until: None,
        note: String::new(),
    };
    let rule = Rule::compile(text(when)).unwrap_or_else(|error| panic!("{when}: {error:?}"));
    let snapshot = snapshot();
    let source = FactSource::new(&snapshot, rule.uses().clone(), SnapshotIndex::new(&snapshot).into());
    let image = || snapshot.images.as_ref().unwrap().iter().find(|image| image.id.as_str() == id).unwrap();
    let container =
        || snapshot.containers.as_ref().unwrap().iter().find(|container| container.id.as_str() == id).unwrap();
    let past = snapshot.memory.images.iter().find(|past| past.id.as_str() == id);
    let facts = match of {
        RuleSubject::Image => {
            let [repository] = &source.repositories(image())[..] else { panic!("{id} has several names") };
            source.image(image(), repository.as_deref(), past)
        }
        RuleSubject::Container => source.container(container()),
        RuleSubject::Sandbox => {
            source.sandbox(snapshot.sandboxes.as_ref().unwrap().iter().find(|one| one.id.as_str() == id).unwrap())
        }
        RuleSubject::Log => {
            let dir = snapshot.log_dirs.as_ref().unwrap().iter().find(|dir| dir.name == id).unwrap();
            source.log_dir(dir, &pod_of_dir(&dir.name).unwrap_or_default(), Duration::from_hours(2))
        }
        RuleSubject::Checkpoint => source
            .checkpoint(snapshot.leftovers.as_ref().unwrap().iter().find(|one| one.at.path.ends_with(id)).unwrap()),
        RuleSubject::Object => unreachable!("no pass over a node has objects of a cluster"),
    };
    Budget::default().evaluate(&rule, &facts)
}

/// The object, the fact, its value for the object of which all is known, and whether the object of which nothing is lacks it.
const ROWS: &[(RuleSubject, &str, &str, bool)] = &[
    (RuleSubject::Image, "image.id", "'sha256:full'", false),
    (RuleSubject::Image, "image.tags", "['r.example/team/app:1.2']", false),
    (RuleSubject::Image, "image.digests", "['r.example/team/app@sha256:0a']", false),
    (RuleSubject::Image, "image.repository", "'r.example/team/app'", true),
    (RuleSubject::Image, "image.registry", "'r.example'", true),
    (RuleSubject::Image, "image.size_bytes", "700", false),
    (RuleSubject::Image, "image.own_bytes", "400", true),
    (RuleSubject::Image, "image.created", "timestamp('2026-10-01T00:00:00Z')", true),
    (RuleSubject::Image, "image.labels", "{'keep': 'true'}", true),
    (RuleSubject::Image, "image.layers", "['sha256:1', 'sha256:2']", true),
    (RuleSubject::Image, "image.tag_rank", "2", true),
    (RuleSubject::Image, "image.workloads", "['cronjob/shop/report']", false),
    (RuleSubject::Image, "image.pinned", "true", false),
    (RuleSubject::Image, "image.imported", "false", false),
    (RuleSubject::Image, "image.first_seen", "timestamp('2026-11-01T00:00:00Z')", false),
    (RuleSubject::Image, "image.last_used", "timestamp('2026-11-21T06:00:00Z')", true),
    (RuleSubject::Image, "image.unused", "duration('6h')", false),
    (RuleSubject::Image, "image.last_used_by", "'shop/web/app'", true),
    (RuleSubject::Image, "image.pulls", "4", true),
    (RuleSubject::Image, "image.pull_seconds", "45", true),
    (RuleSubject::Container, "container.id", "'c1'", false),
    (RuleSubject::Container, "container.name", "'app'", false),
    (RuleSubject::Container, "container.image", "'r.example/team/app:1.2'", true),
    (RuleSubject::Container, "container.attempt", "3", false),
    (RuleSubject::Container, "container.state", "'exited'", false),
    (RuleSubject::Container, "container.created", "timestamp('2026-11-21T09:00:00Z')", true),
    (RuleSubject::Container, "container.age", "duration('3h')", true),
    (RuleSubject::Container, "container.exit_code", "137", true),
    (RuleSubject::Container, "container.finished", "timestamp('2026-11-21T10:00:00Z')", true),
    (RuleSubject::Container, "container.log_bytes", "55", true),
    (RuleSubject::Container, "container.layer_bytes", "66", true),
    (RuleSubject::Sandbox, "sandbox.id", "'s1'", false),
    (RuleSubject::Sandbox, "sandbox.attempt", "1", false),
    (RuleSubject::Sandbox, "sandbox.created", "timestamp('2026-11-21T10:00:00Z')", true),
    (RuleSubject::Sandbox, "sandbox.age", "duration('2h')", true),
    (RuleSubject::Log, "log.name", "'shop_web_u9'", false),
    (RuleSubject::Log, "log.age", "duration('2h')", false),
    (RuleSubject::Log, "log.bytes", "77", true),
    (RuleSubject::Checkpoint, "checkpoint.name", "'checkpoint-web_shop-app-2026.tar'", false),
    (RuleSubject::Checkpoint, "checkpoint.age", "duration('4h')", true),
    (RuleSubject::Checkpoint, "checkpoint.bytes", "88", true),
    (RuleSubject::Container, "pod.uid", "'u1'", true),
    (RuleSubject::Container, "pod.namespace", "'shop'", true),
    (RuleSubject::Container, "pod.name", "'web'", true),
    (RuleSubject::Container, "pod.phase", "'failed'", true),
    (RuleSubject::Container, "pod.deleting", "true", true),
    (RuleSubject::Container, "pod.labels", "{'app': 'web'}", true),
    (RuleSubject::Container, "pod.annotations", "{'team': 'shop'}", true),
    (RuleSubject::Container, "pod.owner_kind", "'ReplicaSet'", true),
    (RuleSubject::Container, "pod.owner_name", "'web-1'", true),
    (RuleSubject::Image, "node.name", "'node-1'", false),
    (RuleSubject::Image, "node.labels", "{'pool': 'build'}", false),
    (RuleSubject::Image, "disk.used_percent", "91", false),
    (RuleSubject::Image, "disk.free_bytes", "95", false),
    (RuleSubject::Image, "disk.free_inodes", "40", false),
    (RuleSubject::Image, "now", "timestamp('2026-11-21T12:00:00Z')", false),
];

#[test]
fn each_fact_has_its_value() {
    for (of, fact, value, is_absent) in ROWS {
        let (full, bare) = match of {
            RuleSubject::Image => ("sha256:full", "sha256:bare"),
            RuleSubject::Container => ("c1", "c2"),
            RuleSubject::Sandbox => ("s1", "s2"),
            RuleSubject::Log => ("shop_web_u9", "lost"),
            RuleSubject::Checkpoint => ("checkpoint-web_shop-app-2026.tar", "checkpoint-bare.tar"),
            RuleSubject::Object => unreachable!("tested with the collection of a cluster"),
        };
        assert_eq!(verdict(*of, full, &format!("{fact} == {value}")), Verdict::Holds(true), "{fact}");
        let of_bare = verdict(*of, bare, &format!("{fact} == {fact}"));
        assert_eq!(matches!(of_bare, Verdict::Error(_)), *is_absent, "{fact}: {of_bare:?}");
    }
    let of_node = Fact::ALL.iter().map(|fact| fact.row().name).filter(|name| !name.starts_with("object."));
    let known: Vec<_> = of_node.collect();
    assert_eq!(ROWS.iter().map(|row| row.1).collect::<Vec<_>>(), known, "each fact has a row");
}

/// Images of one time share a rank, an image of two repositories has the better one, and an unknown time leaves all unknown.
#[test]
fn ranks_count_within_a_repository() {
    for (id, rank) in [
        ("full", Some(2)),
        ("twin", Some(2)),
        ("newer", Some(1)),
        ("old", Some(2)),
        ("known", Some(1)),
        ("unknown", Some(2)),
        ("unread", None),
    ] {
        let verdict = verdict(
            RuleSubject::Image,
            &format!("sha256:{id}"),
            &format!("image.tag_rank == {}", rank.unwrap_or_default()),
        );
        assert_eq!(verdict == Verdict::Holds(true), rank.is_some(), "{id}: {verdict:?}");
    }
}

#[test]
fn sandboxes_and_logs_have_the_facts_of_their_pod() {
    assert_eq!(
        verdict(RuleSubject::Sandbox, "s1", "pod.namespace == 'shop' && pod.phase == 'failed'"),
        Verdict::Holds(true)
    );
    assert_eq!(
        verdict(RuleSubject::Log, "shop_web_u9", "pod.namespace == 'shop' && !has(pod.phase)"),
        Verdict::Holds(true)
    );
}

#[test]
fn a_whole_object_has_all_its_facts() {
    assert_eq!(
        verdict(RuleSubject::Image, "sha256:full", "size(image) == 20 && image['labels']['keep'] == 'true'"),
        Verdict::Holds(true)
    );
}

#[test]
fn what_containerd_named_when_it_imported_an_image_is_no_digest_of_a_registry() {
    let digests = ["import-2026-11-21@sha256:01", "import-2026.example.com/app@sha256:01", "r.example/app@sha256:01"];
    assert_eq!(digests.map(is_of_import), [true, false, false]);
}
