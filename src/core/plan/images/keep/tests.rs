//! Tests images that pods use, although no container uses them.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::model::{Image, Seen, Snapshot};
use crate::plan::decide;
use crate::plan::document::Plan;
use crate::plan::document::reason::KeepReason;
use crate::plan::policy::guards::{Guards, Profile};
use crate::plan::policy::{Policy, Scope};

const ID: &str = "sha256:0123456789012345678901234567890123456789012345678901234567890123";
const DIGEST: &str = "sha256:abcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcdabcd";

/// A node whose disk is full, with these pods and one image that no container uses. The image has two tags and a
/// digest.
fn node(pods: Value) -> Snapshot {
    let web = "docker.io/library/web";
    let mut node: Snapshot = serde_json::from_value(json!({
        "taken_at": "2026-11-21T12:00:00Z",
        "containers": { "seen": [] },
        "images": { "seen": [{
            "id": ID, "tags": [format!("{web}:1"), format!("{web}:latest")], "digests": [format!("{web}@{DIGEST}")],
            "size_bytes": 500,
        }] },
        "image_filesystem": { "seen": { "capacity_bytes": 1000, "available_bytes": 1 } },
        "memory": { "images": [{ "id": ID, "first_seen": "2026-11-20T12:00:00Z" }] },
    }))
    .unwrap();
    node.pods = serde_json::from_value(pods).unwrap();
    node
}

/// A list with a pod that uses these images.
fn naming(images: &[&str]) -> Value {
    json!({ "seen": { "source": "kube-api", "complete": true, "pods": [
        { "uid": "u1", "namespace": "default", "name": "web", "phase": "pending", "images": images },
    ] } })
}

fn plan(node: &Snapshot, policy: &Policy) -> Plan {
    decide(node, policy, Scope::Images)
}

/// Returns whether the image is kept because a pod uses it.
fn is_kept(node: &Snapshot, policy: &Policy) -> bool {
    let plan = plan(node, policy);
    let by_pod = plan.kept.iter().any(|kept| matches!(kept.reason, KeepReason::NamedByPod { .. }));
    assert_ne!(by_pod, plan.actions.len() == 1, "{plan:?}");
    by_pod
}

#[test]
fn an_image_is_kept_by_any_name_pods_use() {
    let hex = DIGEST.replace("sha256:", "");
    let rows = [
        ("web:1".to_owned(), true),
        ("web".to_owned(), true),
        ("library/web:1".to_owned(), true),
        ("docker.io/web:1".to_owned(), true),
        ("index.docker.io/library/web".to_owned(), true),
        ("docker.io/library/web:1".to_owned(), true),
        (format!("web@{DIGEST}"), true),
        (format!("web:1@{DIGEST}"), true),
        (format!("web:any@{DIGEST}"), true),
        (format!("docker.io/library/web:1@{DIGEST}"), true),
        (ID.to_owned(), true),
        (ID.replace("sha256:", ""), true),
        ("web:2".to_owned(), false),
        ("other/web:1".to_owned(), false),
        ("localhost:5000/web:1".to_owned(), false),
        ("localhost/library/web".to_owned(), false),
        (format!("web:1@sha256:{}", hex.replace('a', "b")), false),
        (String::new(), false),
    ];
    for (name, expected) in rows {
        assert_eq!(is_kept(&node(naming(&[&name])), &Policy::default()), expected, "{name:?}");
    }
}

/// CRI-O reports a digest of an image, which the image loses when its tag moves to another one.
#[test]
fn while_the_image_of_a_container_is_not_listed_images_without_names_are_kept() {
    let kept = |of: Option<&str>, policy: &Policy| {
        let mut node = node(json!({ "not_seen": "" }));
        node.images = node.images.map(|images| {
            let nameless = Image { id: "sha256:bare".into(), ..Image::default() };
            [images, vec![nameless]].concat()
        });
        let container = json!({ "id": "c1", "state": "running", "image_id": of, "created_at": "2026-11-21T11:00:00Z" });
        node.containers = Seen::Seen(vec![serde_json::from_value(container).unwrap()]);
        let kept = plan(&node, policy).kept;
        let bare = kept.into_iter().find(|kept| kept.id == "sha256:bare");
        bare.is_some_and(|kept| kept.reason == KeepReason::PossiblyInUse { container: "c1".to_owned() })
    };
    let old = format!("docker.io/library/web@sha256:{}", "e".repeat(64));
    let guards = Guards { match_image_names: false, ..Guards::default() };
    let without_guard = Policy { guards, ..Policy::default() };
    assert!(kept(Some(&old), &Policy::default()));
    assert!(kept(Some("sha256:ffff"), &Policy::default()));
    assert!(!kept(Some(&old), &without_guard));
    for listed in [ID, &ID.replace("sha256:", ""), &format!("web@{DIGEST}"), "web:1", ""] {
        assert!(!kept(Some(listed), &Policy::default()), "{listed}");
    }
    assert!(!kept(None, &Policy::default()));
}

