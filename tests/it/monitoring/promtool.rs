//! promtool accepts names, types and texts. `scripts/prometheus.sh` fetches it.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use kubegc::metrics::{ControllerMetrics, EngineFigures, Exposition};

use super::http::get;
use super::prometheus::program;
use super::{Home, service, sim};
use crate::manifests::packaging;

/// Returns what `promtool check metrics` finds.
fn check(metrics: &str) -> String {
    let mut promtool = Command::new(program("promtool"));
    promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut promtool = promtool.spawn().unwrap();
    promtool.stdin.take().unwrap().write_all(metrics.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
}

/// Returns what follows this key in the lines of a file, in order.
fn values(text: &str, key: &str) -> Vec<String> {
    let of_line = |line: &str| Some(line.trim_start_matches([' ', '-']).strip_prefix(key)?.to_owned());
    text.lines().filter_map(of_line).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn promtool_accepts_a_scrape_of_an_agent() {
    let sim = sim();
    let home = Home::new(&sim, "images.all_unused = true");
    let (mut service, address) = service(&home).await;
    service.first_passes().await;
    assert_eq!(check(&get(&address, "/metrics").body), "");
}

#[test]
fn promtool_accepts_the_file_of_a_collection() {
    let sim = sim();
    let home = Home::new(&sim, "images.all_unused = true");
    for _ in 0..2 {
        assert!(home.run(&["collect", "--metrics-file", "kubegc.prom"]).status.success());
    }
    assert_eq!(check(&home.read("kubegc.prom")), "");
}

/// The file with the tests has for each alert a target that fires it, and one that does not.
#[test]
fn promtool_accepts_alerts_that_fire_in_their_tests() {
    let run = |args: &[&str]| {
        let output =
            Command::new(program("promtool")).args(args).current_dir(packaging("monitoring")).output().unwrap();
        let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(output.status.success(), "{args:?}: {text}");
    };
    run(&["check", "rules", "alerts.yaml"]);
    run(&["test", "rules", "alerts_test.yaml"]);
    let read = |name: &str| std::fs::read_to_string(packaging("monitoring").join(name)).unwrap();
    let names = |name: &str, key: &str| -> BTreeSet<_> { values(&read(name), key).into_iter().collect() };
    let alerts = names("alerts.yaml", "alert: ");
    assert_eq!(names("alerts_test.yaml", "alertname: "), alerts);
    assert_eq!(alerts.len(), 23);
}

/// The sections have the order of the alerts.
#[test]
fn each_alert_has_a_section_in_the_runbook() {
    let read = |path: &str| std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
    let (file, page) = (read("packaging/monitoring/alerts.yaml"), read("docs/runbook.md"));
    let alerts = values(&file, "alert: ");
    assert_eq!(values(&page, "## "), alerts);
    let at = "https://github.com/kubegc/kubegc/blob/main/docs/runbook.md";
    let expected: Vec<_> = alerts.iter().map(|alert| format!("{at}#{}", alert.to_lowercase())).collect();
    assert_eq!(values(&file, "runbook_url: "), expected);
}

#[test]
fn promtool_accepts_the_metrics_of_the_controller() {
    let metrics = ControllerMetrics::default();
    metrics.changed("delete", "removed");
    metrics.pods_passed(jiff::Timestamp::UNIX_EPOCH);
    assert_eq!(check(&metrics.text(Exposition::Prometheus, &EngineFigures::default())), "");
}
