//! The service: observe mode, reload, and signals.

use kubegc::sim::{MIB, Node, Rpc, Sim};
use nix::sys::signal::Signal;

use super::Host;
use crate::agent::Home;
use crate::shell::Shell;

const OLD: &str = "docker.io/library/old:1";
const OFTEN: &str = "containers.interval = \"1s\"\nimages.interval = \"1s\"\n";

/// Returns a node with an unused image and an exited container of a deleted pod.
fn sim() -> Sim {
    let node = Node::new().now(kubegc::daemon::now()).ago(std::time::Duration::from_hours(5));
    let node = node.image(OLD, &[("old", MIB)]).pod("default", "gone", "gone").exited("app", OLD).stopped();
    Sim::start(node.pod("default", "live", "live").running("app", "docker.io/library/web:1")).unwrap()
}

#[tokio::test]
async fn an_observing_service_logs_its_plan_once() {
    for (arguments, settings) in [(&["run", "--dry-run"][..], ""), (&["run"], "mode = \"observe\"\n")] {
        let sim = sim();
        let home = Home::new(&sim, &format!("{settings}{OFTEN}images.all_unused = true"));
        let before = sim.state().container_names();
        let mut service = home.start(arguments);
        service.says("passes remove nothing").await;
        service.says("would be removed").await;
        let mut log = Vec::new();
        for _ in 0..6 {
            log.extend(service.says("pass done").await);
        }
        let plans = log.iter().filter(|line| line.contains("would be removed kind=\"container\"")).count();
        assert!(plans <= 1, "the same plan is logged once: {log:#?}");
        assert_eq!(sim.state().container_names(), before);
        assert!(sim.calls_of(Rpc::RemoveContainer).is_empty() && sim.calls_of(Rpc::StopContainer).is_empty());
        service.signal(Signal::SIGTERM);
        assert_eq!(service.ended().await.code(), Some(0));
        let history = String::from_utf8(home.run(&["history", "--runs", "-o", "json"]).stdout).unwrap();
        assert!(history.contains("\"dry\":true"), "{history}");
        let plan = home.run(&["plan"]);
        assert!(!String::from_utf8_lossy(&plan.stderr).contains("no history yet"), "ages count from its start");
    }
}

#[tokio::test]
async fn an_image_tagged_later_is_logged_with_its_tag() {
    let sim = Sim::start(Node::new().now(kubegc::daemon::now()).image(OLD, &[("old", MIB)]).untagged()).unwrap();
    let home = Home::new(&sim, &format!("{OFTEN}images.all_unused = true\nmode = \"observe\""));
    let mut service = home.start(&["run"]);
    let said = service.says("would be removed kind=\"image\"").await;
    assert!(!said.last().unwrap().contains(OLD), "{said:?}");
    sim.state().also(|node| node.also_tagged(OLD)).unwrap();
    let said = service.says("would be removed kind=\"image\"").await;
    assert!(said.last().unwrap().contains(&format!("name=\"{OLD}\"")), "{said:?}");
    service.signal(Signal::SIGTERM);
    assert_eq!(service.ended().await.code(), Some(0));
}

#[test]
fn a_collection_in_observe_mode_removes_nothing() {
    let host = Host::new();
    let before = host.rest();
    let text = host.run(&["collect", "--mode", "observe", "-q"]);
    assert!(text.starts_with("exit Some(1)\n") && text.contains("Would be removed: 3 containers"), "{text}");
    assert!(text.contains("! error: mode = \"observe\": nothing was removed\n! hint: use --mode collect"), "{text}");
    assert_eq!(host.rest(), before);
}

#[tokio::test]
async fn no_other_signal_ends_the_service() {
    let sim = sim();
    let home = Home::new(&sim, OFTEN);
    let mut service = home.start(&["run"]);
    service.says("pass done").await;
    for (signal, name) in [(Signal::SIGUSR1, "SIGUSR1"), (Signal::SIGUSR2, "SIGUSR2"), (Signal::SIGALRM, "SIGALRM")] {
        service.signal(signal);
        let said = service.says("this signal has no effect").await;
        assert!(said.last().unwrap().contains(name), "{said:?}");
    }
    service.says("pass done").await;
    service.signal(Signal::SIGTERM);
    assert_eq!(service.ended().await.code(), Some(0));
}

#[test]
fn the_unit_validates_before_it_reloads() {
    let unit = include_str!("../../../systemd/kubegc.service");
    let check = "\nExecReload=kubegc config check\nExecReload=/bin/kill -HUP $MAINPID\n";
    assert!(unit.contains(check), "{unit}");
    let bad = Shell::new().with("kubegc.toml", "images.min_age = 5\n").run(&["config", "check"]);
    assert!(bad.starts_with("exit Some(2)\n! error: kubegc.toml:1:8: images.min_age = 5: expected a unit"), "{bad}");
}