#[test]
fn a_runtime_that_lists_short_names_is_understood() {
    for name in ["web:1", "docker.io/library/web:1"] {
        let mut node = node(naming(&[name]));
        node.images = node.images.map(|mut images| {
            images[0].tags = vec!["web:1".to_owned()];
            images
        });
        assert!(is_kept(&node, &Policy::default()), "{name}");
    }
}

#[test]
fn any_of_a_pods_images_counts() {
    assert!(is_kept(&node(naming(&["app:1", "init:1", "web:1"])), &Policy::default()));
}

#[test]
fn an_old_or_incomplete_list_protects_named_images() {
    let mut pods = naming(&["web:1"]);
    pods["seen"]["complete"] = false.into();
    assert!(is_kept(&node(pods), &Policy::default()));
}

#[test]
fn without_a_list_or_guard_no_pod_protects_images() {
    assert!(!is_kept(&node(json!({ "not_seen": "no answer" })), &Policy::default()));
    let policy = Policy { guards: Guards::of(Profile::Kubelet), ..Policy::default() };
    assert!(!is_kept(&node(naming(&["web:1"])), &policy));
}

#[test]
fn a_terminated_pod_protects_its_image_unless_evicted() {
    let mut evicting = Policy::default();
    evicting.containers.evict_terminated_pods = true;
    for (phase, while_evicting) in [("pending", true), ("running", true), ("succeeded", false), ("failed", false)] {
        let mut pods = naming(&["web:1"]);
        pods["seen"]["pods"][0]["phase"] = phase.into();
        assert!(is_kept(&node(pods.clone()), &Policy::default()), "{phase}");
        assert_eq!(is_kept(&node(pods), &evicting), while_evicting, "{phase}");
    }
}

#[test]
fn the_first_of_two_pods_by_name_is_reported() {
    let pod = |name: &str| json!({ "uid": name, "namespace": "default", "name": name, "images": ["web:1"] });
    for names in [["a", "b"], ["b", "a"]] {
        let pods = json!({ "seen": { "source": "kube-api", "complete": true, "pods": names.map(pod) } });
        let plan = plan(&node(pods), &Policy::default());
        assert_eq!(plan.kept[0].reason, KeepReason::NamedByPod { named_by: "default/a".to_owned(), as_of: None });
    }
}

#[test]
fn a_pull_by_any_name_keeps_the_image() {
    let mut node = node(json!({ "not_seen": "no answer" }));
    node.pulling = vec![format!("web:1@{DIGEST}")];
    node.image_uses = Seen::Seen(());
    assert_eq!(plan(&node, &Policy::default()).kept[0].reason, KeepReason::BeingPulled {});
}

/// The same node with a runtime that lists image IDs without `sha256:`, as CRI-O does.
fn with_bare_ids(mut node: Snapshot) -> Snapshot {
    let bare = ID.replace("sha256:", "");
    node.images = node.images.map(|mut images| {
        images[0].id = bare.as_str().into();
        images
    });
    Arc::make_mut(&mut node.memory.images)[0].id = bare.as_str().into();
    node
}

#[test]
fn an_image_id_without_its_algorithm_is_equal() {
    let bare = ID.replace("sha256:", "");
    for name in [ID, bare.as_str()] {
        let node = with_bare_ids(node(naming(&[name])));
        assert!(is_kept(&node, &Policy::default()), "{name}");
        let mut node = with_bare_ids(self::node(json!({ "not_seen": "no answer" })));
        node.containers = serde_json::from_value(json!({ "seen": [{
            "id": "c1", "name": "app", "state": "exited", "created_at": "2026-11-20T12:00:00Z", "image_id": name,
        }] }))
        .unwrap();
        assert_eq!(plan(&node, &Policy::default()).kept[0].reason, KeepReason::InUse { container: "c1".to_owned() });
    }
}

