//! `docs/metrics.md` has exactly the metrics of a real agent.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use kubegc::metrics::{AGENT, CONTROLLER, ControllerMetrics, Definition, EngineFigures, Exposition, PROCESS, page};
use kubegc::sim::{Fault, Rpc, Times};

use super::http::get;
use super::{Home, OFTEN, remember_growth, service, sim};
use crate::rig::becomes_true;

/// The heading before the generated tables, and the one after them.
const BOUNDS: [&str; 2] = ["## Agent\n", "## Queries\n"];

/// `scripts/generate.sh` writes the tables instead.
#[test]
fn the_page_has_the_tables_of_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/metrics.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let [begin, end] = BOUNDS.map(|bound| text.find(bound).unwrap_or_else(|| panic!("no heading {bound:?}")));
    let current = format!("{}{}\n{}", &text[..begin], page(), &text[end..]);
    if std::env::var_os("KUBEGC_GENERATE").is_some() {
        std::fs::write(&path, &current).unwrap();
    }
    assert!(std::fs::read_to_string(&path).unwrap() == current, "{path:?} is not current: run scripts/generate.sh");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_serves_exactly_the_metrics_of_the_page() {
    let sim = sim();
    sim.fault(Rpc::ImageFsInfo, Fault::Fail(tonic::Code::Internal), Times::N(1));
    let home = Home::new(&sim, &format!("{OFTEN}pressure.free_inodes_percent = 1"));
    remember_growth(&home, &sim);
    let (mut service, address) = service(&home).await;
    for _ in 0..4 {
        service.says("pass done").await;
    }
    // The account of the disks is taken beside the passes.
    assert!(becomes_true(async || get(&address, "/metrics").body.contains("kubegc_leftovers{")).await);
    assert_eq!(served(&get(&address, "/metrics").body), defined(&[AGENT, PROCESS].concat()));
}

#[test]
fn a_controller_serves_exactly_the_metrics_of_the_page() {
    let metrics = ControllerMetrics::of_service();
    metrics.leads(true);
    metrics.reloaded(Some(jiff::Timestamp::UNIX_EPOCH));
    metrics.changed("delete", "removed");
    metrics.pods_passed(jiff::Timestamp::UNIX_EPOCH);
    metrics.requested("GET", Some(200), Duration::ZERO);
    metrics.timings().waited(Duration::ZERO);
    metrics.timings().worked(Duration::ZERO);
    let text = metrics.text(Exposition::Prometheus, &EngineFigures::default());
    assert_eq!(served(&text), defined(&[CONTROLLER, PROCESS].concat()));
}

/// An alert, a panel or a query with a metric that does not exist never fires and shows nothing.
#[test]
fn alerts_panels_and_queries_name_metrics_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let known: BTreeSet<_> = [AGENT, CONTROLLER, PROCESS].concat().iter().map(Definition::sample).collect();
    let mut named = 0;
    for file in ["packaging/monitoring/alerts.yaml", "packaging/monitoring/dashboard.json", "docs/metrics.md"] {
        let text = std::fs::read_to_string(root.join(file)).unwrap();
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let prefixes = ["kubegc_", "garbagecollector_", "workqueue_", "pod_gc_collector_", "process_", "rest_client_"];
        for word in words.filter(|word| prefixes.iter().any(|prefix| word.starts_with(prefix))) {
            let family = ["_bucket", "_count"].iter().find_map(|suffix| word.strip_suffix(suffix)).unwrap_or(word);
            assert!(known.contains(family), "{file} names {word}");
            named += 1;
        }
    }
    assert!(named > 60, "{named}");
}

/// The type and the labels of metrics, by name.
type Metrics = BTreeMap<String, (String, BTreeSet<String>)>;

fn defined(definitions: &[Definition]) -> Metrics {
    let metric = |definition: &Definition| {
        let labels = definition.labels.iter().map(|label| (*label).to_owned()).collect();
        (definition.sample(), (definition.of.as_str().to_owned(), labels))
    };
    definitions.iter().map(metric).collect()
}

fn served(text: &str) -> Metrics {
    let mut metrics = Metrics::new();
    for line in text.lines() {
        if let Some((name, of)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            metrics.insert(name.to_owned(), (of.to_owned(), BTreeSet::new()));
        } else if !line.starts_with('#') {
            let (name, labels) = line.split_once('{').unwrap_or((line.split(' ').next().unwrap(), ""));
            let family = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix));
            let family = family.filter(|family| metrics.contains_key(*family)).unwrap_or(name);
            let (_, known) = metrics.get_mut(family).unwrap_or_else(|| panic!("no type of {line}"));
            let names = labels.split("=\"").map(|part| part.rsplit([',', '"']).next().unwrap().to_owned());
            known.extend(names.filter(|name| !name.is_empty() && name != "le" && !name.contains('}')));
        }
    }
    metrics
}
