//! The file of `kubegc collect` for `node_exporter`.

use super::{Home, sim, value};

const FILE: &[&str] = &["collect", "-q", "--metrics-file", "kubegc.prom"];

#[test]
fn counts_of_a_collection_continue_in_the_next_one() {
    let sim = sim();
    let home = Home::new(&sim, "images.all_unused = true");
    for passes in [1.0, 2.0] {
        let output = home.run(FILE);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let metrics = home.read("kubegc.prom");
        for (series, expected) in [
            ("kubegc_passes_total{scope=\"all\",result=\"succeeded\"}", passes),
            ("kubegc_pass_duration_seconds_count{scope=\"all\"}", passes),
            ("kubegc_removed_total{kind=\"image\",reason=\"unused\"}", 1.0),
        ] {
            assert_eq!(value(&metrics, series), Some(expected), "{series}\n{metrics}");
        }
        for series in [
            "kubegc_filesystem_capacity_bytes{filesystem=\"images\"}",
            "kubegc_filesystem_inodes{filesystem=\"images\"}",
        ] {
            assert!(value(&metrics, series).is_some_and(|value| value > 0.0), "{series}\n{metrics}");
        }
        assert!(!metrics.contains("# EOF") && !metrics.contains("kubegc_lock_held"), "{metrics}");
    }
}

#[test]
fn a_collection_without_a_runtime_counts_as_failed() {
    let mut sim = sim();
    let home = Home::new(&sim, "");
    assert!(home.run(FILE).status.success());
    let success = "kubegc_pass_last_success_timestamp_seconds{scope=\"all\"}";
    let before = value(&home.read("kubegc.prom"), success);
    assert!(before.is_some());
    sim.stop_listening();
    assert_eq!(home.run(FILE).status.code(), Some(3));
    let metrics = home.read("kubegc.prom");
    assert_eq!(value(&metrics, "kubegc_passes_total{scope=\"all\",result=\"failed\"}"), Some(1.0), "{metrics}");
    assert_eq!(value(&metrics, success), before, "{metrics}");
}

#[test]
fn the_setting_writes_the_file_except_in_dry_runs() {
    let sim = sim();
    let home = Home::new(&sim, "metrics.file = \"set.prom\"");
    assert!(home.run(&["collect", "--dry-run"]).status.success());
    assert!(!home.exists("set.prom"));
    assert!(home.run(&["collect"]).status.success());
    assert!(home.read("set.prom").contains("kubegc_passes_total"));
}

#[test]
fn an_unwritable_file_is_an_error_after_the_collection() {
    let sim = sim();
    let home = Home::new(&sim, "");
    let output = home.run(&["collect", "--metrics-file", "/nowhere/kubegc.prom"]);
    let shown = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{shown}");
    assert!(shown.contains("cannot write metrics to /nowhere/kubegc.prom"), "{shown}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("Removed: 1 container"));
}

#[test]
fn beside_an_agent_the_file_has_the_requested_pass() {
    let sim = sim();
    let home = Home::new(&sim, "containers.interval = \"1h\"\nimages.interval = \"1h\"");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _service = runtime.block_on(async {
        let mut service = home.start(&["run"]);
        service.first_passes().await;
        service
    });
    assert!(home.run(FILE).status.success());
    let metrics = home.read("kubegc.prom");
    assert_eq!(value(&metrics, "kubegc_passes_total{scope=\"all\",result=\"succeeded\"}"), Some(1.0), "{metrics}");
}
