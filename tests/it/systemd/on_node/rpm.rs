//! The RPM package: its files, and its installation, upgrade and removal under a real systemd.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{SETTINGS, write_settings};
use crate::on_node::readme;
use crate::rig::{NodeRig, Options, Systemd};

/// The preset of Fedora and RHEL for the services of others.
const PRESET: &str = "mkdir -p /etc/systemd/system-preset
    echo 'disable *' >/etc/systemd/system-preset/99-default-disable.preset";

/// Builds a package with the script of its format and the tested binary.
fn build(format: &str, version: &str, file: &Path) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts").join(format).with_extension("sh");
    let arguments = ["--version", version, "--binary", env!("CARGO_BIN_EXE_kubegc")];
    output(script.to_str().unwrap(), &arguments, file);
}

/// Builds an RPM package of this version in `dir`.
fn package(dir: &Path, version: &str) -> PathBuf {
    let file = dir.join(format!("kubegc-{version}-1.{}.rpm", std::env::consts::ARCH));
    build("rpm", version, &file);
    file
}

/// Runs a program on a file. It must succeed. Returns its output. rpm writes a database into the home directory.
fn output(program: &str, args: &[&str], file: &Path) -> String {
    let done = Command::new(program).args(args).arg(file).env("HOME", file.parent().unwrap()).output();
    let done = done.unwrap_or_else(|error| panic!("{program}: {error}; scripts/setup.sh installs what is missing"));
    let [out, err] = [&done.stdout, &done.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert!(done.status.success(), "{program} {args:?}: {out}\n{err}");
    out
}

/// Installs a package, or upgrades to it. rpm does not know Debian's packages, so dependencies are not checked.
fn install(package: &Path) -> String {
    format!("rpm --upgrade --force-debian --nodeps {}", package.display())
}

/// Returns mode, owner and path of each file and directory of kubegc in an RPM package.
fn files_of_rpm(package: &Path) -> BTreeSet<String> {
    let format = "[%{FILEMODES:perms} %{FILEUSERNAME}/%{FILEGROUPNAME} %{FILENAMES}\\n]";
    let listed = output("rpm", &["--query", "--queryformat", format, "--package"], package);
    listed.lines().map(str::to_owned).collect()
}

/// Returns the same of a Debian package, which also lists the directories of the system.
fn files_of_deb(package: &Path) -> BTreeSet<String> {
    let listed = output("dpkg-deb", &["--contents"], package);
    let file = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        format!("{} {} {}", words[0], words[1], words[5].trim_start_matches('.').trim_end_matches('/'))
    };
    listed.lines().filter(|line| line.contains("kubegc")).map(file).collect()
}

/// Returns the paths that only the first set has.
fn only_in<'a>(these: &'a BTreeSet<String>, others: &'a BTreeSet<String>) -> Vec<&'a str> {
    these.difference(others).map(|file| file.rsplit(' ').next().unwrap()).collect()
}

#[test]
fn the_rpm_package_has_the_files_of_the_debian_package() {
    let dir = tempfile::tempdir().unwrap();
    let deb = dir.path().join("kubegc.deb");
    build("deb", "0.0.1-1", &deb);
    let [rpm, deb] = [files_of_rpm(&package(dir.path(), "0.0.1")), files_of_deb(&deb)];
    let of_rpm = [
        "/usr/share/doc/kubegc/CHANGELOG.md",
        "/usr/share/licenses/kubegc/LICENSE",
        "/usr/share/zsh/site-functions/_kubegc",
        "/usr/share/licenses/kubegc",
    ];
    let of_deb = [
        "/usr/share/doc/kubegc/changelog.Debian.gz",
        "/usr/share/doc/kubegc/changelog.gz",
        "/usr/share/doc/kubegc/copyright",
        "/usr/share/lintian/overrides/kubegc",
        "/usr/share/zsh/vendor-completions/_kubegc",
    ];
    assert_eq!(only_in(&rpm, &deb), of_rpm);
    assert_eq!(only_in(&deb, &rpm), of_deb);
    let permitted = ["-rw-r--r-- root/root ", "drwxr-xr-x root/root ", "-rwxr-xr-x root/root /usr/bin/"];
    for file in &rpm {
        assert!(permitted.iter().any(|mode| file.starts_with(mode)), "{file}");
    }
}

