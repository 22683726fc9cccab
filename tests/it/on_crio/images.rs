//! The removal of images and of OCI artifacts.

use std::path::Path;

use serde_json::{Value as Json, json};

use crate::rig::{APP, Image, Layer, Rig, hex};

const MIB: u64 = 1 << 20;
/// The two names of an artifact.
const ARTIFACT: [&str; 2] = ["registry.example.com/models/m:1", "registry.example.com/models/m:2"];
const SETTINGS: [&str; 3] = ["--set=pods.source=none", "--set=guards.settle=0s", "--set=images.min_age=0s"];

/// CRI-O lists artifacts as images, once for each name. It removes them by name and by digest only, one name with each call.
#[tokio::test]
async fn an_unused_artifact_is_counted_and_removed() {
    let rig = Rig::start_crio(&[]).await;
    let artifacts = rig.storage()[0].join("artifacts");
    write_artifact(&artifacts, 5);
    let account = rig.kubegc(&with(&["disk", "--top=0", "-o", "json"])).ok().json();
    let artifact = account["images"].as_array().unwrap().iter().find(|image| image["name"] == ARTIFACT[0]).unwrap();
    let bytes = artifact["own_bytes"].as_u64().unwrap_or_else(|| panic!("{account:#}"));
    assert!((5 * MIB..5 * MIB + 100_000).contains(&bytes), "{artifact:#}");
    let collected = rig.kubegc(&with(&["collect", "--set=images.all_unused=true", "-o", "json"])).ok().json();
    let reports = collected["reports"].as_array().unwrap();
    let report = reports.iter().find(|report| report["action"]["id"] == artifact["id"]).unwrap();
    assert_eq!(report["outcome"], "removed", "{report:#}");
    assert_eq!(tags(&rig).await, ["registry.k8s.io/pause:3.10.1"]);
    let blobs = std::fs::read_dir(artifacts.join("blobs/sha256")).unwrap().map(|blob| blob.unwrap().path());
    assert_eq!(blobs.filter(|blob| blob.metadata().unwrap().len() > 1000).count(), 0, "its data is deleted");
}

