//! `helm upgrade --reuse-values`: Helm renders the chart with the values of the release before, which lack the keys that came later.

use std::path::PathBuf;
use std::process::Command;

use super::{ALL, chart_text, helm};
use crate::manifests::packaging;
use crate::rig::run;

/// Returns the released versions, newest first.
fn releases() -> Vec<&'static str> {
    let heads = include_str!("../../../../CHANGELOG.md").lines().filter_map(|line| line.strip_prefix("## "));
    let versions = heads.filter_map(|head| head.split(' ').next());
    versions.filter(|version| version.starts_with(|first: char| first.is_ascii_digit())).collect()
}

fn values_of(release: &str) -> PathBuf {
    packaging("../tests/data/charts").join(format!("values-{release}.yaml"))
}

#[test]
fn every_release_has_its_values_for_the_next_ones() {
    assert!(!releases().is_empty());
    for release in releases() {
        let file = values_of(release);
        assert!(file.exists(), "for a release: cp packaging/chart/values.yaml {}", file.display());
    }
}

#[test]
fn a_key_that_an_earlier_release_lacks_has_its_default() {
    for release in releases() {
        let dir = tempfile::tempdir().unwrap();
        run(Command::new("cp").arg("-rL").arg(packaging("chart")).arg(dir.path()));
        let (chart, old) = (dir.path().join("chart"), values_of(release));
        std::fs::copy(&old, chart.join("values.yaml")).unwrap();
        for values in ["dryRun=true", ALL, "agent.enabled=false,controller.enabled=true"] {
            let (whole, old) = (packaging("chart").display().to_string(), old.display().to_string());
            let expected = helm(&["template", "kubegc", &whole, "-n", "kubegc-system", "-f", &old, "--set", values]);
            let expected = String::from_utf8(expected.stdout).unwrap();
            assert_eq!(chart_text(&chart, values), expected, "{release}: {values}");
        }
    }
}