/// The same bytes, in another directory and at another time.
#[test]
fn two_builds_of_the_rpm_package_are_the_same() {
    let [one, other] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let [one, other] = [&one, &other].map(|dir| std::fs::read(package(dir.path(), "0.0.1~abcdef123456")).unwrap());
    assert!(one == other);
}

#[test]
fn rpmlint_finds_nothing_in_the_package() {
    let dir = tempfile::tempdir().unwrap();
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/packaging/rpm/rpmlint.toml");
    output("rpmlint", &["--strict", "--config", config], &package(dir.path(), "0.0.1"));
}

/// Every later state of a package needs the earlier one, so this is one test.
#[tokio::test(flavor = "multi_thread")]
async fn the_rpm_package_is_installed_upgraded_and_removed() {
    let node = NodeRig::start_runtime_alone(Options::default()).await;
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let [old, new] = ["0.0.1", "0.0.2"].map(|version| package(dir.path(), version));
    let systemd = Systemd::boot(&node).await;
    systemd.sh(PRESET);

    // The configuration of the administrator is there before the package, which does not replace it.
    systemd.sh("mkdir -p /etc/kubegc/conf.d; echo 'log.level = \"debug\"' >/etc/kubegc/kubegc.toml");
    write_settings(&systemd, "conf.d/10-test.toml", SETTINGS);
    systemd.sh(&install(&old));
    systemd.sh("test -e /etc/kubegc/kubegc.toml.rpmnew; grep -q debug /etc/kubegc/kubegc.toml");
    let changed = systemd.out("rpm", &["--verify", "--nodeps", "kubegc"]);
    assert!(changed.lines().count() == 1 && changed.ends_with("  c /etc/kubegc/kubegc.toml"), "{changed}");
    systemd.sh("systemd-analyze verify /usr/lib/systemd/system/kubegc*");

    // The service starts when the administrator enables it.
    for unit in ["kubegc", "kubegc-collect.timer"] {
        assert_eq!(systemd.property(unit, "UnitFileState"), "disabled", "{unit}");
        assert_eq!(systemd.property(unit, "ActiveState"), "inactive", "{unit}");
    }
    // The package is installed already, so the first command of docs/installation.md only starts the service.
    let commands = readme::commands("rpm --install");
    let start = commands[0].strip_prefix("rpm --install kubegc-*.rpm && ").unwrap();
    systemd.sh(start);
    systemd.sh(&commands[1..].join("\n"));
    systemd.sh("kubegc config show | grep -q 'mode = \"collect\"'; systemctl enable --now kubegc-collect.timer");
    let first = systemd.property("kubegc", "MainPID");

    // An upgrade keeps changed settings, and the new binary runs.
    systemd.sh(&install(&new));
    assert_eq!(systemd.property("kubegc", "ActiveState"), "active", "{}", systemd.journal());
    assert_eq!(systemd.property("kubegc", "NeedDaemonReload"), "no");
    assert_ne!(systemd.property("kubegc", "MainPID"), first, "it runs the new binary");
    assert!(systemd.sh("kubegc config show").contains("debug"), "the settings are those of the administrator");

    // A removal keeps changed settings under another name, and the store.
    systemd.sh("rpm --erase --nodeps kubegc; grep -q debug /etc/kubegc/kubegc.toml.rpmsave");
    for unit in ["kubegc", "kubegc-collect.timer"] {
        assert_eq!(systemd.property(unit, "ActiveState"), "inactive", "{unit}");
        assert_eq!(systemd.property(unit, "LoadState"), "not-found", "{unit}");
    }
    let links = systemd.out("find", &["/etc/systemd/system", "-name", "kubegc*"]);
    assert_eq!(links, "", "no link to a unit is left");
    systemd.sh("test ! -e /usr/bin/kubegc; test -e /var/lib/kubegc/kubegc.db; test -e /etc/kubegc/conf.d/10-test.toml");
}