#[test]
fn both_image_id_spellings_find_the_last_use() {
    let mut node = with_bare_ids(node(json!({ "not_seen": "no answer" })));
    Arc::make_mut(&mut node.memory.images)[0].id = ID.into();
    let plan = plan(&node, &Policy::default());
    assert_eq!(plan.actions[0].age_seconds, Some(24 * 60 * 60), "{plan:?}");
    let memory = crate::plan::update_memory(&node, &Policy::default());
    assert_eq!(memory.images[0].first_seen, node.memory.images[0].first_seen);
    assert_eq!(memory.images.len(), 1);
}

#[test]
fn an_image_listed_twice_keeps_the_tags_of_both() {
    let twice = |pods| {
        let mut node = node(pods);
        node.images = node.images.map(|mut images| {
            let mut again = images[0].clone();
            (again.tags, again.digests) = (vec!["docker.io/library/other:1".to_owned()], Vec::new());
            images.push(again);
            images
        });
        node
    };
    let mut policy = Policy::default();
    policy.images.keep = vec!["docker.io/library/web:*".into()];
    let kept = plan(&twice(json!({ "not_seen": "no answer" })), &policy).kept;
    assert!(matches!(&kept[..], [kept] if matches!(kept.reason, KeepReason::KeepPattern { .. })), "{kept:?}");
    for name in ["web:1", "other:1"] {
        assert!(is_kept(&twice(naming(&[name])), &Policy::default()), "{name}");
    }
    let images = crate::plan::images(&twice(naming(&[])), &Guards::default());
    assert_eq!(
        images.iter().map(|image| image.tags.last().unwrap().as_str()).collect::<Vec<_>>(),
        ["docker.io/library/other:1"]
    );
}

#[test]
fn the_users_of_an_image_are_sorted_by_pod_and_name() {
    let mut node = node(naming(&[]));
    let container = |id: &str, pod: &str, used: Value| {
        let mut container = json!({ "id": id, "name": "app", "state": "exited", "created_at": "2026-11-20T12:00:00Z",
            "pod": { "uid": pod, "namespace": "shop", "name": pod } });
        container.as_object_mut().unwrap().extend(used.as_object().unwrap().clone());
        container
    };
    let used = [
        container("c1", "web", json!({ "image": "web:1" })),
        container("c2", "db", json!({ "image_id": ID, "image": "web:1" })),
        container("c3", "api", json!({ "image_volumes": [ID] })),
        container("c4", "other", json!({ "image": "other:1" })),
    ];
    node.containers = serde_json::from_value(json!({ "seen": used })).unwrap();
    let image = &node.images.as_ref().unwrap()[0];
    let users = crate::plan::ImageUsers::new(&node).of(image);
    assert_eq!(users.iter().map(|container| container.id.as_str()).collect::<Vec<_>>(), ["c3", "c2", "c1"]);
}

#[test]
fn an_image_listed_twice_is_used_by_either_name() {
    let mut node = node(json!({ "not_seen": "no answer" }));
    node.images = node.images.map(|mut images| {
        let mut again = images[0].clone();
        (again.tags, again.digests) = (vec!["docker.io/library/other:1".to_owned()], Vec::new());
        images.push(again);
        images
    });
    node.containers = serde_json::from_value(json!({ "seen": [{
        "id": "c1", "name": "app", "state": "exited", "created_at": "2026-11-20T12:00:00Z", "image": "other:1",
    }] }))
    .unwrap();
    let memory = crate::plan::update_memory(&node, &Policy::default());
    assert_eq!((memory.images.len(), memory.images[0].last_used), (1, Some(node.taken_at)));
}

/// A node with this image alone, 700 KB, unpinned and unused. Its runtime reports `reported` about its sandbox image.
fn with_sandbox_image(tag: &str, reported: Value, remembered: Option<Value>) -> Snapshot {
    let mut node = node(json!({ "not_seen": "no answer" }));
    node.images = node.images.map(|mut images| {
        (images[0].tags, images[0].digests, images[0].size_bytes) = (vec![tag.to_owned()], Vec::new(), 700_000);
        images
    });
    node.sandbox_image = serde_json::from_value(reported).unwrap();
    node.memory.runtime = remembered.map(|image| {
        serde_json::from_value(json!({ "first_seen": "2026-11-20T12:00:00Z", "sandbox_image": image })).unwrap()
    });
    node
}

