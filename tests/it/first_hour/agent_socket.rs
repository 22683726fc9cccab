//! `collect` and `status` beside a running agent, over its socket.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use kubegc::sim::{Fault, MIB, Node, Rpc, Sim, Times};
use nix::sys::signal::Signal;

use crate::agent::Home;

const OLD: &str = "docker.io/library/old:1";
const WEB: &str = "docker.io/library/web:1";
/// The next pass of the schedule is an hour away.
const SELDOM: &str = "containers.interval = \"1h\"\nimages.interval = \"1h\"\n";

fn sim() -> Sim {
    let node = Node::new().now(kubegc::daemon::now()).ago(Duration::from_hours(5));
    let node = node.image(OLD, &[("old", MIB)]).image(WEB, &[("web", MIB)]);
    Sim::start(node.pod("default", "live", "live").running("app", WEB)).unwrap()
}

fn said(output: &std::process::Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

async fn agent(home: &Home) -> crate::agent::Running {
    let mut service = home.start(&["run"]);
    service.first_passes().await;
    service
}

#[tokio::test(flavor = "multi_thread")]
async fn collect_beside_a_running_agent_requests_its_pass() {
    let sim = sim();
    let home = Home::new(&sim, SELDOM);
    let mut service = agent(&home).await;
    let socket = home.lock().with_extension("sock");
    assert_eq!(socket.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    sim.state().also(|node| node.pod("default", "gone", "gone").exited("app", WEB).stopped()).unwrap();
    let collected = home.run(&["collect"]);
    let shown = said(&collected);
    assert!(collected.status.success() && shown.contains("default/gone/app"), "{shown}");
    assert!(shown.contains("Removed: 1 container, 1 sandbox and 1 log directory"), "{shown}");
    service.says("pass requested by a command").await;
    assert!(sim.state().image_id(OLD).is_some());
    let pressure = said(&home.run(&["collect", "--pressure", "-q"]));
    assert!(pressure.contains("1 image"), "{pressure}");
    assert!(sim.state().image_id(OLD).is_none());
    for setting in ["images.all_unused=true", "leftovers.remove=unreferenced", "kubelet_root=/k", "fleet=policies"] {
        let refused = home.run(&["collect", "--set", setting]);
        assert_eq!(refused.status.code(), Some(2), "{setting}: {}", said(&refused));
        assert!(said(&refused).contains("the running agent makes the pass, with its own settings"), "{setting}");
    }
    let other = "other settings: images.max_age = \"0s\" (here \"7d\")";
    let with_other = |command: &str| said(&home.run(&[command, "--set", "images.max_age=7d"]));
    assert!(with_other("plan").contains(&format!("the running agent has {other}")), "{}", with_other("plan"));
    assert!(with_other("disk").contains(&format!("the running agent has {other}")));
    assert!(with_other("status").contains("Settings:   images.max_age = \"0s\" (here "));
    assert!(!said(&home.run(&["plan"])).contains("other settings"));
    service.signal(Signal::SIGTERM);
    assert_eq!(service.ended().await.code(), Some(0));
    assert!(!socket.exists());
    assert!(home.run(&["collect"]).status.success(), "without an agent the command makes the pass");
}

#[tokio::test(flavor = "multi_thread")]
async fn collect_beside_an_observing_agent_reports_no_removal() {
    let sim = sim();
    let home = Home::new(&sim, &format!("{SELDOM}mode = \"observe\""));
    let _service = agent(&home).await;
    let collected = home.run(&["collect", "--mode", "collect", "--pressure"]);
    let shown = said(&collected);
    assert_eq!(collected.status.code(), Some(1), "{shown}");
    assert!(shown.contains("its mode is \"observe\": nothing was removed"), "{shown}");
    assert!(!shown.contains("--mode") && shown.contains("reload the agent"), "{shown}");
    assert!(sim.state().image_id(OLD).is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_shows_the_agent_and_is_a_probe() {
    let sim = sim();
    let home = Home::new(&sim, SELDOM);
    let none = home.run(&["status"]);
    assert_eq!(none.status.code(), Some(1), "{}", said(&none));
    assert!(said(&none).contains("error: no agent runs on this node"), "{}", said(&none));
    let mut service = agent(&home).await;
    let status = home.run(&["status"]);
    let shown = said(&status);
    assert!(status.status.success(), "{shown}");
    let starts = |text: &str| assert!(shown.lines().any(|line| line.starts_with(text)), "{text}\n{shown}");
    starts(&format!("Agent:      pid {}, run, up ", service.pid));
    assert!(shown.contains(", mode collect, profile safe\n"), "{shown}");
    starts("Now:        idle");
    assert!(shown.contains("Next pass:  containers in ") && shown.contains(", images in "), "{shown}");
    assert!(shown.contains("% used (high 100%, low "), "{shown}");
    starts("Last pass:  containers, ");
    let document: serde_json::Value = serde_json::from_slice(&home.run(&["status", "-o", "json"]).stdout).unwrap();
    assert_eq!(document["live"]["pid"], service.pid);

    // While a removal hangs, the status shows the pass, and the agent answers.
    sim.fault(Rpc::RemoveContainer, Fault::Hang, Times::Forever);
    sim.state().also(|node| node.pod("default", "gone", "gone").exited("app", WEB).stopped()).unwrap();
    let waiting = tokio::task::spawn_blocking({
        let command = home.spawn(&["collect"]);
        move || command.wait_with_output().unwrap()
    });
    sim.await_call(Rpc::RemoveContainer).await.unwrap();
    let shown = said(&home.run(&["status"]));
    assert!(shown.contains("Now:        pass over all"), "{shown}");
    sim.heal();
    service.signal(Signal::SIGTERM);
    service.says("finishing the actions in progress").await;
    service.signal(Signal::SIGTERM);
    service.ended().await;
    let output = tokio::time::timeout(Duration::from_mins(3), waiting).await.expect("it ends with the agent").unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_shows_a_deferred_pass_over_images() {
    let sim = sim();
    let home = Home::new(&sim, "images.pace = [\"start 23h\"]");
    let mut service = home.start(&["run"]);
    service.says("the first pass over images waits").await;
    service.says("pass done").await;
    let shown = said(&home.run(&["status"]));
    let next = shown.lines().find(|line| line.starts_with("Next pass:")).unwrap();
    assert!(next.contains("images deferred, in ") && next.ends_with(" (images.pace: start 23h)"), "{shown}");
    service.signal(Signal::SIGTERM);
    service.ended().await;
}

#[test]
fn an_unreachable_runtime_is_reported_once() {
    let sim = sim();
    let home = Home::new(&sim, "");
    let status = home.run(&["status", "-r", "/nowhere.sock"]);
    let shown = said(&status);
    assert_eq!(status.status.code(), Some(3), "{shown}");
    assert_eq!(shown.matches("no such socket").count(), 1, "{shown}");
}
