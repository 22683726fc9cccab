//! Metrics and health of the real binary on a simulated node.

pub mod dashboard;
pub mod http;
mod listener;
mod page;
pub mod prometheus;
mod promtool;
mod text_file;

use std::time::Duration;

use kubegc::model::{DiskGrowth, DiskMemory, DiskUse, Memory};
use kubegc::record::Store;
use kubegc::sim::{Fault, MIB, Node, Rpc, Sim, Times};

use crate::agent::{Home, Running};
use crate::rig::becomes_true;
use http::{Answer, get};

/// Any free port.
const ANY: &str = "127.0.0.1:0";
/// A pass over everything each second.
const OFTEN: &str = "images.all_unused = true\ncontainers.interval = \"1s\"\nimages.interval = \"1s\"\n";
const OLD: &str = "docker.io/library/old:1";
const WEB: &str = "docker.io/library/web:1";

/// Returns a node with a container and a sandbox of a deleted pod, and an unused image.
pub fn sim() -> Sim {
    Sim::start(node()).unwrap()
}

fn node() -> Node {
    let node = Node::new().now(kubegc::daemon::now()).ago(Duration::from_hours(5));
    let node = node.image(OLD, &[("old", MIB)]).image(WEB, &[("web", MIB)]);
    let node = node.pod("default", "live", "live").running("app", WEB);
    node.pod("default", "gone", "gone").exited("app", WEB).stopped()
}

/// Stores that the disk of the images grew for two hours, so that the agent makes a forecast at once.
fn remember_growth(home: &Home, sim: &Sim) {
    let path = home.store();
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let at = |minutes: i64| kubegc::daemon::now() - jiff::SignedDuration::from_mins(minutes);
    let growth =
        [120, 90, 60, 30].map(|minutes| DiskGrowth { since: at(minutes), seconds: 1800, bytes: 1 << 40 }).into();
    let disk = DiskMemory { holds: vec![DiskUse::Images], at: at(0), used_bytes: 0, reclaimed_bytes: 0, growth };
    let disks = [(sim.dir().join("images"), disk)].into();
    let store = Store::open_blocking(&path).unwrap();
    store.change_blocking(|state| state.learn(|memory| Memory { disks, ..memory }));
}

/// Starts the service, and returns its address as soon as it is served.
pub async fn service(home: &Home) -> (Running, String) {
    service_on(home, ANY).await
}

/// As [`service`], on a given address.
async fn service_on(home: &Home, address: &str) -> (Running, String) {
    let mut service = home.start(&["run", "--set", &format!("metrics.address={address}")]);
    let lines = service.says("serving metrics and health").await;
    let address = lines.last().and_then(|line| line.split("address=").nth(1)).unwrap();
    let address = address.split_whitespace().next().unwrap().to_owned();
    (service, address)
}

/// Returns the value of a series.
pub fn value(metrics: &str, series: &str) -> Option<f64> {
    metrics.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
}

