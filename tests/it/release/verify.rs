//! Provenance and signature of a release: the commands of `docs/verify.md` accept it, and refuse it after a change.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;

use super::{git, repository, run};
use crate::rig::hex;

/// The files that the checksums do not have.
const CHECKSUMS: [&str; 2] = ["SHA256SUMS", "SHA256SUMS.sig"];

/// Returns the commands of a section of the page.
fn commands(section: &str) -> String {
    let page = include_str!("../../../docs/verify.md");
    let (_, text) = page.split_once(&format!("\n## {section}\n")).unwrap();
    let (_, block) = text.split_once("```sh\n").unwrap();
    block.split_once("```\n").unwrap().0.to_owned()
}

/// Runs the commands of a section in the directory of a release. Each must succeed.
fn verify(release: &Path, section: &str) -> Output {
    run(release, "bash", &["-euo", "pipefail", "-c", &commands(section)])
}

fn output(dir: &Path, program: &str, args: &[&str]) -> String {
    let done = run(dir, program, args);
    assert!(done.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap().trim().to_owned()
}

/// Makes a key, and returns its path and the line of `release-signers` for it.
fn key(dir: &Path) -> (String, String) {
    let key = dir.join("key").to_str().unwrap().to_owned();
    output(dir, "ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", &key]);
    let public = std::fs::read_to_string(format!("{key}.pub")).unwrap();
    (key, format!("kubegc namespaces=\"kubegc-release\" {public}"))
}

/// Returns the names of the files in a directory, each with its checksum.
fn checksums(dir: &Path) -> BTreeMap<String, String> {
    let files = std::fs::read_dir(dir).unwrap().map(Result::unwrap);
    files.map(|file| (file.file_name().into_string().unwrap(), hex(&std::fs::read(file.path()).unwrap()))).collect()
}

/// Returns the only provenance in a directory, with its name.
fn provenance(dir: &Path) -> (String, Value) {
    let mut names = checksums(dir).into_keys().filter(|name| name.ends_with(".intoto.json"));
    let name = names.next().unwrap();
    let text = std::fs::read(dir.join(&name)).unwrap();
    (name, serde_json::from_slice(&text).unwrap())
}

