//! Cases about what a runtime lists. They were written for a server that plays a scenario; the simulated node has the same
//! sandboxes, containers and images.

use std::os::unix::fs::symlink;
use std::time::Duration;

use jiff::Timestamp;
use kubegc::plan::{Action, Kind, Plan, Policy, Scope, Target, decide};
use kubegc::sim::Node;
use serde_json::Value;

use super::fake_api::Fake;
use super::{data, kept, removed};
use crate::cli_on_sim::Host;

/// Removes everything that is unused.
const EVERYTHING: [&str; 6] = ["collect", "--pressure", "--set", "images.min_age=0s", "--set", "guards.fall_hold=0s"];

fn texts(value: &Value) -> Vec<&str> {
    value.as_array().into_iter().flatten().map(|text| text.as_str().unwrap()).collect()
}

/// Returns the node of a case.
fn node(case: &str) -> Node {
    let case: Value = serde_json::from_str(&data(&format!("t4/T4-{case}.json"))).unwrap();
    let text = |of: &Value, field: &str| of[field].as_str().unwrap_or_default().to_owned();
    let items = |field: &str| case[field].as_array().unwrap().clone();
    let age = |of: &Value| Duration::from_secs(of["created"].as_u64().unwrap());
    let mut node = Node::new().runtime(&text(&case, "runtime"), &text(&case, "version")).now(Timestamp::now());
    if let Some(config) = case["info"]["config"].as_str() {
        node = node.reported_config(config);
    }
    for image in items("images") {
        let (tags, digests) = (texts(&image["tags"]), texts(&image["digests"]));
        node = node.image_as_listed(&text(&image, "id"), &tags, &digests, image["size"].as_u64().unwrap());
        node = if image["sticky"] == 1 { node.in_read_only_store() } else { node };
    }
    for it in items("sandboxes") {
        node = node.ago(age(&it)).id(&text(&it, "id")).pod(&text(&it, "ns"), &text(&it, "name"), &text(&it, "uid"));
    }
    for it in items("containers") {
        node = node.ago(age(&it)).in_sandbox(&text(&it, "sandbox")).id(&text(&it, "id"));
        let (name, image) = (text(&it, "name"), text(&it, "image"));
        node = if it["state"] == "running" { node.running(&name, &image) } else { node.exited(&name, &image) };
    }
    node
}

/// Returns the plan of a snapshot, whose disk has no free space.
fn on_full_disk(case: &str) -> Plan {
    let mut snapshot: Value = serde_json::from_str(&data(&format!("t4/T4-{case}.json"))).unwrap();
    snapshot["image_filesystem"]["seen"]["available_bytes"] = 0.into();
    let mut policy = Policy::default();
    policy.images.min_age = Duration::ZERO;
    decide(&serde_json::from_value(snapshot).unwrap(), &policy, Scope::All)
}

/// Returns the first tags of the images that are left.
fn images_after(case: &str) -> (String, Vec<String>) {
    let host = Host::with(node(case));
    let text = host.run(&EVERYTHING);
    let [containers, sandboxes, images] = host.rest();
    assert_eq!((containers.len(), sandboxes.len()), (1, 1), "{case}: {text}");
    (text, images)
}

#[test]
fn n3_the_image_of_a_running_container_is_kept_without_its_digest() {
    assert_eq!(removed(&on_full_disk("N3-vanished-image-ref"), Kind::Image), [""; 0]);
}

#[test]
fn n4_an_image_that_stays_is_not_counted_as_removed() {
    let (text, images) = images_after("N4-read-only-store");
    assert_eq!(images, ["registry.example.com/app:1", "registry.example.com/base:1"], "{text}");
    assert!(text.contains("the runtime reported "), "{text}");
}

#[test]
fn n5_none_is_no_name() {
    let (text, images) = images_after("N5-none-none");
    assert_eq!(images, ["registry.example.com/app:1"], "{text}");
}

#[test]
fn n6_an_init_container_and_its_image_are_kept() {
    assert_eq!(on_full_disk("N6-init-container").actions, []);
}

