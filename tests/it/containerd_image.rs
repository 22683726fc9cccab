//! The shipped image: every containerd accepts it, and the same source gives the same bytes.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::manifests::packaging;
use crate::release::index::{join, small_image};
use crate::rig::{Rig, Version};

/// Returns the image of the tested binary. Tests that run at the same time make the same file.
pub fn file() -> PathBuf {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kubegc.tar");
    make(&file);
    file
}

/// Returns the name of the image.
pub fn name() -> String {
    format!("ghcr.io/kubegc/kubegc:{}", env!("CARGO_PKG_VERSION"))
}

fn make(file: &Path) {
    let made = Command::new(packaging("../scripts/image.sh"))
        .args(["--binary", env!("CARGO_BIN_EXE_kubegc")])
        .arg(file)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

#[tokio::test]
async fn containerd_accepts_the_image_on_1_6() {
    the_image_is_taken(Version::V1_6).await;
}

#[tokio::test]
async fn containerd_accepts_the_image_on_1_7() {
    the_image_is_taken(Version::V1_7).await;
}

#[tokio::test]
async fn containerd_accepts_the_image_on_2() {
    the_image_is_taken(Version::V2).await;
}

async fn the_image_is_taken(version: Version) {
    let image = file();
    let rig = Rig::start(version).await;
    rig.ctr(&["images", "import", "--snapshotter", "overlayfs", image.to_str().unwrap()]);
    let listed = async || rig.list_images().await.into_iter().any(|image| image.repo_tags == [name()]);
    assert!(crate::rig::becomes_true(listed).await, "{:#?}", rig.list_images().await);
    the_program_runs(&rig);
    // The image for all architectures replaces it: the platform of the node is unpacked, or each.
    let dir = tempfile::tempdir().unwrap();
    let (other, joined) = (small_image(dir.path(), "arm64", &name()), dir.path().join("joined.tar"));
    join(&joined, &[&image, &other]);
    for option in ["--all-platforms", "--all-platforms=false"] {
        rig.ctr(&["images", "remove", "--sync", &name()]);
        rig.ctr(&["images", "import", option, "--snapshotter", "overlayfs", joined.to_str().unwrap()]);
        let shown = rig.ctr(&["images", "list", &format!("name=={}", name())]);
        assert!(
            shown.contains("image.index.v1+json") && shown.contains("linux/amd64,linux/arm64"),
            "{option}: {shown}"
        );
        the_program_runs(&rig);
    }
    assert!(crate::rig::becomes_true(listed).await, "{:#?}", rig.list_images().await);
}

/// The image has only the one program, which needs nothing else. The exit status of ctr is that of the program.
fn the_program_runs(rig: &Rig) {
    let program = ["version", "/usr/bin/kubegc", "--version"];
    rig.ctr(&[&["run", "--rm", "--null-io", "--snapshotter", "overlayfs", &name()], &program[..]].concat());
}

#[test]
fn the_same_source_gives_the_same_image() {
    let dir = tempfile::tempdir().unwrap();
    let images = ["one.tar", "two.tar"].map(|name| dir.path().join(name));
    for image in &images {
        make(image);
    }
    let [one, two] = images.map(|image| std::fs::read(image).unwrap());
    assert!(one == two, "two images of {} and {} bytes differ", one.len(), two.len());
}

/// Returns the configuration of the image: index, manifest and configuration are blobs of the archive.
pub fn described(file: &Path) -> serde_json::Value {
    let blob = |name: &str| -> serde_json::Value {
        let mut archive = tar::Archive::new(std::fs::File::open(file).unwrap());
        let mut entries = archive.entries().unwrap().map(Result::unwrap);
        let entry = entries.find(|entry| entry.path().unwrap().to_str() == Some(name)).unwrap();
        serde_json::from_reader(entry).unwrap()
    };
    let path = |digest: &serde_json::Value| format!("blobs/{}", digest.as_str().unwrap().replace(':', "/"));
    let manifest = blob(&path(&blob("index.json")["manifests"][0]["digest"]));
    blob(&path(&manifest["config"]["digest"]))
}

#[test]
fn the_image_names_its_version_commit_and_time() {
    let config = described(&file());
    let label = |name: &str| config["config"]["Labels"][format!("org.opencontainers.image.{name}")].as_str().unwrap();
    assert_eq!(label("version"), env!("CARGO_PKG_VERSION"));
    let git = |args: &[&str]| {
        let output = Command::new("git").current_dir(env!("CARGO_MANIFEST_DIR")).args(args).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let revision = label("revision");
    assert_eq!(revision.trim_end_matches("-dirty"), git(&["rev-parse", "HEAD"]));
    let [created, committed] =
        [label("created"), &git(&["log", "-1", "--format=%cI"])].map(|time| time.parse::<jiff::Timestamp>().unwrap());
    assert_eq!(created, committed);
    assert_eq!(config["created"], label("created"));
}