/// Returns the subjects of a provenance, each with its checksum.
fn subjects(provenance: &Value) -> BTreeMap<String, String> {
    let subjects = provenance["subject"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    subjects.map(|subject| (text(&subject["name"]), text(&subject["digest"]["sha256"]))).collect()
}

/// Returns a repository, and in it a directory `release` with two files. Git ignores the directory.
fn two_files() -> (tempfile::TempDir, PathBuf) {
    let dir = repository();
    let release = dir.path().join("target/release");
    std::fs::create_dir_all(&release).unwrap();
    for name in ["kubegc_0.9.9~abc-1_amd64.deb", "kubegc-0.9.9~abc-linux-arm64.tar.gz"] {
        std::fs::write(release.join(name), name).unwrap();
    }
    (dir, release)
}

#[test]
fn the_provenance_names_each_file_and_what_it_was_built_from() {
    let (dir, release) = two_files();
    let files = checksums(&release);
    let write = || output(dir.path(), "scripts/provenance.sh", &["--version", "0.9.9~abc", release.to_str().unwrap()]);
    assert_eq!(write(), release.join("kubegc-0.9.9~abc.intoto.json").to_str().unwrap());
    let (name, statement) = provenance(&release);
    assert_eq!(statement["_type"], "https://in-toto.io/Statement/v1");
    assert_eq!(statement["predicateType"], "https://slsa.dev/provenance/v1");
    assert_eq!(subjects(&statement), files);

    let (build, revision) =
        (&statement["predicate"]["buildDefinition"], output(dir.path(), "git", &["rev-parse", "HEAD"]));
    assert_eq!(build["externalParameters"], serde_json::json!({ "version": "0.9.9~abc", "revision": revision }));
    let [source, lock, compiler] = &build["resolvedDependencies"].as_array().unwrap()[..] else { panic!("{build}") };
    assert_eq!(source["digest"]["gitCommit"], *revision);
    assert_eq!(lock["digest"]["sha256"], hex(&std::fs::read(dir.path().join("Cargo.lock")).unwrap()));
    let version = output(dir.path(), "rustc", &["--version"]);
    assert_eq!(compiler["annotations"]["version"], *version);
    let page = include_str!("../../../docs/verify.md");
    for (link, heading) in [
        (&build["buildType"], "\n### Build type v1\n"),
        (&statement["predicate"]["runDetails"]["builder"]["id"], "\n### Local build\n"),
    ] {
        let anchor = heading.trim_matches(['\n', '#', ' ']).to_lowercase().replace(' ', "-");
        assert_eq!(*link, format!("https://github.com/kubegc/kubegc/blob/main/docs/verify.md#{anchor}"));
        assert!(page.contains(heading), "{anchor}");
    }

    let first = std::fs::read(release.join(&name)).unwrap();
    write();
    assert!(first == std::fs::read(release.join(name)).unwrap(), "the same files give the same bytes");
}

#[test]
fn a_provenance_needs_a_commit_and_plain_names() {
    let (dir, release) = two_files();
    let refusal = || {
        let refused = run(dir.path(), "scripts/provenance.sh", &[release.to_str().unwrap()]);
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        String::from_utf8(refused.stderr).unwrap()
    };
    std::fs::write(release.join("a\"b"), "").unwrap();
    let refused = refusal();
    assert!(refused.contains("\"a\"b\" is not the name of a file of a release"), "{refused}");
    std::fs::remove_file(release.join("a\"b")).unwrap();
    std::fs::write(dir.path().join("Cargo.lock"), "").unwrap();
    let refused = refusal();
    assert!(refused.contains("the provenance needs a commit without changes"), "{refused}");
    assert_eq!(checksums(&release).len(), 2, "nothing is written");
}

#[test]
fn the_commands_of_the_page_verify_a_signature_and_refuse_changed_files() {
    let (dir, release) = two_files();
    let path = release.to_str().unwrap();
    output(dir.path(), "scripts/provenance.sh", &[path]);
    let (key, signer) = key(dir.path());
    output(dir.path(), "scripts/sums.sh", &["--key", &key, path]);
    std::fs::write(release.join("release-signers"), &signer).unwrap();
    let succeeds = |section| {
        let ran = verify(&release, section);
        assert!(ran.status.success(), "{section}: {ran:?}");
        String::from_utf8(ran.stdout).unwrap()
    };
    let verified = succeeds("Signature and checksums");
    assert!(verified.starts_with("Good \"kubegc-release\" signature for kubegc with ED25519 key"), "{verified}");
    assert_eq!(verified.matches(": OK\n").count(), 3, "{verified}");
    let shown = succeeds("Provenance");
    assert!(shown.contains("\"revision\"") && shown.matches(": OK\n").count() == 2, "{shown}");

    let deb = "kubegc_0.9.9~abc-1_amd64.deb";
    for (changed, section, message) in [
        (deb, "Signature and checksums", "1 computed checksum did NOT match"),
        (deb, "Provenance", "1 computed checksum did NOT match"),
        (provenance(&release).0.as_str(), "Signature and checksums", "1 computed checksum did NOT match"),
        ("SHA256SUMS", "Signature and checksums", "Signature verification failed"),
        ("SHA256SUMS.sig", "Signature and checksums", "Signature verification failed"),
    ] {
        let file = release.join(changed);
        let data = std::fs::read(&file).unwrap();
        // A letter near the end: in the file of the signature, the signature itself is there.
        let (mut other, near) = (data.clone(), data.len().saturating_sub(60));
        let letter = other[near..].iter_mut().find(|byte| byte.is_ascii_alphanumeric()).unwrap();
        *letter = if *letter == b'A' { b'B' } else { b'A' };
        std::fs::write(&file, other).unwrap();
        let ran = verify(&release, section);
        let text = [ran.stdout, ran.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
        assert!(!ran.status.success() && text.contains(message), "{changed}, {section}: {text}");
        std::fs::write(&file, data).unwrap();
    }
    succeeds("Signature and checksums");

    std::fs::write(release.join("kubegc-extra.tar.gz"), "from elsewhere").unwrap();
    let ran = verify(&release, "Signature and checksums");
    assert!(
        !ran.status.success() && String::from_utf8_lossy(&ran.stdout).contains("kubegc-extra.tar.gz: no checksum"),
        "{ran:?}"
    );
    std::fs::remove_file(release.join("kubegc-extra.tar.gz")).unwrap();

    // The key may sign nothing else, and no other key may sign.
    std::fs::write(release.join("release-signers"), signer.replace("kubegc-release", "file")).unwrap();
    assert!(!verify(&release, "Signature and checksums").status.success(), "a key for another namespace");
    std::fs::write(release.join("release-signers"), include_str!("../../../packaging/release-signers")).unwrap();
    let signed = verify(&release, "Signature and checksums").status.success();
    assert!(!signed, "this key is not in the repository");
}

/// Replaces a script of a repository.
fn replace(repository: &Path, script: &str, text: &str) {
    let path = repository.join("scripts").join(script);
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// The scripts are those of a release, but the program in the files is a small one. The tested one prints its man pages.
#[test]
fn the_checksums_of_a_release_cover_each_file_but_themselves() {
    let dir = repository();
    replace(dir.path(), "binary.sh", "case \"$*\" in *--compiler) rustc -vV ;; *) echo /bin/true ;; esac");
    let tree = std::fs::read_to_string(dir.path().join("scripts/tree.sh")).unwrap();
    let tested = concat!("binary=", env!("CARGO_BIN_EXE_kubegc"));
    std::fs::write(dir.path().join("scripts/tree.sh"), tree.replace("binary=$1", tested)).unwrap();
    replace(dir.path(), "sbom.sh", "echo '{}'");
    git(dir.path(), &["commit", "--quiet", "--all", "--message", "scripts: a small program"]);
    let keys = tempfile::tempdir().unwrap();
    let (key, signer) = key(keys.path());
    let built = output(dir.path(), "scripts/release.sh", &["--snapshot", "--key", &key]);
    let (first, _) = built.split_once('\n').unwrap();
    let release = Path::new(first.split_once(", in ").unwrap().1.trim_end_matches(':'));

    let files = checksums(release);
    let (name, statement) = provenance(release);
    let without = |names: &[&str]| {
        let mut rest = files.clone();
        rest.retain(|file, _| !names.contains(&file.as_str()));
        rest
    };
    assert_eq!(subjects(&statement), without(&[&name, CHECKSUMS[0], CHECKSUMS[1]]));
    let sums = std::fs::read_to_string(release.join("SHA256SUMS")).unwrap();
    let lines = sums.lines().map(|line| line.split_once("  ").unwrap());
    let listed: BTreeMap<_, _> = lines.map(|(sum, file)| (file.to_owned(), sum.to_owned())).collect();
    assert_eq!(listed, without(&CHECKSUMS));
    let dependencies = statement["predicate"]["buildDefinition"]["resolvedDependencies"].as_array().unwrap();
    let compilers = dependencies.iter().filter_map(|one| one["name"].as_str()?.strip_prefix("rustc for "));
    assert_eq!(compilers.collect::<BTreeSet<_>>(), BTreeSet::from(["amd64", "arm64"]));

    let version = release.file_name().unwrap().to_str().unwrap().strip_prefix("release-").unwrap();
    let image = format!("ghcr.io/kubegc/kubegc:{}", version.replace('~', "-"));
    let joined = super::index::platforms(&release.join(format!("kubegc-{version}-image.tar")), &image);
    assert_eq!(joined.len(), 2, "{joined:?}");

    std::fs::write(release.join("release-signers"), signer).unwrap();
    for section in ["Signature and checksums", "Provenance"] {
        let ran = verify(release, section);
        assert!(ran.status.success(), "{section}: {ran:?}");
    }
}
