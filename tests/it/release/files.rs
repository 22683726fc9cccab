//! The files of a release, which `make test-release` builds from a clean checkout: what they are, and that they work on
//! both architectures. The programs for arm64 run in an emulator.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::index::platforms;
use super::run;
use crate::containerd_image::described;
use crate::rig::{Rig, Version};

/// The architectures, each with the emulator that its programs need here.
const ARCHITECTURES: [(&str, &str); 2] = [("amd64", ""), ("arm64", "qemu-aarch64-static")];
/// The largest image: 11 MiB. That of 0.2.0 has 10.5 MiB for amd64.
const LARGEST_IMAGE: u64 = 11 << 20;
/// The largest program.
const LARGEST_PROGRAM: u64 = 26_000_000;
const SNAPSHOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/snapshots/full_disk.json");

/// Returns the directory with the files.
pub fn dir() -> PathBuf {
    std::env::var_os("KUBEGC_RELEASE").expect("KUBEGC_RELEASE is not set; `make test-release` sets it").into()
}

/// Returns the version of the release: the name of the directory has it.
fn version() -> String {
    let dir = dir();
    dir.file_name().unwrap().to_str().unwrap().strip_prefix("release-").unwrap().to_owned()
}

/// Returns the Debian package for an architecture.
pub fn package(arch: &str) -> PathBuf {
    dir().join(format!("kubegc_{}-1_{arch}.deb", version()))
}

fn image(arch: &str) -> PathBuf {
    dir().join(format!("kubegc-{}-image-{arch}.tar", version()))
}

/// Returns the name of the image.
fn image_name() -> String {
    format!("ghcr.io/kubegc/kubegc:{}", version().replace('~', "-"))
}