#[test]
fn the_sandbox_image_is_kept_without_a_runtime_answer() {
    let custom = "example.com/tools/sandbox:3";
    let (named, silent) = (json!({ "seen": custom }), json!({ "not_seen": "Status: unavailable" }));
    let rows = [
        ("named now", custom, named.clone(), None, Some("sandbox_image")),
        ("named before, no answer now", custom, silent.clone(), Some(named), Some("sandbox_image")),
        ("never answered", custom, silent.clone(), None, Some("step_failed")),
        ("named none before, no answer now", custom, silent.clone(), Some(json!({ "seen": null })), None),
        (
            "named none, but it looks like one",
            "rancher/mirrored-pause:3.6",
            json!({ "seen": null }),
            None,
            Some("sandbox_image"),
        ),
        ("named none, and it does not", "example.com/pauses:1", json!({ "seen": null }), None, None),
        ("never answered for so long", custom, silent, Some(json!({ "not_seen": "no answer" })), Some("step_failed")),
    ];
    for (case, tag, reported, remembered, kept) in rows {
        let plan = plan(&with_sandbox_image(tag, reported, remembered), &Policy::default());
        assert_eq!(plan.kept.first().map(|kept| kept.reason.kind()), kept, "{case}: {plan:?}");
        assert_eq!(
            plan.errors.iter().any(|error| error.to_string().contains("sandbox_image")),
            kept == Some("step_failed")
        );
    }
}

#[test]
fn only_a_small_image_looks_like_a_sandbox_image() {
    for (size_bytes, is_kept) in [((2 << 20) - 1, true), (2 << 20, false)] {
        let mut node = with_sandbox_image("rancher/mirrored-pause:3.6", json!({ "seen": null }), None);
        node.images = node.images.map(|images| images.into_iter().map(|image| Image { size_bytes, ..image }).collect());
        assert_eq!(plan(&node, &Policy::default()).kept.len() == 1, is_kept, "{size_bytes}");
    }
}

#[test]
fn what_the_runtime_named_last_is_remembered() {
    let custom = "example.com/tools/sandbox:3";
    let node = with_sandbox_image(custom, json!({ "seen": custom }), None);
    let mut silent = with_sandbox_image(custom, json!({ "not_seen": "no answer" }), None);
    for _ in 0..2 {
        silent.memory = crate::plan::update_memory(&node, &Policy::default());
        silent.memory = crate::plan::update_memory(&silent, &Policy::default());
        assert_eq!(plan(&silent, &Policy::default()).kept[0].reason, KeepReason::SandboxImage {});
    }
}

/// The memory after a pass with a complete list in which a pod uses these images.
fn after_a_list(images: &[&str]) -> crate::model::Memory {
    crate::plan::update_memory(&node(naming(images)), &Policy::default())
}

#[test]
fn images_of_the_last_complete_list_are_kept() {
    let silent = json!({ "not_seen": "connection refused" });
    let mut cut = naming(&["other:1"]);
    cut["seen"]["complete"] = false.into();
    for (case, pods, expected) in [
        ("no list", silent, true),
        ("a list that is not complete", cut, true),
        ("a complete list without the pod", naming(&["other:1"]), false),
    ] {
        let mut node = node(pods);
        node.memory = after_a_list(&["web:1"]);
        node.taken_at = "2026-11-21T14:00:00Z".parse().unwrap();
        Arc::make_mut(&mut node.memory.images)[0].first_seen = None;
        assert_eq!(is_kept(&node, &Policy::default()), expected, "{case}");
        if expected {
            let reason =
                KeepReason::NamedByPod { named_by: "default/web".into(), as_of: "2026-11-21T12:00:00Z".parse().ok() };
            assert_eq!(plan(&node, &Policy::default()).kept[0].reason, reason, "{case}");
            let after = crate::plan::update_memory(&node, &Policy::default());
            assert_eq!(after.named_images, node.memory.named_images, "{case}: remembered on");
        }
    }
}

#[test]
fn an_unchanged_lists_time_is_updated_after_five_minutes() {
    let mut node = node(naming(&["web:1"]));
    let known = after_a_list(&["web:1"]);
    for (minutes, is_written) in [(4, false), (5, true)] {
        node.memory = known.clone();
        node.taken_at = known.named_images.as_ref().unwrap().as_of + jiff::SignedDuration::from_mins(minutes);
        let after = crate::plan::update_memory(&node, &Policy::default());
        assert_eq!(after.named_images != known.named_images, is_written, "{minutes} min");
    }
}

