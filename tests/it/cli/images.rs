//! `kubegc images`, and who used an image last.

use std::sync::Arc;

use kubegc::plan::update_memory;
use serde_json::Value;

use super::*;

/// The image that nothing uses now.
const TRAIN: &str = "registry.example.com/ml/train:12";

fn images(order: &str) -> Vec<Value> {
    let text = Shell::new().run(&["images", "--snapshot", FULL_DISK, "--sort-by", order, "-o", "json"]);
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&document["kind"], &document["version"]), (&"Images".into(), &1.into()));
    document["images"].as_array().unwrap().clone()
}

#[test]
fn images_are_sorted_by_size_by_default() {
    insta::assert_snapshot!(Shell::new().run(&["images", "--snapshot", FULL_DISK]), @"
    NAME                                  ID             SIZE      LAST USED  USED BY                               DECISION
    registry.example.com/ml/train:12      95a8cb4e331a8  11.0GiB   41h                                              remove: disk usage 91% >= 85%
    registry.example.com/ml/train:11      ca3f18ddf0484  3.0GiB    2d                                               remove: disk usage 91% >= 85%
    registry.example.com/shop/worker:7    f483c282e264f  420.0MiB  now        shop/crash-7d9f4/worker               keep: in use by a container
    registry.example.com/shop/worker:6    d580064fc254b  415.0MiB  5h1m                                             next in line: disk usage 91% >= 85%
    registry.example.com/web:2.0 +1       2c91238ec2eb7  180.0MiB  now        default/web-0/app +1                  keep: in use by a container
    registry.example.com/web:1.0          94f21335c902c  175.0MiB  now        shop/old-6c5b9/app                    keep: in use by a container
    registry.example.com/web:0.9          9b0ff0bc1b2ce  171.0MiB  4d4h                                             remove: disk usage 91% >= 85%
    registry.example.com/shop/migrate:29  1652591669185  96.0MiB   now        shop/migrate-29x/migrate              keep: in use by a container
    <none>                                5db2c03fbaa9f  88.0MiB   -                                                remove: disk usage 91% >= 85%
    registry.example.com/next:1           5f2d47ca10f63  64.0MiB   -                                                keep: younger than min_age (2m)
    registry.k8s.io/kube-proxy:v1.36.2    87d223dcca60e  38.0MiB   now        kube-system/kube-proxy-x2/kube-proxy  keep: in use by a container
    docker.io/library/busybox:1.36        6e9350b63c33b  2.1MiB    now                                              keep: in use by a container
    registry.k8s.io/pause:3.10            f34749a0d19ce  304.0KiB  0s                                               keep: pinned by the runtime

    13 images, 15.6GiB. Not used by any container: 7 images, 14.7GiB.
    Image disk: 91.0GiB of 100.0GiB used.
    ");
    let sizes: Vec<_> = images("size").iter().map(|image| image["size_bytes"].as_u64().unwrap()).collect();
    assert!(sizes.len() > 5 && sizes.is_sorted_by(|a, b| a >= b), "{sizes:?}");
}

#[test]
fn images_in_use_are_last_by_last_use() {
    let keys: Vec<_> = images("last-used")
        .iter()
        .map(|image| {
            let is_used = !image["users"].as_array().unwrap().is_empty();
            (is_used, image["last_used"].as_str().unwrap_or_default().to_owned())
        })
        .collect();
    assert!(keys.is_sorted() && keys.iter().any(|key| key.0) && !keys[0].0, "{keys:?}");
}

#[test]
fn images_without_a_first_seen_time_sort_last() {
    let mut snapshot = full_disk();
    let forgotten = snapshot.memory.images[1].id.to_string();
    Arc::make_mut(&mut snapshot.memory.images)[1].id = "other".into();
    let shell = Shell::new().with("node.json", &serde_json::to_string(&snapshot).unwrap());
    let text = shell.run(&["images", "--snapshot", "node.json", "--sort-by", "first-seen", "-o", "json"]);
    let document: Value = serde_json::from_str(&text).unwrap();
    let images = document["images"].as_array().unwrap();
    let times: Vec<_> = images.iter().filter_map(|image| image["first_seen"].as_str()).collect();
    assert!(times.is_sorted(), "{times:?}");
    assert_eq!(images.last().unwrap()["id"], forgotten);
}

/// Returns the snapshot after a pass in which a container used the image, and before which that container was removed.
fn used_before() -> Snapshot {
    let mut snapshot = full_disk();
    let image = snapshot.images.as_ref().unwrap().iter().find(|image| image.tags.contains(&TRAIN.to_owned())).unwrap();
    let image_id = image.id.to_string();
    let containers = snapshot.containers.as_ref().unwrap();
    let mut user = containers.iter().find(|one| one.pod.is_some()).unwrap().clone();
    (user.id, user.name, user.image_id, user.image) = ("0".into(), "trainer".to_owned(), Some(image_id), None);
    let mut during = full_disk();
    during.containers = during.containers.map(|mut all| {
        all.push(user);
        all
    });
    let policy = Policy::default();
    snapshot.memory = update_memory(&during, &policy);
    Snapshot { memory: update_memory(&snapshot, &policy), ..snapshot }
}

#[test]
fn the_last_user_of_an_image_is_shown() {
    let snapshot = used_before();
    let past = snapshot
        .memory
        .images
        .iter()
        .find(|past| past.last_used_by.as_deref().is_some_and(|by| by.ends_with("/trainer")));
    let user = past.and_then(|past| past.last_used_by.clone()).expect("a later pass without the container keeps it");
    let shell = Shell::new().with("node.json", &serde_json::to_string(&snapshot).unwrap());
    let why = shell.run(&["why", "--snapshot", "node.json", TRAIN]);
    assert!(why.contains(&format!("last used 0s ago by {user}\n")), "{why}");
    let wide = shell.run(&["images", "--snapshot", "node.json", "-o", "wide"]);
    assert!(wide.contains(&format!("  last: {user}  ")), "{wide}");
    let json = shell.run(&["images", "--snapshot", "node.json", "-o", "json"]);
    assert!(json.contains(&format!("\"last_used_by\":\"{user}\",\"users\":[]")), "{json}");
    let used = shell.run(&["why", "--snapshot", "node.json", "registry.example.com/web"]);
    assert!(used.contains("last used 0s ago\n  used by: "), "{used}");
}

/// As on a node.
#[test]
fn a_plan_of_a_snapshot_fails_if_a_list_is_unavailable() {
    let mut snapshot = full_disk();
    snapshot.containers = kubegc::model::Seen::NotSeen("refused".to_owned());
    let shell = Shell::new().with("node.json", &serde_json::to_string(&snapshot).unwrap());
    let planned = shell.run(&["plan", "--snapshot", "node.json"]);
    assert!(
        planned.starts_with("exit Some(1)") && planned.contains("! error: containers unavailable: refused"),
        "{planned}"
    );
    assert!(!shell.run(&["plan", "--snapshot", FULL_DISK]).starts_with("exit"));
}
