//! What a release consists of: its conditions, and the bill of materials. `manifests::chart::packed` has the chart.

pub mod files;
pub mod index;
mod verify;

use std::path::Path;
use std::process::{Command, Output};

/// Runs a program in a directory.
fn run(dir: &Path, program: &str, args: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(args).current_dir(dir).env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_SYSTEM", "/dev/null");
    command.output().unwrap_or_else(|error| panic!("{program}: {error}; scripts/setup.sh installs what is missing"))
}

fn git(dir: &Path, args: &[&str]) {
    let identity = ["-c", "user.name=test", "-c", "user.email=test@example.com"];
    let done = run(dir, "git", &[&identity, args].concat());
    assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
}

/// Returns a repository with the scripts of this one, what they pack beside the program, and a commit.
fn repository() -> tempfile::TempDir {
    let (dir, source) = (tempfile::tempdir().unwrap(), Path::new(env!("CARGO_MANIFEST_DIR")));
    let copied = [
        ["scripts", "packaging", "config", "systemd"].as_slice(),
        &["Cargo.toml", "Cargo.lock", "CHANGELOG.md", "README.md", "LICENSE", ".gitignore"],
    ];
    let copied = run(source, "cp", &[&["-r"], &copied.concat()[..], &[dir.path().to_str().unwrap()]].concat());
    assert!(copied.status.success(), "{}", String::from_utf8_lossy(&copied.stderr));
    std::fs::write(dir.path().join("CHANGELOG.md"), "# Changelog\n\n## Unreleased\n").unwrap();
    git(dir.path(), &["init", "--quiet"]);
    git(dir.path(), &["add", "."]);
    git(dir.path(), &["commit", "--quiet", "--message", "scripts: all"]);
    dir
}

/// Returns why the release is refused.
fn refusal(dir: &Path, args: &[&str]) -> String {
    let refused = run(dir, "scripts/release.sh", args);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    String::from_utf8(refused.stderr).unwrap()
}

#[test]
fn a_release_needs_a_clean_tree_and_a_changelog() {
    let dir = repository();
    let version = env!("CARGO_PKG_VERSION");
    let refused = refusal(dir.path(), &[]);
    assert!(refused.contains(&format!("CHANGELOG.md has no section \"## {version}\"")), "{refused}");
    std::fs::write(dir.path().join("notes.txt"), "").unwrap();
    let refused = refusal(dir.path(), &[]);
    assert!(refused.contains("the tree is not clean") && refused.ends_with("?? notes.txt\n"), "{refused}");
}

#[test]
fn a_release_needs_a_key_that_users_can_verify() {
    let dir = repository();
    let refused = refusal(dir.path(), &["--snapshot", "--key", "LICENSE"]);
    assert!(refused.contains("cannot read the key \"LICENSE\": LICENSE is not a"), "{refused}");
    let key = dir.path().join(".git/key");
    let made = run(dir.path(), "ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-f", key.to_str().unwrap()]);
    assert!(made.status.success());
    std::fs::write(dir.path().join("CHANGELOG.md"), format!("## {}\n", env!("CARGO_PKG_VERSION"))).unwrap();
    git(dir.path(), &["commit", "--quiet", "--all", "--message", "release"]);
    let refused = refusal(dir.path(), &["--key", key.to_str().unwrap()]);
    assert!(refused.contains("packaging/release-signers does not have the key"), "{refused}");
    // With the key in the file the build begins, which here has no compiler.
    let public = std::fs::read_to_string(key.with_extension("pub")).unwrap();
    let signers = dir.path().join("packaging/release-signers");
    std::fs::write(signers, format!("# Comment\nkubegc namespaces=\"kubegc-release\" {public}")).unwrap();
    std::fs::write(dir.path().join("scripts/binary.sh"), "#!/bin/sh\necho no compiler >&2\nexit 1\n").unwrap();
    git(dir.path(), &["commit", "--quiet", "--all", "--message", "release"]);
    let refused = refusal(dir.path(), &["--key", key.to_str().unwrap()]);
    assert_eq!(refused, "no compiler\n");
}

#[test]
fn the_bill_of_materials_has_each_crate_with_license() {
    let written = run(Path::new(env!("CARGO_MANIFEST_DIR")), "scripts/sbom.sh", &[]);
    assert!(written.status.success(), "{}", String::from_utf8_lossy(&written.stderr));
    let document: serde_json::Value = serde_json::from_slice(&written.stdout).unwrap();
    assert_eq!((&document["bomFormat"], &document["specVersion"]), (&"CycloneDX".into(), &"1.5".into()));
    assert_eq!(document["metadata"]["component"]["version"], env!("CARGO_PKG_VERSION"));
    let crates = document["components"].as_array().unwrap();
    for part in crates {
        let hash = part["hashes"][0]["content"].as_str().unwrap_or_default();
        assert!(hash.len() == 64 && part["licenses"][0]["expression"].is_string(), "{part}");
    }
    let has = |name: &str| crates.iter().any(|part| part["name"] == name);
    assert!(has("tokio") && has("libsqlite3-sys"), "what the binary contains");
    assert!(!has("proptest") && !has("thiserror-impl") && !has("kubegc"), "not what only tests and builds need");
}