/// CRI-O has no leases.
#[tokio::test]
async fn a_removal_cannot_be_undone_and_that_is_said() {
    let rig = Rig::start_crio(&[]).await;
    let undo = "--set=images.undo=24h";
    let check = rig.kubegc(&["config", "check", undo]).ok().stdout;
    assert!(check.contains("warning: images.undo has no effect: CRI-O has no leases"), "{check}");
    rig.kubegc(&with(&["collect", "--set=images.all_unused=true", undo])).ok();
    assert_eq!(tags(&rig).await, ["registry.k8s.io/pause:3.10.1"]);
    let refused = rig.kubegc(&["undo", "--last"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.stderr.contains("the runtime has no leases"), "{refused:?}");
    let pull = rig.kubegc(&["history", "-o", "crictl"]).ok().stdout;
    assert_eq!(pull, format!("crictl pull {APP}\n"), "the way back there");
}

/// An image whose inodes are not known would be as good as one without any.
#[tokio::test]
async fn a_target_in_inodes_plans_no_more_than_it_needs() {
    let rig = Rig::start_crio_on_small_disk(512).await;
    for name in ["a", "b", "c"] {
        let tag = format!("docker.io/library/{name}:1");
        rig.import(&[Image::new(&[&tag], &[Layer::busybox(), Layer::small_files(name, 4000, 10)])]).await;
    }
    let target = "--set=images.targets=['inodes 30%..25%']"; // of 32,768: about 37 % are used
    let plan = rig.kubegc(&with(&["plan", target, "-o", "json"])).json();
    assert_eq!(plan["images"]["triggered_by"], "inodes_percent", "{:#}", plan["images"]);
    assert_eq!(planned(&plan).len(), 1, "{:#}", plan["actions"]);
    rig.kubegc(&with(&["collect", target])).ok();
    assert_eq!(tags(&rig).await.len(), 4);
}

/// The store shows who uses an image. Its disk usage is below all thresholds.
#[tokio::test]
async fn why_names_the_other_client_that_uses_an_image() {
    let rig = Rig::start_crio(&[]).await;
    let other = rig.container_of_another_client(APP, "theirs");
    let why = rig.kubegc(&with(&["why", APP])).ok();
    assert!(why.stdout.contains(&format!("container {other} ")), "{why:#?}");
    let disk = rig.kubegc(&with(&["disk"])).ok();
    assert!(!disk.stdout.contains("compressed blobs"), "CRI-O has none: {disk:#?}");
    rig.kubegc(&with(&["collect", "--set=images.all_unused=true"])).ok();
    assert!(tags(&rig).await.contains(&APP.to_owned()));
}

/// The configuration of an image and the pins of CRI-O decide as with containerd.
#[tokio::test]
async fn pinned_and_labeled_images_are_kept() {
    let [pinned, labeled, unused] = ["pinned", "labeled", "unused"].map(|name| format!("docker.io/library/{name}:1"));
    let pins = format!("pinned_images = [\"{pinned}\"]");
    let rig = Rig::start_crio(&[("pinned_images = []", &pins)]).await;
    for tag in [&pinned, &labeled, &unused] {
        rig.import(&[Image::new(&[tag], &[Layer::busybox()])]).await;
    }
    let when = format!("image.labels['made-as'] == '{labeled}' && image.created < timestamp('2021-01-01T00:00:00Z')");
    let rule = format!("--set=rule=[{{name = 'labeled', for = 'image', when = \"{when}\", then = 'keep'}}]");
    let collect = with(&["collect", "--set=images.all_unused=true", &rule]);
    rig.kubegc(&collect).ok();
    let mut left = tags(&rig).await;
    left.sort();
    assert_eq!(left, [labeled.as_str(), pinned.as_str(), "registry.k8s.io/pause:3.10.1"]);
}

/// A pod mounts the artifact, so it is in use.
#[tokio::test]
async fn a_mounted_artifact_is_kept() {
    let rig = Rig::start_crio(&[]).await;
    write_artifact(&rig.storage()[0].join("artifacts"), 1);
    let pod = rig.pod("default", "web-0", "uid-web").await;
    pod.mounting("app", ARTIFACT[0], "/models").await;
    let before = tags(&rig).await;
    rig.kubegc(&with(&["collect", "--set=images.all_unused=true"])).ok();
    assert_eq!(tags(&rig).await, before);
}

fn planned(plan: &Json) -> Vec<&Json> {
    plan["actions"].as_array().unwrap().iter().filter(|action| action["action"] == "remove_image").collect()
}

async fn tags(rig: &Rig) -> Vec<String> {
    rig.list_images().await.into_iter().flat_map(|image| image.repo_tags).collect()
}

fn with<'a>(args: &[&'a str]) -> Vec<&'a str> {
    [args, &SETTINGS].concat()
}

/// Writes an artifact with one file of `mib` MiB to the store of artifacts, as two pulls do.
fn write_artifact(store: &Path, mib: usize) {
    let blobs = store.join("blobs/sha256");
    std::fs::create_dir_all(&blobs).unwrap();
    let descriptor = |kind: &str, data: &[u8]| {
        std::fs::write(blobs.join(hex(data)), data).unwrap();
        json!({ "mediaType": kind, "digest": format!("sha256:{}", hex(data)), "size": data.len() })
    };
    let mut file = descriptor("application/octet-stream", &vec![7; mib << 20]);
    file["annotations"] = json!({ "org.opencontainers.image.title": "model.bin" });
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "artifactType": "application/vnd.example.model",
        "config": descriptor("application/vnd.oci.empty.v1+json", b"{}"),
        "layers": [file],
    });
    let manifest = descriptor("application/vnd.oci.image.manifest.v1+json", manifest.to_string().as_bytes());
    let manifests = ARTIFACT.map(|name| {
        let mut manifest = manifest.clone();
        manifest["annotations"] = json!({ "org.opencontainers.image.ref.name": name });
        manifest
    });
    let index = json!({ "schemaVersion": 2, "manifests": manifests });
    std::fs::write(store.join("index.json"), index.to_string()).unwrap();
    std::fs::write(store.join("oci-layout"), r#"{ "imageLayoutVersion": "1.0.0" }"#).unwrap();
}
