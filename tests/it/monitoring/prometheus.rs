//! A Prometheus scrapes an agent: each query of the dashboard has data, and each alert can be evaluated.
//! `scripts/prometheus.sh` fetches it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use kubegc::sim::{Fault, Rpc, Sim, Times};
use serde_json::{Value, json};

use super::dashboard::{Dashboard, Query};
use super::http::send;
use super::{Home, OFTEN, WEB, node, remember_growth, service};
use crate::manifests::{documents, packaging};
use crate::rig::{Daemon, becomes_true};

/// A Prometheus with a store of its own. It ends with the test.
pub struct Prometheus {
    address: String,
    daemon: Daemon,
    _dir: tempfile::TempDir,
}

// === impl Prometheus ===

impl Prometheus {
    /// Starts one that scrapes these addresses every second.
    pub async fn start(targets: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let job = json!({ "job_name": "kubegc", "static_configs": [{ "targets": targets }] });
        let config = json!({ "global": { "scrape_interval": "1s" }, "scrape_configs": [job] });
        std::fs::write(dir.path().join("config"), config.to_string()).unwrap();
        let mut command = Command::new(program("prometheus"));
        command.arg("--config.file").arg(dir.path().join("config"));
        command.arg("--storage.tsdb.path").arg(dir.path().join("data")).arg("--web.listen-address=127.0.0.1:0");
        let daemon = Daemon::start(command, dir.path().join("log"));
        // The two messages come from two threads, in either order.
        let mut address = None;
        let is_ready = async || {
            let log = daemon.log();
            let listening = log.split("msg=\"Listening on\" address=").nth(1);
            address = listening.and_then(|rest| rest.split_once('\n')).map(|(address, _)| address.to_owned());
            address.is_some() && log.contains("Server is ready to receive web requests")
        };
        assert!(becomes_true(is_ready).await, "{}", daemon.log());
        Self { address: address.unwrap(), daemon, _dir: dir }
    }

    /// Returns the series of an expression now, or why Prometheus refuses it.
    pub fn query(&self, expression: &str) -> Result<Vec<Value>, String> {
        let encoded = expression.bytes().fold(String::new(), |mut all, byte| {
            write!(all, "%{byte:02X}").unwrap();
            all
        });
        let body = send(&self.address, &format!("GET /api/v1/query?query={encoded} HTTP/1.0\r\n\r\n")).body;
        let answer: Value = serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"));
        match answer["data"]["result"].as_array() {
            Some(series) if answer["status"] == "success" => Ok(series.clone()),
            _ => Err(answer["error"].to_string()),
        }
    }

    /// Waits until each query has data, except the `empty` ones: the name of a query, and why it has no data here.
    pub async fn shows(&self, queries: &[Query], empty: &[(&str, &str)]) {
        let is_empty = |query: &Query| empty.iter().any(|(name, _)| *name == query.name);
        for (name, why) in empty {
            assert!(queries.iter().any(|query| query.name == *name), "{name:?} is no query; it would be empty: {why}");
        }
        let mut missing = Vec::new();
        let complete = async || {
            let has_data = |query: &&Query| !is_empty(query) && self.series(query).is_empty();
            missing = queries.iter().filter(has_data).collect();
            missing.is_empty()
        };
        assert!(becomes_true(complete).await, "no data: {missing:#?}\n{}", self.daemon.log());
        for query in queries.iter().filter(|query| is_empty(query)) {
            assert_eq!(self.series(query), Vec::<Value>::new(), "{query:?} has data");
        }
    }

    fn series(&self, query: &Query) -> Vec<Value> {
        self.query(&query.expression).unwrap_or_else(|error| panic!("{query:?}: {error}"))
    }
}

/// Returns the path of a program of Prometheus.
pub fn program(name: &str) -> PathBuf {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/prometheus.sh");
    let output = Command::new(script).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Path::new(String::from_utf8(output.stdout).unwrap().trim_end()).join(name)
}

/// In each pass a sandbox is not removed, so its log directory is refused, and a guard keeps a container. So each query
/// has data.
#[tokio::test(flavor = "multi_thread")]
async fn each_dashboard_query_has_data_of_an_agent() {
    let sim = Sim::start(node().foreign("tool").exited("tool", WEB)).unwrap();
    sim.fault(Rpc::RemovePodSandbox, Fault::Fail(tonic::Code::Internal), Times::Forever);
    let home = Home::new(&sim, &format!("{OFTEN}pressure.free_inodes_percent = 1"));
    remember_growth(&home, &sim);
    let (_service, address) = service(&home).await;
    let prometheus = Prometheus::start(&[&address]).await;
    prometheus.shows(&Dashboard::read().queries("Agents"), &[]).await;
    for file in documents(&packaging("monitoring/alerts.yaml")) {
        for rule in file["groups"].as_array().unwrap().iter().flat_map(|group| group["rules"].as_array().unwrap()) {
            let evaluated = prometheus.query(rule["expr"].as_str().unwrap());
            assert!(evaluated.is_ok(), "{rule}: {evaluated:?}");
        }
    }
}
