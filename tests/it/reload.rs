//! Reloads of the settings, by SIGHUP and by a changed file: the real binary.

use std::time::Duration;

use kubegc::sim::{MIB, Node, Rpc, Sim};
use nix::sys::signal::Signal;

use crate::agent::{Home, Running};

const WEB: &str = "docker.io/library/web:1";
const OLD: &str = "docker.io/library/old:1";
const OFTEN: &str = "containers.interval = \"1s\"\nimages.interval = \"1s\"\n";
/// The next regular pass is after the end of the test.
const SELDOM: &str = "containers.interval = \"1h\"\nimages.interval = \"1h\"\n";

/// Returns a node with an unused image, a dead container of a deleted pod, and a running pod.
fn sim() -> Sim {
    let node = Node::new().now(kubegc::daemon::now()).ago(Duration::from_hours(5));
    let node = node.image(WEB, &[("web", MIB)]).image(OLD, &[("old", MIB)]);
    let node = node.pod("default", "gone", "gone").exited("app", WEB).stopped();
    Sim::start(node.pod("default", "live", "live").running("app", WEB)).unwrap()
}

/// Starts the agent, and waits for its first passes.
async fn start(home: &Home) -> Running {
    let mut service = home.start(&["run"]);
    service.first_passes().await;
    service
}

async fn stop(mut service: Running) {
    service.signal(Signal::SIGTERM);
    assert_eq!(service.ended().await.code(), Some(0));
}

#[tokio::test]
async fn a_hangup_reloads_the_settings_unless_they_are_invalid() {
    let sim = sim();
    let home = Home::new(&sim, OFTEN);
    let mut service = start(&home).await;
    assert!(sim.state().image_id(OLD).is_some());

    home.set("images.low_threshold_percent = \"low\"");
    service.signal(Signal::SIGHUP);
    service.says("the previous settings remain in force").await;
    service.says("pass done").await;
    assert!(sim.state().image_id(OLD).is_some());

    home.set("images.all_unused = true");
    service.signal(Signal::SIGHUP);
    service.says("settings reloaded").await;
    sim.await_call(Rpc::RemoveImage).await.unwrap();
    service.says("removed=1").await;
    assert_eq!(sim.state().image_names(), [WEB]);
    stop(service).await;
}

/// The looks at the files find no change that SIGHUP has already loaded: twelve passes take longer than two looks.
#[tokio::test]
async fn a_change_is_loaded_once() {
    let sim = sim();
    let home = Home::new(&sim, OFTEN);
    let mut service = start(&home).await;
    home.set(&format!("{OFTEN}images.all_unused = true"));
    service.signal(Signal::SIGHUP);
    service.says("settings reloaded").await;
    let mut log = Vec::new();
    for _ in 0..12 {
        log.extend(service.says("pass done scope=containers").await);
    }
    assert!(!log.iter().any(|line| line.contains("files have changed")), "{log:#?}");
    stop(service).await;
}

#[tokio::test]
async fn a_reload_names_settings_that_need_a_restart() {
    let sim = sim();
    let home = Home::new(&sim, SELDOM);
    let mut service = start(&home).await;
    home.set(&format!("{OFTEN}images.all_unused = true\nlog.format = \"json\""));
    service.signal(Signal::SIGHUP);
    service.says("SIGHUP received").await;
    let reloaded = service.says("changed settings need a restart").await;
    let changed = "changed=\"images.interval, images.all_unused, containers.interval\"";
    assert!(reloaded.iter().any(|line| line.contains("settings reloaded") && sorted(line) == sorted(changed)));
    assert!(reloaded.last().unwrap().contains("settings=\"log.format\""), "{reloaded:?}");
    service.says("removed kind=\"image\"").await;
    for _ in 0..4 {
        service.says("pass done").await;
    }
    stop(service).await;
}

/// Returns the keys of a field, in order.
fn sorted(line: &str) -> Vec<&str> {
    let keys = line.split("changed=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default();
    let mut keys: Vec<_> = keys.split(", ").collect();
    keys.sort_unstable();
    keys
}

#[tokio::test]
async fn an_exchanged_config_map_is_loaded_without_a_signal() {
    let sim = sim();
    let home = Home::new(&sim, "");
    home.set_as_config_map(&format!("{SELDOM}mode = \"observe\"\nimages.all_unused = true"));
    let mut service = start(&home).await;
    assert!(sim.calls_of(Rpc::RemoveImage).is_empty());

    home.set_as_config_map("mode = \"collect\"\nimages.low_threshold_percent = \"low\"");
    service.says("configuration files have changed").await;
    let said = service.says("the previous settings remain in force").await;
    assert!(said.last().unwrap().contains("images.low_threshold_percent = \"low\": expected"), "{said:?}");

    home.set_as_config_map(&format!("{SELDOM}images.all_unused = true"));
    service.says("settings reloaded").await;
    service.says("removed kind=\"image\"").await;
    assert_eq!(sim.state().image_names(), [WEB]);
    let status = String::from_utf8(home.run(&["status"]).stdout).unwrap();
    assert!(!status.contains("observe"), "{status}");
    stop(service).await;
}

#[tokio::test]
async fn other_pod_sources_and_another_runtime_need_no_restart() {
    let (sim, other) = (sim(), sim());
    let home = Home::new(&sim, SELDOM);
    home.replace("pods.source = \"runtime\"", "pods.source = \"none\"");
    let mut service = start(&home).await;
    assert!(sim.calls_of(Rpc::RemoveContainer).is_empty(), "without a pod source no pod counts as deleted");

    home.replace("pods.source = \"none\"", "pods.source = \"runtime\"");
    service.signal(Signal::SIGHUP);
    service.says("removed kind=\"container\"").await;

    home.replace(&sim.endpoint(), "unix:///nonexistent.sock");
    service.signal(Signal::SIGHUP);
    service.says("waiting for the runtime at unix:///nonexistent.sock").await;
    home.replace("unix:///nonexistent.sock", &other.endpoint());
    service.signal(Signal::SIGHUP);
    service.says("runtime found").await;
    service.says("removed kind=\"container\"").await;
    assert_eq!((sim.calls_of(Rpc::RemoveContainer).len(), other.calls_of(Rpc::RemoveContainer).len()), (1, 1));
    stop(service).await;
}

#[tokio::test]
async fn the_level_of_the_log_changes_at_a_reload() {
    let sim = sim();
    let home = Home::new(&sim, &format!("{OFTEN}mode = \"observe\"\nlog.level = \"info\""));
    let mut service = start(&home).await;
    home.set(&format!("{OFTEN}mode = \"observe\"\nlog.level = \"debug\""));
    service.signal(Signal::SIGHUP);
    let said = service.says("DEBUG kept kind=\"image\"").await;
    assert!(said.iter().any(|line| line.contains("changed=\"log.level\"")), "{said:?}");
    home.set(&format!("{OFTEN}mode = \"collect\"\nlog.level = \"error\""));
    service.signal(Signal::SIGHUP);
    sim.await_call(Rpc::RemoveContainer).await.unwrap();
    service.signal(Signal::SIGTERM);
    assert_eq!(service.ended().await.code(), Some(0));
    let rest = service.rest().await;
    let reload = rest.iter().position(|line| line.contains("SIGHUP received")).unwrap();
    assert!(!rest[reload + 1..].iter().any(|line| line.contains("INFO")), "{rest:#?}");
}
