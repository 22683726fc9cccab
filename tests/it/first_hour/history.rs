//! A node without history, and pod sources that fail.

use kubegc::record::Lock;
use kubegc::sim::{MIB, Node, Sim};

use super::Host;
use crate::agent::Home;

const NO_HISTORY: &str = "no history yet: ages count from this command; run the service, or `kubegc collect --wait`";
const OLD: &str = "docker.io/library/old:1";

/// Returns a node with an unused image and an exited container of a pod that no source lists.
fn sim() -> Sim {
    let node = Node::new().now(kubegc::daemon::now()).ago(std::time::Duration::from_hours(5));
    let node = node.image(OLD, &[("old", MIB)]).image("docker.io/library/web:1", &[("web", MIB)]);
    let node = node.pod("default", "live", "live").running("app", "docker.io/library/web:1");
    Sim::start(node.pod("default", "gone", "gone").exited("app", "docker.io/library/web:1").stopped()).unwrap()
}

fn said(output: &std::process::Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn plan_and_collect_report_a_missing_history() {
    let sim = sim();
    let home = Home::new(&sim, "images.all_unused = true");
    let ages = ["--set", "images.min_age=2s", "--set", "guards.gone_after=2s"];
    let plan = said(&home.run(&[&["plan"][..], &ages].concat()));
    assert!(plan.contains(&format!("warning: {NO_HISTORY}\n")), "{plan}");
    assert!(plan.contains("Nothing to remove."), "{plan}");
    let dry = said(&home.run(&[&["collect", "--dry-run"][..], &ages].concat()));
    assert!(dry.contains(&format!("warning: {NO_HISTORY}\n")), "{dry}");
    let collected = home.run(&[&["collect", "--wait"][..], &ages].concat());
    let shown = said(&collected);
    assert!(collected.status.success(), "{shown}");
    assert!(shown.contains("for the ages of images and missing pods"), "{shown}");
    assert!(sim.state().image_id(OLD).is_none() && shown.contains("1 image"), "{shown}");
    assert_eq!(sim.state().container_names(), ["live/app#0 running"], "{shown}");
    assert!(!said(&home.run(&["plan"])).contains(NO_HISTORY), "now there is one");
}

#[test]
fn a_wait_ends_at_its_limit() {
    let sim = sim();
    let home = Home::new(&sim, "images.all_unused = true");
    let shown = said(&home.run(&["collect", "--wait=1s", "--set", "images.min_age=1h"]));
    assert!(shown.contains("the wait ends after --wait=1s; some ages need longer"), "{shown}");
    assert!(sim.state().image_id(OLD).is_some());
    let first = said(&Home::new(&sim, "").run(&["collect"]));
    assert!(first.contains(NO_HISTORY), "the first collect says it, too: {first}");
}

#[tokio::test]
async fn a_plan_uses_the_store_of_the_lock_holder() {
    let sim = sim();
    let home = Home::new(&sim, "");
    let mut service = home.start(&["run"]);
    service.says("pass done").await;
    assert_eq!(Lock::store_of_holder(&home.lock()), Some(home.store()));
    let elsewhere = home.store().with_file_name("elsewhere.db");
    let plan = said(&home.run(&["plan", "--state", elsewhere.to_str().unwrap()]));
    assert!(!plan.contains(NO_HISTORY), "{plan}");
    assert!(!elsewhere.exists(), "it is read-only");
}

#[test]
fn a_failed_pod_source_is_reported_with_its_address() {
    let host = Host::new();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let endpoint = format!("--set=pods.kubelet_endpoint=http://127.0.0.1:{port}");
    for command in [&["plan"][..], &["collect", "--dry-run"], &["collect"]] {
        let text = host.run(&[command, &["--pod-source=kubelet", &endpoint]].concat());
        assert!(text.starts_with("exit Some(1)\n"), "{text}");
        let error = text.lines().find(|line| line.starts_with("! error: pod source kubelet (")).expect(&text);
        assert!(error.contains(&format!("http://127.0.0.1:{port}")), "{error}");
        assert!(error.ends_with("; no pod counts as deleted"), "{error}");
    }
    let auto = host.run(&["plan", "--pod-source=auto"]);
    let is_error =
        |line: &str| line.starts_with("! error: no pod source available") && line.ends_with("counts as deleted");
    assert!(auto.starts_with("exit Some(1)\n") && auto.lines().any(is_error), "{auto}");
}
