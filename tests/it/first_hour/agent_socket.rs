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

fn node() -> Node {
    let node = Node::new().now(kubegc::daemon::now()).ago(Duration::from_hours(5));
    let node = node.image(OLD, &[("old", MIB)]).image(WEB, &[("web", MIB)]);
    node.pod("default", "live", "live").running("app", WEB)
}

fn sim() -> Sim {
    Sim::start(node()).unwrap()
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

/// The agent has settings that no file of the command has.
#[tokio::test(flavor = "multi_thread")]
async fn lab_replays_the_settings_of_the_agent_and_the_limits_of_its_kubelet() {
    let sim = sim();
    let home = Home::new(&sim, SELDOM);
    let kubelet = home.lock().parent().unwrap().with_file_name("kubelet.yaml");
    let limits = "imageMaximumGCAge: 9h\nevictionHard: {imagefs.available: 7Mi}\n";
    let header = "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n";
    std::fs::write(&kubelet, format!("{header}{limits}")).unwrap();
    let kubelet = kubelet.display().to_string();
    let mut service = home.start(&["run", "--kubelet-config", &kubelet]);
    service.first_passes().await;
    let lab = |arguments: &[&str]| {
        let output = home.run(&[&["lab", "-o", "json"], arguments].concat());
        assert!(output.status.success(), "{}", said(&output));
        let lab: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let replays = lab["replays"].as_array().unwrap().iter();
        let names: Vec<_> = replays.map(|replay| replay["policy"].as_str().unwrap().to_owned()).collect();
        (lab["is_of_agent"].as_bool().unwrap(), lab["eviction_below_bytes"].as_u64().unwrap() / MIB, names.join(" "))
    };
    let [plain, tried] = ["in_force kubelet all_unused", "in_force tried kubelet all_unused"].map(str::to_owned);
    assert_eq!(lab(&[]), (true, 7, plain.clone()));
    assert_eq!(lab(&["--set", "images.max_age=9h"]), (true, 7, plain.clone()), "as the agent has it");
    assert_eq!(lab(&["--set", "images.max_age=8h"]), (true, 7, tried.clone()));
    assert_eq!(lab(&["--config", "kubegc.toml"]), (true, 7, tried.clone()), "without the age of the kubelet");
    let text = said(&home.run(&["lab"]));
    assert!(text.contains(", evictions begin below 7.0MiB free\n"), "{text}");
    assert!(text.contains(" in force are the settings of the agent.\n"), "{text}");
    let snapshot = home.run(&["snapshot", "--trace"]).stdout;
    std::fs::write(home.lock().with_file_name("node.json"), snapshot).unwrap();
    service.signal(Signal::SIGTERM);
    assert_eq!(service.ended().await.code(), Some(0));
    assert_eq!(lab(&["--snapshot", "run/node.json"]), (true, 7, plain), "the snapshot has them");
    assert_eq!(lab(&["--kubelet-config", &kubelet]), (false, 7, tried), "the limits of the kubelet that is named");
    let text = said(&home.run(&["lab"]));
    assert!(text.contains(" the files of this machine, because those of an agent are not known.\n"), "{text}");
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
    // A disk in memory is not nearly full. That of the machine may be, and then nothing waits.
    let sim = Sim::start(node().image_mountpoint("/dev/shm")).unwrap();
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
