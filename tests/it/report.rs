//! `kubegc report`, on a simulated node.

mod browser;
mod in_browser;

use serde_json::Value;

use crate::cli_on_sim::Host;

#[test]
fn a_report_shows_removals_usage_and_what_is_kept() {
    let host = Host::new();
    host.run(&["collect", "--maximum-dead-containers-per-container", "1"]);
    let page = host.run(&["report"]);
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("<h1>kubegc on n1</h1>"), "{page}");
    let row = "<td>container</td><td class=\"name\">app</td><td class=\"name\">default/crash</td><td>removed</td>";
    assert!(page.contains(row), "{page}");
    assert!(page.contains("% used, at most"), "the disk of the pass: {page}");
    assert!(
        page.contains("<h2 id=\"kept\">Kept, and why</h2>")
            && page.contains("within containers.max_per_pod_container (1)"),
        "{page}"
    );
}

#[test]
fn a_json_report_has_the_data_of_the_page() {
    let host = Host::new();
    host.run(&["collect"]);
    let volume = host.sim.dir().join("kubelet/pods/u-web/volumes/kubernetes.io~empty-dir/cache");
    std::fs::create_dir_all(&volume).unwrap();
    std::fs::write(volume.join("big"), vec![7; 3 << 20]).unwrap();
    let report: Value = serde_json::from_str(&host.run(&["report", "-o", "json"])).unwrap();
    assert_eq!(report["facts"]["node"], "n1");
    assert_eq!(report["past"]["runs"][0]["scope"], "all");
    assert_eq!(report["outlook"]["Ok"]["next"]["count"], 0, "all was removed: {report}");
    let outlook = &report["outlook"]["Ok"];
    assert_eq!(outlook["pods"][0]["volumes"][0]["name"], "cache", "{outlook}");
    assert_eq!(report["past"]["usage"].as_array().unwrap().len(), 1, "{report}");
    assert_eq!(host.run(&["report", "page.html", "-o", "html"]), "");
    assert!(std::fs::read_to_string(host.shell.path("page.html")).unwrap().ends_with("</html>"));
}

#[test]
fn a_page_is_for_reports_alone() {
    let host = Host::new();
    for (arguments, cause) in [
        (["plan", "-o", "html"], "`kubegc plan` has no output format \"html\""),
        (["report", "-o", "wide"], "-o accepts html and json here"),
    ] {
        let output = host.shell.command(&arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains(cause), "{output:?}");
    }
}
