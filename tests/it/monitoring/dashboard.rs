//! The dashboard for Grafana: what it queries, and that it can be imported.

use std::collections::BTreeSet;

use kubegc::metrics::{AGENT, CONTROLLER, Definition};
use serde_json::Value;

use crate::manifests::packaging;

/// Metrics that no panel shows.
const NOT_SHOWN: [&str; 2] = ["kubegc_config_last_reload_success_timestamp_seconds", "kubegc_image_disk_inodes"];
/// What Grafana replaces in a query, and a value for it.
const REPLACED: [(&str, &str); 4] =
    [("$instance", ".+"), ("$controller", ".+"), ("$__rate_interval", "10s"), ("$__range", "1h")];

/// The dashboard.
pub struct Dashboard(Value);

/// A query of a panel.
#[derive(Debug)]
pub struct Query {
    /// The title of the panel and the letter of the query.
    pub name: String,
    /// Without variables.
    pub expression: String,
}

// === impl Dashboard ===

impl Dashboard {
    /// Reads the shipped file.
    pub fn read() -> Self {
        let text = std::fs::read_to_string(packaging("monitoring/dashboard.json")).unwrap();
        Self(serde_json::from_str(&text).unwrap())
    }

    /// Returns the queries of the panels in a row.
    pub fn queries(&self, row: &str) -> Vec<Query> {
        let panels = self.panels().iter().skip_while(|panel| panel["title"] != row || panel["type"] != "row").skip(1);
        let panels = panels.take_while(|panel| panel["type"] != "row");
        let queries: Vec<_> = panels.flat_map(of_panel).collect();
        assert!(!queries.is_empty(), "no row {row:?}");
        queries
    }

    fn panels(&self) -> &[Value] {
        self.0["panels"].as_array().unwrap()
    }

    /// Returns the name of each variable with values from a query, and the query.
    fn variables(&self) -> Vec<(&str, &str)> {
        let variables = self.0["templating"]["list"].as_array().unwrap().iter();
        variables.filter_map(|one| Some((one["name"].as_str()?, one["query"]["query"].as_str()?))).collect()
    }
}

fn of_panel(panel: &Value) -> Vec<Query> {
    let query = |target: &Value| {
        let mut expression = target["expr"].as_str().unwrap().to_owned();
        for (variable, value) in REPLACED {
            expression = expression.replace(variable, value);
        }
        assert!(!expression.contains('$'), "{expression}: a variable without a value");
        Query { name: format!("{} {}", text(&panel["title"]), text(&target["refId"])), expression }
    };
    panel["targets"].as_array().unwrap().iter().map(query).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}"))
}

/// Grafana draws what overlaps below all others, and takes the data source of the installation if a panel has none.
#[test]
fn each_panel_has_place_data_source_and_description() {
    let dashboard = Dashboard::read();
    let (mut ids, mut cells) = (BTreeSet::new(), BTreeSet::new());
    for panel in dashboard.panels() {
        let [x, y, w, h] = ["x", "y", "w", "h"].map(|key| panel["gridPos"][key].as_u64().unwrap());
        assert!(x + w <= 24 && w * h > 0, "{panel}");
        let covers = (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y)));
        assert!(covers.into_iter().all(|cell| cells.insert(cell)), "it overlaps another one: {panel}");
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{panel}");
        if panel["type"] != "row" {
            assert_eq!(panel["datasource"]["uid"], "${datasource}", "{panel}");
            assert!(text(&panel["description"]).ends_with('.'), "{panel}");
            assert!(!text(&panel["fieldConfig"]["defaults"]["unit"]).is_empty(), "{panel}");
        }
    }
    let height = cells.iter().map(|(_, y)| y + 1).max().unwrap();
    assert_eq!(cells.len() as u64, 24 * height, "no gaps");
}

#[test]
fn variables_select_by_labels_that_all_metrics_have() {
    let dashboard = Dashboard::read();
    let expected = [
        ("instance", "label_values(kubegc_lock_held, instance)"),
        ("controller", "label_values(kubegc_controller_leader, job)"),
    ];
    assert_eq!(dashboard.variables(), expected);
    for (row, filter) in [("Agents", "{instance=~\".+\""), ("Controller", "{job=~\".+\"")] {
        for Query { name, expression } in dashboard.queries(row) {
            let metrics = expression.matches("kubegc_").count() + expression.matches("workqueue_").count();
            let others =
                ["garbagecollector_", "pod_gc_", "rest_client_"].map(|prefix| expression.matches(prefix).count());
            assert_eq!(
                expression.matches(filter).count(),
                metrics + others.iter().sum::<usize>(),
                "{name}: {expression}"
            );
        }
    }
}

#[test]
fn the_dashboard_shows_each_metric() {
    let dashboard = Dashboard::read();
    for (row, metrics) in [("Agents", AGENT), ("Controller", CONTROLLER)] {
        let queries: String = dashboard.queries(row).into_iter().map(|query| query.expression + "\n").collect();
        for metric in metrics.iter().map(Definition::sample) {
            let is_shown =
                [format!("{metric}{{"), format!("{metric}_bucket{{")].iter().any(|name| queries.contains(name));
            assert_eq!(is_shown, !NOT_SHOWN.contains(&metric.as_str()), "{row}: {metric}");
        }
    }
}
