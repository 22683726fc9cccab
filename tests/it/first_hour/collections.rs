//! `collect`: what it names, what it refuses, and its exit status.

use std::time::Duration;

use jiff::Timestamp;
use kubegc::record::Lock;
use kubegc::sim::{Fault, Rpc, Times};
use nix::sys::signal::Signal;

use super::Host;
use crate::agent::Home;

#[test]
fn a_collection_names_each_object_unless_quiet() {
    let host = Host::new();
    insta::assert_snapshot!(host.run(&["collect", "--dry-run"]), @"
    KIND       ID         NAME               OUTCOME       WHY
    container  c-crash-1  default/crash/app  would remove  over containers.max_per_pod_container (1)
    container  c-crash-2  default/crash/app  would remove  over containers.max_per_pod_container (1)
    container  c-crash-3  default/crash/app  would remove  over containers.max_per_pod_container (1)
    sandbox    s-job-0    default/job        would remove  pod has a newer sandbox

    KIND       WOULD REMOVE  ALREADY REMOVED  REFUSED  FAILED  NOT NEEDED
    container  3             0                0        0       0
    sandbox    1             0                0        0       0

    Would be removed: 3 containers and 1 sandbox. 20 kept.
    ! warning: no history yet: ages count from this command; run the service, or `kubegc collect --wait`
    ");
    insta::assert_snapshot!(host.run(&["collect", "--dry-run", "-q"]), @"
    KIND       WOULD REMOVE  ALREADY REMOVED  REFUSED  FAILED  NOT NEEDED
    container  3             0                0        0       0
    sandbox    1             0                0        0       0

    Would be removed: 3 containers and 1 sandbox. 20 kept.
    ! warning: no history yet: ages count from this command; run the service, or `kubegc collect --wait`
    ");
    insta::assert_snapshot!(host.run(&["collect"]), @"
    KIND       ID         NAME               OUTCOME  FREED    WHY
    container  c-crash-1  default/crash/app  removed  ~4.0KiB  over containers.max_per_pod_container (1)
    container  c-crash-2  default/crash/app  removed  ~4.0KiB  over containers.max_per_pod_container (1)
    container  c-crash-3  default/crash/app  removed  ~4.0KiB  over containers.max_per_pod_container (1)
    sandbox    s-job-0    default/job        removed  unknown  pod has a newer sandbox

    KIND       REMOVED  ALREADY REMOVED  REFUSED  FAILED  NOT NEEDED  FREED
    container  3        0                0        0       0           12.0KiB
    sandbox    1        0                0        0       0

    Removed: 3 containers and 1 sandbox, 12.0KiB reclaimed (measured). 20 kept.
    ! warning: no history yet: ages count from this command; run the service, or `kubegc collect --wait`
    ");
}

/// Saves a plan of the node.
fn saved(host: &Host) {
    std::fs::write(host.shell.path("plan.json"), host.shell.run(&["plan", "-o", "json"])).unwrap();
}

#[test]
fn a_saved_plan_refuses_changed_objects_with_the_cause() {
    let host = Host::new();
    saved(&host);
    let now = Timestamp::now();
    host.sim
        .state()
        .also(|node| node.at(now).in_sandbox("s-job-0").id("c-again").running("job", "r.example/job:1"))
        .unwrap();
    insta::assert_snapshot!(host.run(&["collect", "--plan", "plan.json"]), @"
    exit Some(1)
    KIND       ID         NAME               OUTCOME  FREED    WHY
    sandbox    s-job-0    default/job        refused           kept now: the sandbox has 1 container
    container  c-crash-1  default/crash/app  removed  ~4.0KiB  over containers.max_per_pod_container (1)
    container  c-crash-2  default/crash/app  removed  ~4.0KiB  over containers.max_per_pod_container (1)
    container  c-crash-3  default/crash/app  removed  ~4.0KiB  over containers.max_per_pod_container (1)

    KIND       REMOVED  ALREADY REMOVED  REFUSED  FAILED  NOT NEEDED  FREED
    container  3        0                0        0       0           12.0KiB
    sandbox    0        0                1        0       0

    Removed: 3 containers, 12.0KiB reclaimed (measured). 1 refused. 20 kept.
    ! error: 1 removal refused
    ");
}

#[test]
fn foreign_and_old_saved_plans_are_refused() {
    let host = Host::new();
    saved(&host);
    let plan = std::fs::read_to_string(host.shell.path("plan.json")).unwrap();
    std::fs::write(host.shell.path("other.json"), plan.replace("\"node\":\"n1\"", "\"node\":\"n2\"")).unwrap();
    insta::assert_snapshot!(host.run(&["collect", "--plan", "other.json"]), @r#"
    exit Some(2)
    ! error: cannot carry out other.json: it is a plan of node "n2", and this is "n1"
    ! hint: --node-name sets the name of this node
    "#);
    let mut old: serde_json::Value = serde_json::from_str(&plan).unwrap();
    let taken_at: Timestamp = old["taken_at"].as_str().unwrap().parse().unwrap();
    old["taken_at"] = (taken_at - Duration::from_hours(2)).to_string().into();
    std::fs::write(host.shell.path("old.json"), old.to_string()).unwrap();
    insta::assert_snapshot!(host.run(&["collect", "--plan", "old.json"]), @"
    exit Some(2)
    ! error: cannot carry out old.json: it is 120m old, more than --max-age
    ! hint: make a new plan, or raise --max-age
    ");
    let done = host.run(&["collect", "--plan", "old.json", "--max-age", "3h", "-q"]);
    assert!(done.contains("Removed: 3 containers and 1 sandbox"), "{done}");
}

#[test]
fn each_commands_long_help_has_its_exit_status() {
    let shell = crate::shell::Shell::new();
    insta::assert_snapshot!(shell.run(&["collect", "--help"]).split("Exit status:").last().unwrap(), @"
    0    done
    1    failed or refused in part, data unavailable, or another error
    2    usage or configuration
    3    runtime or API server not reachable
    5    another agent holds the lock of the node
    130  interrupted (143 by SIGTERM)
    ");
    let commands = ["plan", "collect", "run", "why", "snapshot", "history", "status", "config", "demo"];
    for command in commands {
        let help = shell.run(&[command, "--help"]);
        assert!(help.contains("Exit status:\n  0    done\n"), "{help}");
    }
    for command in [["config", "check"], ["controller", "plan"]] {
        assert!(shell.run(&[&command[..], &["--help"]].concat()).contains("Exit status:\n"), "{command:?}");
    }
}

#[tokio::test]
async fn an_interrupted_collection_has_exit_status_130() {
    let host = Host::new();
    host.sim.fault(Rpc::RemoveContainer, Fault::Slow(Duration::from_secs(1)), Times::N(1));
    let output = crate::cli_on_sim::interrupted(&host, &[Signal::SIGINT]).await;
    assert_eq!(output.status.code(), Some(130));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.ends_with("error: 3 removals not begun, because of SIGINT\n"), "{error}");
}

#[tokio::test]
async fn a_service_waits_for_a_one_shot_pass() {
    let host = Host::new();
    let home = Home::new(&host.sim, "");
    let lock = Lock::take(&home.lock(), "collect").unwrap();
    let mut service = home.start(&["run"]);
    service.says("waiting for the end of a one-shot pass").await;
    drop(lock);
    service.says("pass done").await;
    let second = home.run(&["run"]);
    assert_eq!(second.status.code(), Some(5), "{second:?}");
    let unit = include_str!("../../../systemd/kubegc.service");
    assert!(unit.contains("\nRestartPreventExitStatus=2 5\n"), "the unit does not start it again");
}