/// Runs a program that must succeed, and returns its output.
fn output(dir: &Path, program: &str, args: &[&str]) -> String {
    let done = run(dir, program, args);
    assert!(done.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

/// Unpacks the archive for an architecture in `to`, and returns its top directory.
fn archive(arch: &str, to: &Path) -> PathBuf {
    let top = format!("kubegc-{}-linux-{arch}", version());
    output(to, "tar", &["-xzf", dir().join(format!("{top}.tar.gz")).to_str().unwrap()]);
    to.join(top)
}

#[test]
#[ignore = "make test-release builds the files"]
fn the_files_of_a_release_are_complete_with_checksums() {
    let version = version();
    let listed = std::fs::read_dir(dir()).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut expected = BTreeSet::from(["SHA256SUMS".to_owned()]);
    expected.extend([".cdx.json", ".intoto.json", "-image.tar"].map(|rest| format!("kubegc-{version}{rest}")));
    expected.extend(["x86_64", "aarch64"].map(|machine| format!("kubegc-{version}-1.{machine}.rpm")));
    expected.insert(format!("kubegc-{}.tgz", version.replace('~', "-g")));
    for (arch, _) in ARCHITECTURES {
        expected.insert(format!("kubegc-{version}-linux-{arch}.tar.gz"));
        expected
            .extend([image(arch), package(arch)].map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()));
    }
    assert_eq!(listed.collect::<BTreeSet<_>>(), expected);
    let checked = output(&dir(), "sha256sum", &["--check", "SHA256SUMS"]);
    assert_eq!(checked.lines().filter(|line| line.ends_with(": OK")).count(), expected.len() - 1, "{checked}");
    let materials = std::fs::read_to_string(dir().join(format!("kubegc-{version}.cdx.json"))).unwrap();
    assert!(materials.contains("CycloneDX"));
    let statement = std::fs::read(dir().join(format!("kubegc-{version}.intoto.json"))).unwrap();
    let statement: serde_json::Value = serde_json::from_slice(&statement).unwrap();
    let names = statement["subject"].as_array().unwrap().iter().map(|subject| subject["name"].as_str().unwrap());
    assert_eq!(names.count(), expected.len() - 2, "each file but the provenance and the checksums");
}

#[test]
#[ignore = "make test-release builds the files"]
fn the_programs_of_a_release_plan_on_both_architectures() {
    let commit = output(Path::new(env!("CARGO_MANIFEST_DIR")), "scripts/commit.sh", &[]);
    for (arch, emulator) in ARCHITECTURES {
        let work = tempfile::tempdir().unwrap();
        let top = archive(arch, work.path());
        let binary = top.join("tree/usr/bin/kubegc");
        assert_eq!(binary.metadata().unwrap().permissions().mode() & 0o111, 0o111, "{arch}");
        let kubegc = |args: &[&str]| {
            let program = Path::new(if emulator.is_empty() { "/usr/bin/env" } else { emulator });
            output(work.path(), program.to_str().unwrap(), &[&[binary.to_str().unwrap()], args].concat())
        };
        let shown = kubegc(&["version"]);
        assert!(shown.contains(&format!(", commit {}\n", commit.trim())), "{arch}: {shown}");
        let plan = kubegc(&["plan", "--snapshot", SNAPSHOT, "-o", "json"]);
        let plan: serde_json::Value = serde_json::from_str(&plan).unwrap();
        assert!(!plan["actions"].as_array().unwrap().is_empty(), "{arch}: a full disk has something to remove");
        for file in ["README.md", "LICENSE", "CHANGELOG.md", "default.toml", "tree/usr/share/man/man1/kubegc-plan.1.gz"]
        {
            assert!(top.join(file).exists(), "{arch}: {file}");
        }
        let demo = top.join("tree/usr/share/man/man1/kubegc-demo.1.gz");
        assert!(!demo.exists(), "{arch}: the simulated node does not ship");
    }
}

/// Of each architecture, if `scripts/binary.sh` built it in this checkout.
#[test]
fn the_last_programs_of_a_release_are_small() {
    for machine in ["x86_64", "aarch64"] {
        let built = format!("target/{machine}-unknown-linux-gnu/release/kubegc.stripped");
        let size = Path::new(env!("CARGO_MANIFEST_DIR")).join(&built).metadata().map(|found| found.len());
        println!("{built}: {size:?}");
        assert!(size.unwrap_or_default() <= LARGEST_PROGRAM, "{built}, and {LARGEST_PROGRAM} bytes are permitted");
    }
}

#[test]
#[ignore = "make test-release builds the files"]
fn the_images_of_a_release_are_small_and_labeled() {
    the_last_programs_of_a_release_are_small();
    for (arch, _) in ARCHITECTURES {
        let (file, size) = (image(arch), image(arch).metadata().unwrap().len());
        println!("{arch}: {size} bytes");
        assert!(size <= LARGEST_IMAGE, "{arch}: {size} bytes, and {LARGEST_IMAGE} are permitted");
        let config = described(&file);
        assert_eq!((&config["architecture"], &config["os"]), (&arch.into(), &"linux".into()));
        let commit = output(Path::new(env!("CARGO_MANIFEST_DIR")), "git", &["rev-parse", "HEAD"]);
        assert_eq!(config["config"]["Labels"]["org.opencontainers.image.revision"], commit.trim(), "a clean checkout");
    }
    let joined = platforms(&dir().join(format!("kubegc-{}-image.tar", version())), &image_name());
    assert_eq!(joined, ARCHITECTURES.map(|(arch, _)| serde_json::json!({ "architecture": arch, "os": "linux" })));
}

#[tokio::test]
#[ignore = "make test-release builds the files"]
async fn containerd_runs_the_image_of_a_release() {
    let rig = Rig::start(Version::V2).await;
    for file in [image("amd64"), dir().join(format!("kubegc-{}-image.tar", version()))] {
        rig.ctr(&["images", "import", "--snapshotter", "overlayfs", file.to_str().unwrap()]);
        let program = ["version", "/usr/bin/kubegc", "version"];
        rig.ctr(&[&["run", "--rm", "--null-io", "--snapshotter", "overlayfs", &image_name()], &program[..]].concat());
    }
}

#[test]
#[ignore = "make test-release builds the files"]
fn lintian_accepts_the_packages_of_a_release() {
    for (arch, _) in ARCHITECTURES {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/lintian.sh");
        let checked = Command::new(script).arg(package(arch)).output().unwrap();
        let [found, failed] = [checked.stdout, checked.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        assert!(checked.status.success(), "{arch}: {found}\n{failed}");
        let named = output(&dir(), "dpkg-deb", &["--field", package(arch).to_str().unwrap(), "Architecture"]);
        assert_eq!(named.trim(), arch);
    }
}
