//! The Debian package: installation, upgrade, removal and purge under a real systemd.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{SETTINGS, deleted_pod, has_pod, until, write_settings};
use crate::on_node::readme;
use crate::release::files;
use crate::rig::{NodeRig, Options, Systemd};

const BINARY: &str = env!("CARGO_BIN_EXE_kubegc");

/// Builds a package of this version, with the tested binary, in `dir`.
fn package(dir: &Path, version: &str) -> PathBuf {
    let file = dir.join(format!("kubegc_{version}.deb"));
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/deb.sh");
    let made = Command::new(script).args(["--version", version, "--binary", BINARY]).arg(&file).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    file
}

fn install(package: &Path) -> String {
    format!("dpkg --install {}", package.display())
}

/// Installs another version over a running one, whose binary then runs.
async fn replace(systemd: &Systemd<'_>, package: &Path) {
    let before = systemd.property("kubegc", "MainPID");
    systemd.sh(&install(package));
    systemd.becomes("kubegc", "ActiveState", |state| state == "active").await;
    assert_ne!(systemd.property("kubegc", "MainPID"), before, "it runs the binary of {}", package.display());
}

/// Every later state of a package needs the earlier one, so this is one test.
#[tokio::test(flavor = "multi_thread")]
async fn the_package_is_installed_upgraded_removed_and_purged() {
    let node = NodeRig::start_runtime_alone(Options::default()).await;
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let [old, new] = ["0.0.1-1", "0.0.2-1"].map(|version| package(dir.path(), version));
    deleted_pod(&node, "gone-0").await;
    let systemd = Systemd::boot(&node).await;

    // The configuration of the administrator is there before the package.
    systemd.sh("mkdir -p /etc/kubegc/conf.d");
    write_settings(&systemd, "conf.d/10-test.toml", SETTINGS);
    systemd.sh(&install(&old));
    systemd.becomes("kubegc", "ActiveState", |state| state == "active").await;
    assert_eq!(systemd.property("kubegc", "UnitFileState"), "enabled");
    assert_eq!(systemd.property("kubegc-collect.timer", "UnitFileState"), "disabled");
    let observed = async || systemd.sh("journalctl --unit kubegc --output cat").contains("would_remove");
    until("the service logs what it would remove", &systemd, observed).await;
    assert!(has_pod(&node, "gone-0").await, "it removes nothing yet");
    for command in &readme::commands("make deb")[1..] {
        systemd.sh(command);
    }
    until("the deleted pod is removed", &systemd, async || !has_pod(&node, "gone-0").await).await;
    systemd.sh("kubegc config check; kubegc version; test -s /usr/share/man/man1/kubegc-collect.1.gz");
    for completions in [
        "bash-completion/completions/kubegc",
        "zsh/vendor-completions/_kubegc",
        "fish/vendor_completions.d/kubegc.fish",
    ] {
        systemd.sh(&format!("grep -q kubegc /usr/share/{completions}"));
    }

    // An upgrade keeps changed settings and the store, and the new binary runs.
    systemd.sh("echo 'log.level = \"debug\"' >>/etc/kubegc/kubegc.toml");
    replace(&systemd, &new).await;
    assert!(systemd.sh("kubegc history").contains("gone-0"), "the store has what the old one removed");
    assert!(systemd.sh("kubegc config show").contains("debug"), "the settings are those of the administrator");

    // So does a downgrade.
    replace(&systemd, &old).await;
    assert!(systemd.sh("kubegc history; kubegc config show").contains("gone-0"), "the store of the new one is read");
    assert!(systemd.sh("kubegc config show").contains("debug"), "the settings are those of the administrator");

    // A service that was disabled remains so.
    systemd.sh("systemctl disable --now kubegc");
    systemd.sh(&install(&new));
    assert_eq!(systemd.property("kubegc", "ActiveState"), "inactive");
    systemd.sh("systemctl enable --now kubegc kubegc-collect.timer");

    systemd.sh("dpkg --remove kubegc");
    assert_eq!(systemd.property("kubegc", "ActiveState"), "inactive");
    assert_eq!(systemd.property("kubegc-collect.timer", "ActiveState"), "inactive");
    systemd.sh("test ! -e /usr/bin/kubegc; test -e /var/lib/kubegc/kubegc.db; grep -q debug /etc/kubegc/kubegc.toml");

    systemd.sh("dpkg --purge kubegc; test ! -e /var/lib/kubegc; test ! -e /etc/kubegc/kubegc.toml");
    let links = systemd.out("find", &["/etc/systemd/system", "-name", "kubegc*"]);
    assert_eq!(links, "", "no link to a unit is left");
    systemd.sh("test -e /etc/kubegc/conf.d/10-test.toml"); // not the package's
}

/// The package with the optimized static binary, under the limits of the unit.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "make test-release builds the package"]
async fn the_package_of_a_release_collects_and_is_purged() {
    let node = NodeRig::start_runtime_alone(Options::default()).await;
    deleted_pod(&node, "gone-0").await;
    // systemd sees the directory of the tests, and not each place that a release may be at.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let package = dir.path().join("kubegc.deb");
    std::fs::copy(files::package("amd64"), &package).unwrap();
    let systemd = Systemd::boot(&node).await;
    systemd.sh("mkdir -p /etc/kubegc/conf.d");
    write_settings(&systemd, "conf.d/10-test.toml", SETTINGS);
    systemd.sh(&install(&package));
    systemd.becomes("kubegc", "ActiveState", |state| state == "active").await;
    for command in &readme::commands("make deb")[1..] {
        systemd.sh(command);
    }
    until("the deleted pod is removed", &systemd, async || !has_pod(&node, "gone-0").await).await;
    systemd.sh("dpkg --purge kubegc; test ! -e /usr/bin/kubegc; test ! -e /var/lib/kubegc");
}

#[test]
#[ignore = "make test-release: it takes two minutes"]
fn lintian_finds_no_error_in_the_package() {
    let dir = tempfile::tempdir().unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/lintian.sh");
    let checked = Command::new(script).arg(package(dir.path(), "0.0.1-1")).output().unwrap();
    let [found, failed] = [checked.stdout, checked.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(checked.status.success(), "{found}\n{failed}");
}