#[tokio::test(flavor = "multi_thread")]
async fn passes_are_counted_and_make_the_agent_ready() {
    let sim = sim();
    let home = Home::new(&sim, "images.all_unused = true\ncontainers.interval = \"1h\"\nimages.interval = \"1h\"");
    let (mut service, address) = service(&home).await;
    service.first_passes().await;
    let Answer { status, body: metrics, .. } = get(&address, "/metrics");
    assert_eq!(status, 200, "{metrics}");
    for (series, expected) in [
        ("kubegc_removed_total{kind=\"container\",reason=\"pod_deleted\"}", 1.0),
        ("kubegc_removed_total{kind=\"sandbox\",reason=\"pod_deleted\"}", 1.0),
        ("kubegc_removed_total{kind=\"image\",reason=\"unused\"}", 1.0),
        ("kubegc_estimated_bytes_total{kind=\"image\"}", MIB as f64),
        ("kubegc_passes_total{scope=\"images\",result=\"succeeded\"}", 1.0),
        ("kubegc_passes_running{scope=\"images\"}", 0.0),
        ("kubegc_pass_duration_seconds_count{scope=\"containers\"}", 1.0),
        ("kubegc_planned_objects{kind=\"image\",reason=\"unused\"}", 1.0),
        ("kubegc_kept_objects{kind=\"container\",reason=\"running\",by=\"rule\"}", 1.0),
        ("kubegc_lock_held", 1.0),
        ("kubegc_store_writable", 1.0),
        ("kubegc_config_info{mode=\"collect\",profile=\"safe\"}", 1.0),
        ("kubegc_config_last_reload_successful", 1.0),
    ] {
        assert_eq!(value(&metrics, series), Some(expected), "{series}\n{metrics}");
    }
    for series in
        ["kubegc_store_size_bytes", "kubegc_cri_list_bytes{list=\"containers\"}", "kubegc_cri_list_limit_bytes"]
    {
        assert!(value(&metrics, series).is_some_and(|value| value > 0.0), "{series}\n{metrics}");
    }
    for page in ["/livez", "/readyz"] {
        let answer = get(&address, page);
        assert_eq!((answer.status, answer.body.as_str()), (200, "ok\n"), "{page}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scrape_is_answered_while_the_runtime_hangs() {
    let sim = sim();
    sim.fault(Rpc::StreamContainers, Fault::Hang, Times::Forever);
    sim.fault(Rpc::ListContainers, Fault::Hang, Times::Forever);
    let home = Home::new(&sim, "");
    let (_service, address) = service(&home).await;
    sim.await_call(Rpc::StreamContainers).await.unwrap();
    let metrics = get(&address, "/metrics").body;
    assert_eq!(value(&metrics, "kubegc_passes_running{scope=\"containers\"}"), Some(1.0), "{metrics}");
    assert_eq!(value(&metrics, "kubegc_passes_total{scope=\"containers\",result=\"failed\"}"), Some(0.0), "{metrics}");
    let ready = get(&address, "/readyz");
    assert_eq!((ready.status, get(&address, "/livez").status), (503, 200));
    assert_eq!(ready.body, "not ready\ncontainers: no pass yet\nimages: no pass yet\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_waiting_for_its_runtime_is_alive() {
    let mut sim = sim();
    sim.stop_listening();
    let home = Home::new(&sim, "containers.interval = \"1s\"\nimages.interval = \"1s\"");
    let (mut service, address) = service(&home).await;
    service.says("waiting for the runtime").await;
    let ready = get(&address, "/readyz");
    assert_eq!((ready.status, get(&address, "/livez").status), (503, 200));
    assert!(ready.body.contains("runtime: ") && ready.body.contains("socket"), "{}", ready.body);
    sim.listen_again().unwrap();
    for _ in 0..3 {
        service.says("pass done").await;
    }
    assert_eq!(get(&address, "/readyz").status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_pod_source_makes_the_agent_unready() {
    let sim = sim();
    let home = Home::new(&sim, "containers.interval = \"1h\"\nimages.interval = \"1h\"");
    home.replace(
        "pods.source = \"runtime\"",
        "pods.source = \"kubelet\"\npods.kubelet_endpoint = \"http://127.0.0.1:9\"",
    );
    let (mut service, address) = service(&home).await;
    service.first_passes().await;
    let ready = get(&address, "/readyz");
    assert_eq!(ready.status, 503);
    assert!(ready.body.starts_with("not ready\npods: pod source kubelet"), "{}", ready.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_list_is_counted_by_method_and_cause() {
    let sim = sim();
    sim.fault(Rpc::StreamImages, Fault::Fail(tonic::Code::Internal), Times::Forever);
    sim.fault(Rpc::ListImages, Fault::Fail(tonic::Code::Internal), Times::Forever);
    let home = Home::new(&sim, "containers.interval = \"1h\"\nimages.interval = \"1h\"");
    let (mut service, address) = service(&home).await;
    service.first_passes().await;
    let metrics = get(&address, "/metrics").body;
    let errors = "kubegc_cri_call_errors_total{method=\"StreamImages\",cause=\"runtime\"}";
    assert!(value(&metrics, errors).is_some_and(|count| count > 0.0), "{metrics}");
    assert_eq!(value(&metrics, "kubegc_passes_total{scope=\"images\",result=\"failed\"}"), Some(1.0), "{metrics}");
    assert_eq!(value(&metrics, "kubegc_pass_last_success_timestamp_seconds{scope=\"images\"}"), None);
    let ready = get(&address, "/readyz");
    assert!(ready.status == 503 && ready.body.contains("images: images unavailable: "), "{}", ready.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_reload_is_shown_until_it_succeeds() {
    let sim = sim();
    let home = Home::new(&sim, "");
    let (mut service, address) = service(&home).await;
    service.first_passes().await;
    home.set("images.low_threshold_percent = \"many\"");
    service.signal(nix::sys::signal::Signal::SIGHUP);
    service.says("settings not reloaded").await;
    // The line comes first.
    let metric = |name: &str| value(&get(&address, "/metrics").body, name);
    let successful = || metric("kubegc_config_last_reload_successful");
    let is_shown = async || successful() == Some(0.0) && get(&address, "/readyz").body.contains("configuration: ");
    assert!(becomes_true(is_shown).await, "{}", get(&address, "/readyz").body);
    home.set("profile = \"kubelet\"");
    service.signal(nix::sys::signal::Signal::SIGHUP);
    service.says("settings reloaded").await;
    let is_kubelet = || metric("kubegc_config_info{mode=\"collect\",profile=\"kubelet\"}") == Some(1.0);
    assert!(becomes_true(async || is_kubelet() && successful() == Some(1.0)).await);
}
