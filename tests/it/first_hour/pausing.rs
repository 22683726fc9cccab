//! `kubegc pause`, `kubegc resume` and quiet hours.

use std::process::Output;
use std::time::Duration;

use kubegc::sim::{Fault, MIB, Node, Rpc, Sim, Times};
use nix::sys::signal::Signal;

use crate::agent::Home;
use crate::monitoring;

const CONTAINERS: usize = 300;
const WEB: &str = "docker.io/library/web:1";
/// All unused images are removed. The next pass of the schedule is an hour away.
const ALL: &str = "images.all_unused = true\ncontainers.interval = \"1h\"\nimages.interval = \"1h\"\n";

fn sim(images: usize) -> Sim {
    let node = Node::new().now(kubegc::daemon::now()).ago(Duration::from_hours(5));
    let image = |node: Node, number: usize| {
        node.image(&format!("r.example/image-{number}:1"), &[(&format!("layer-{number}"), MIB)])
    };
    Sim::start((0..images).fold(node, image)).unwrap()
}

/// A pod whose container was restarted again and again. All but the newest instance are removed, one after the other.
fn crash_loop() -> Sim {
    let node = Node::new().now(kubegc::daemon::now()).ago(Duration::from_hours(5)).image(WEB, &[("web", MIB)]);
    let node = node.pod("default", "live", "live");
    Sim::start((0..=CONTAINERS).fold(node, |node, _| node.exited("app", WEB))).unwrap()
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn removals(sim: &Sim) -> usize {
    sim.calls_of(Rpc::RemoveImage).len()
}

/// The gate reads the file once a second, and each removal takes a tenth of that.
#[tokio::test(flavor = "multi_thread")]
async fn a_pause_ends_a_pass_of_300_removals_and_outlives_a_restart() {
    let sim = crash_loop();
    sim.fault(Rpc::RemoveContainer, Fault::Slow(Duration::from_millis(100)), Times::Forever);
    let removals = || sim.calls_of(Rpc::RemoveContainer).len();
    let home = Home::new(&sim, ALL);
    let (mut service, address) = monitoring::service(&home).await;
    sim.await_call(Rpc::RemoveContainer).await.unwrap();
    let paused = home.run(&["pause", "--reason", "incident 7", "--until", "2h"]);
    assert!(paused.status.success(), "{}", said(&paused));
    let log = service.says("suspended=\"paused by ").await.concat();
    let removed = removals();
    assert!(removed > 0 && removed < CONTAINERS / 2, "{removed}");
    assert!(log.contains("pass done"), "{log}");
    service.says("removals are suspended").await;

    let status = said(&home.run(&["status"]));
    let line = status.lines().find(|line| line.starts_with("Suspended:")).unwrap_or_else(|| panic!("{status}"));
    assert!(line.contains("paused by ") && line.ends_with(": incident 7"), "{line}");
    let plan = said(&home.run(&["plan"]));
    assert!(plan.contains("incident 7; until then a pass removes nothing"), "{plan}");
    let page = |path: &str| monitoring::http::get(&address, path).body;
    assert!(page("/readyz").contains("removals: paused by "), "{}", page("/readyz"));
    let metric =
        |cause| monitoring::value(&page("/metrics"), &format!("kubegc_removals_suspended{{cause=\"{cause}\"}}"));
    assert_eq!((metric("pause"), metric("quiet_hours")), (Some(1.0), Some(0.0)), "{}", page("/metrics"));
    let collect = home.run(&["collect"]);
    assert_eq!(collect.status.code(), Some(1), "{}", said(&collect));
    assert!(said(&collect).contains("incident 7: nothing was removed"), "{}", said(&collect));

    service.signal(Signal::SIGTERM);
    service.ended().await;
    let mut service = home.start(&["run"]);
    service.first_passes().await;
    service.signal(Signal::SIGTERM);
    service.ended().await;
    let collect = home.run(&["collect"]);
    assert!(said(&collect).contains("`kubegc resume` ends it"), "{}", said(&collect));
    assert_eq!(removals(), removed, "the pause outlives the agent");

    sim.heal();
    assert_eq!(said(&home.run(&["resume"])), "resumed\n");
    assert_eq!(said(&home.run(&["resume"])), "not paused\n");
    assert!(home.run(&["collect"]).status.success());
    assert_eq!(removals(), CONTAINERS);
}

/// Another tool made the file.
#[test]
fn an_empty_file_is_a_pause_and_one_that_is_over_is_none() {
    let sim = sim(1);
    let home = Home::new(&sim, ALL);
    let file = home.store().with_extension("paused");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    for text in ["", "not a document"] {
        std::fs::write(&file, text).unwrap();
        let collect = home.run(&["collect"]);
        assert_eq!(collect.status.code(), Some(1), "{}", said(&collect));
        assert!(home.run(&["collect", "--dry-run"]).status.success());
    }
    assert_eq!(removals(&sim), 0);
    std::fs::write(&file, "{\"until\": \"2026-01-01T00:00:00Z\"}").unwrap();
    assert!(home.run(&["collect"]).status.success());
    assert_eq!(removals(&sim), 1);
    let past = home.run(&["pause", "--until", "2026-01-01"]);
    assert_eq!(
        (past.status.code(), said(&past).contains("2026-01-01T00:00:00Z is in the past")),
        (Some(2), true),
        "{}",
        said(&past)
    );
    let until = home.run(&["pause", "--until", "2999-12-01T10:00"]);
    assert!(said(&until).contains("until 2999-12-01T10:00:00Z"), "{}", said(&until));
}

#[test]
fn a_pause_that_cannot_be_written_is_an_error() {
    let sim = sim(1);
    let home = Home::new(&sim, ALL);
    let paused = home.run(&["pause", "--set", "state.path=/proc/kubegc.db"]);
    assert_eq!(paused.status.code(), Some(1), "{}", said(&paused));
    assert!(said(&paused).contains("cannot write /proc/kubegc.paused"), "{}", said(&paused));
}

#[tokio::test(flavor = "multi_thread")]
async fn scheduled_passes_heed_quiet_hours_and_commands_do_not() {
    let sim = sim(2);
    let home = Home::new(&sim, &format!("{ALL}quiet = [\"00:00-24:00\"]"));
    let mut service = home.start(&["run"]);
    let log = [service.says("pass done").await, service.says("pass done").await].concat().concat();
    assert_eq!((removals(&sim), log.matches("suspended=\"quiet hours until ").count()), (0, 2), "{log}");
    let collect = home.run(&["collect"]);
    assert!(collect.status.success(), "{}", said(&collect));
    assert_eq!(removals(&sim), 2);
    service.signal(Signal::SIGTERM);
    service.ended().await;
}

/// The disk has more use than the threshold, or less free space than under disk pressure.
#[tokio::test(flavor = "multi_thread")]
async fn a_pass_that_must_free_space_heeds_no_quiet_hours() {
    for setting in ["images.low_threshold_percent = 0", "pressure.free_percent = 100"] {
        let sim = sim(2);
        let home = Home::new(&sim, &format!("{setting}\nimages.all_unused = true\nquiet = [\"00:00-24:00\"]"));
        if setting.contains("low_threshold") {
            home.replace("images.high_threshold_percent = 100", "images.high_threshold_percent = 0");
        }
        let mut service = home.start(&["run"]);
        service.says("removed=2").await;
        assert_eq!(removals(&sim), 2);
        service.signal(Signal::SIGTERM);
        service.ended().await;
    }
}