/// The node whose image is `quay.io/library/busybox`, with a pod that uses `busybox`, and with `resolved` as the result
/// of resolving it.
fn with_resolved(name: &str, resolved: &Value) -> Snapshot {
    let mut node = node(naming(&[name]));
    node.images = node.images.map(|mut images| {
        (images[0].tags, images[0].digests) = (vec!["quay.io/library/busybox:latest".to_owned()], Vec::new());
        images
    });
    node.resolved_images = serde_json::from_value(json!({ name: resolved })).unwrap();
    node
}

#[test]
fn images_that_pod_image_names_resolve_to_are_kept() {
    let other = ID.replace('0', "f");
    let rows = [
        ("resolved to it", "busybox", json!({ "seen": ID }), true),
        (
            "resolved to it, written without its algorithm",
            "busybox",
            json!({ "seen": ID.replace("sha256:", "") }),
            true,
        ),
        ("resolved to another image", "busybox", json!({ "seen": other }), false),
        ("resolved to none that is here", "busybox", json!({ "seen": null }), false),
        ("the text of the name is enough", "quay.io/library/busybox", json!({ "seen": null }), true),
        ("not resolved, of the same last part", "busybox", json!({ "not_seen": "ImageStatus: internal" }), true),
        ("not resolved, of another tag", "busybox:2", json!({ "not_seen": "ImageStatus: internal" }), false),
        ("not resolved, of another name", "box", json!({ "not_seen": "ImageStatus: internal" }), false),
    ];
    for (case, name, resolved, expected) in rows {
        assert_eq!(is_kept(&with_resolved(name, &resolved), &Policy::default()), expected, "{case}");
    }
}

#[test]
fn a_pull_by_a_possible_name_keeps_the_image() {
    let [it, unknown] = [json!({ "seen": ID }), json!({ "not_seen": "no answer" })];
    for (name, resolved, is_kept) in
        [("busybox", it, true), ("busybox", unknown.clone(), true), ("box", unknown, false)]
    {
        let mut node = with_resolved("busybox", &json!({ "seen": null }));
        node.pods = Seen::NotSeen("no answer".to_owned());
        node.pulling = vec![name.to_owned()];
        node.resolved_images = serde_json::from_value(json!({ name: resolved })).unwrap();
        let kept = plan(&node, &Policy::default()).kept;
        assert_eq!(kept.iter().any(|kept| kept.reason == KeepReason::BeingPulled {}), is_kept, "{name}");
    }
}

/// The memory is written to the disk, and needs nothing that the author of a pod wrote.
#[test]
fn details_of_pods_are_not_remembered() {
    let pod = |details| crate::model::Pod {
        uid: "u".into(),
        images: vec!["app:1".to_owned()],
        details,
        ..Default::default()
    };
    let mut with = node(naming(&[]));
    let pods = vec![pod(Some(Box::default()))];
    with.pods = Seen::Seen(crate::model::PodList { complete: true, pods, ..Default::default() });
    let memory = crate::plan::update_memory(&with, &Policy::default());
    assert_eq!(*memory.named_images.unwrap().pods, [pod(None)]);
}

/// The guard is off by default. Without the list nothing is unused, and under disk pressure the list does not matter.
#[test]
fn images_of_workloads_are_kept_if_that_is_set() {
    let workload = |image: &str| json!({ "seen": [{ "kind": "CronJob", "namespace": "shop", "name": "report", "images": [image] }] });
    let mut on = Policy::default();
    on.guards.keep_workload_images = true;
    let pressure = on.under_pressure(crate::plan::policy::pressure::Pressure::Requested {});
    for (row, policy, workloads, kept) in [
        ("off", &Policy::default(), workload("web:1"), None),
        ("by its name", &on, workload("web:1"), Some("named_by_workload")),
        (
            "perhaps by an alias of the runtime",
            &on,
            workload("registry.example.com/library/web:1"),
            Some("named_by_workload"),
        ),
        ("another image", &on, workload("other:1"), None),
        ("no permission", &on, json!({ "not_seen": "forbidden" }), Some("step_failed")),
        ("never read", &on, json!("not_read"), Some("step_failed")),
        ("under disk pressure", &pressure, workload("web:1"), None),
        ("under disk pressure, never read", &pressure, json!("not_read"), None),
    ] {
        let mut node = node(naming(&[]));
        node.workloads = serde_json::from_value(workloads).unwrap();
        let plan = plan(&node, policy);
        assert_eq!(plan.kept.first().map(|kept| kept.reason.kind()), kept, "{row}");
        assert_eq!(plan.actions.len(), usize::from(kept.is_none()), "{row}");
    }
}