/// The directory of Docker is not mounted where the agent runs, so its links look dangling.
#[test]
fn n12_a_link_to_a_disk_that_is_not_mounted_is_kept() {
    let host = Host::with(node("N12-docker-logs-not-mounted"));
    let root = host.sim.dir().join("host");
    let (uid, id) = ("247610f4-dedd-4ab7-a47d-07dbda19c81c", "ab12".repeat(16));
    let (pods, links) = (format!("var/log/pods/shop_web-0_{uid}/app"), "var/log/containers");
    for dir in [&pods, links, &format!("var/lib/kubelet/pods/{uid}")] {
        std::fs::create_dir_all(root.join(dir)).unwrap();
    }
    let log = root.join(&pods).join("0.log");
    symlink(format!("/var/lib/docker/containers/{id}/{id}-json.log"), &log).unwrap();
    let link = root.join(links).join(format!("web-0_shop_app-{id}.log"));
    symlink(format!("/{pods}/0.log"), &link).unwrap();
    let settings = [
        format!("host_root={}", root.display()),
        "logs.pods_root=/var/log/pods".to_owned(),
        "logs.containers_root=/var/log/containers".to_owned(),
        "kubelet_root=/var/lib/kubelet".to_owned(),
    ];
    let settings: Vec<_> = settings.iter().flat_map(|setting| ["--set", setting]).collect();
    let text = host.run(&[&["collect"], &settings[..]].concat());
    assert!(log.is_symlink() && link.is_symlink(), "{text}");
    // Of another container, on the same disk.
    let dangling = root.join(links).join(format!("web-0_shop_app-{}.log", "cd34".repeat(16)));
    symlink(format!("/{pods}/7.log"), &dangling).unwrap();
    let text = host.run(&[&["collect"], &settings[..]].concat());
    assert!(link.is_symlink() && !dangling.is_symlink(), "{text}");
}

#[test]
fn n13_images_without_a_size_are_removed_once() {
    let (text, images) = images_after("N13-size-zero");
    assert_eq!(images, ["registry.example.com/app:1"], "{text}");
}

/// A pod names images in every form that the API accepts.
#[test]
fn n14_images_that_a_pod_names_in_any_form_are_kept() {
    let plan = on_full_disk("N14-odd-names");
    let names = |action: &Action| match &action.target {
        Target::RemoveImage { tags, .. } => tags.join(" "),
        _ => String::new(),
    };
    let removed: Vec<_> = plan.actions.iter().map(names).collect();
    // No pod can have a name that begins with a blank, and the other one is of another registry.
    assert_eq!(removed, ["registry.example.com/space:1", "docker.io/mirror/app:3"], "{:#?}", plan.actions);
    assert_eq!(kept(&plan, Kind::Image).len(), 18);
}

/// The pods are those of an API server.
#[test]
fn n15_the_logs_of_pods_that_the_api_server_lacks_are_removed() {
    let (host, fake) = (Host::with(node("live")), Fake::start("t4/T4-N15-node-api.json"));
    let pods = host.sim.log_roots().pods;
    let dir = |name: &str, uid: &str| pods.join(format!("shop_{name}_{uid}"));
    let live = dir("web-0", "247610f4-dedd-4ab7-a47d-07dbda19c81c");
    let gone = [("gone-1", "11111111-2222-4333-8444-555555555555"), ("gone-2", "22222222-2222-4333-8444-555555555555")];
    let gone = gone.map(|(name, uid)| dir(name, uid));
    for dir in gone.iter().chain([&live]) {
        std::fs::create_dir_all(dir.join("app")).unwrap();
    }
    let kubeconfig = format!("pods.kubeconfig={}", fake.kubeconfig().display());
    let settings = ["pods.source=kube-api", &kubeconfig, "guards.gone_after=0s", "guards.sandbox_grace=0s"];
    let settings: Vec<_> = settings.iter().flat_map(|setting| ["--set", setting]).collect();
    let collect = || host.run(&[&["collect", "--scope", "containers"], &settings[..]].concat());
    let text = collect() + &collect();
    assert!(live.is_dir() && gone.iter().all(|dir| !dir.exists()), "{text}");
}

/// Whatever the runtime says of its sandbox image, and if it says nothing of it.
#[test]
fn n16_the_sandbox_image_is_kept() {
    for case in [
        "bad-json",
        "bare-name",
        "crio-toml",
        "crio",
        "ctd2",
        "digest",
        "empty",
        "k3s-short",
        "lowercase-key",
        "no-info",
        "other-registry-same-image",
        "tag-digest",
    ] {
        let (text, images) = images_after(&format!("N16-pause-{case}"));
        let is_pause = |image: &String| image.contains("pause") || image.contains("6210c0bf05396716");
        // The configuration names an image of another registry, so the runtime never uses this one.
        let is_other = case == "other-registry-same-image";
        assert_eq!(images.iter().any(is_pause), !is_other, "{case}: {images:?}\n{text}");
        // What cannot be read may name any image.
        let is_unknown = text.contains("sandbox_image unavailable");
        assert_eq!(images.contains(&"registry.example.com/junk:1".to_owned()), is_unknown, "{case}: {text}");
        assert_eq!(is_unknown, ["bad-json", "crio-toml"].contains(&case), "{case}: {text}");
    }
}

#[test]
fn everything_of_a_running_pod_is_kept() {
    for case in ["live", "live-attempt4"] {
        let (text, images) = images_after(case);
        assert_eq!(images, ["registry.example.com/app:1"], "{case}: {text}");
    }
}
