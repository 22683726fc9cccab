//! The chart as a file of a release.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::chart_text;
use crate::manifests::packaging;
use crate::rig::run;

/// Packs the chart of a release, and returns its file.
fn chart(version: &str, dir: &Path) -> PathBuf {
    let script = packaging("../scripts/chart.sh");
    run(Command::new(script).args(["--version", version]).arg(dir)).trim_end().into()
}

/// The bytes have no time, owner, or order of the file system.
#[test]
fn the_packed_chart_is_reproducible_and_equals_its_directory() {
    let [one, two] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let version = env!("CARGO_PKG_VERSION");
    let [first, second] = [&one, &two].map(|dir| chart(version, dir.path()));
    assert_eq!(first.file_name().unwrap(), format!("kubegc-{version}.tgz").as_str());
    assert_eq!(std::fs::read(&first).unwrap(), std::fs::read(second).unwrap());
    let listed = run(Command::new("tar").arg("-tvzf").arg(&first));
    assert!(listed.lines().all(|line| line.contains(" 0/0 ") && line.contains(" kubegc/")), "{listed}");
    assert!(listed.contains("kubegc/monitoring/alerts.yaml") && !listed.contains("_test.yaml"), "{listed}");
    let values = "prometheusRule.enabled=true";
    assert_eq!(chart_text(&first, values), chart_text(&packaging("chart"), values));
}

/// A part of a semantic version that is a number cannot start with 0.
#[test]
fn the_chart_of_a_snapshot_names_its_commit() {
    let dir = tempfile::tempdir().unwrap();
    let file = chart("0.1.0~012345678901", dir.path());
    assert_eq!(file.file_name().unwrap(), "kubegc-0.1.0-g012345678901.tgz");
    let objects = chart_text(&file, "dryRun=true");
    assert!(objects.contains("helm.sh/chart: kubegc-0.1.0-g012345678901\n"), "{objects}");
    assert!(
        objects.contains("image: ghcr.io/kubegc/kubegc:0.1.0-012345678901\n"),
        "the tag of scripts/release.sh: {objects}"
    );
}
