//! The units under a real systemd, on a real containerd, with exactly the limits that they set.

mod deb;
mod rpm;

use std::collections::BTreeSet;

use crate::rig::{Image, Layer, NodeRig, Options, Systemd};

/// Settings of a node without Kubernetes, with no durations to wait for.
const SETTINGS: &str = "pods.source = \"runtime\"\nguards.settle = \"0s\"\nguards.sandbox_grace = \"0s\"\n\
    guards.gone_after = \"1ms\"\nimages.min_age = \"0s\"\nimages.high_threshold_percent = 100\n\
    containers.interval = \"1s\"\nimages.interval = \"1s\"\n";
/// An image that no container uses.
const UNUSED: &str = "image docker.io/library/app:1";

/// Installs and starts the service with the commands of docs/installation.md for an installation by hand, after the build.
fn install_by_hand(systemd: &Systemd<'_>, settings: &str) {
    systemd.sh("mkdir --parents /etc/kubegc/conf.d");
    write_settings(systemd, "conf.d/10-test.toml", &format!("mode = \"collect\"\n{settings}"));
    let page =
        include_str!("../../../docs/installation.md").replace("target/release/kubegc", env!("CARGO_BIN_EXE_kubegc"));
    let commands = page.lines().skip_while(|line| *line != "make build").skip(1);
    let commands: Vec<_> = commands.take_while(|line| *line != "```").collect();
    assert_eq!(commands.len(), 5, "{commands:?}");
    systemd.sh(&format!("cd {}\n{}", env!("CARGO_MANIFEST_DIR"), commands.join("\n")));
}

/// Writes a file below `/etc/kubegc`.
fn write_settings(systemd: &Systemd<'_>, file: &str, settings: &str) {
    systemd.sh(&format!("cat >/etc/kubegc/{file} <<'END'\n{settings}END"));
}

/// Creates a pod with an exited container and a stopped sandbox, of which only the runtime is left.
async fn deleted_pod(node: &NodeRig, name: &str) {
    let pod = node.pod("default", name, &format!("uid-{name}")).await;
    pod.exited("app", 0).await;
    pod.stop_sandbox().await;
}

/// Returns whether a container, sandbox or log of a pod is left.
async fn has_pod(node: &NodeRig, pod: &str) -> bool {
    names(node).await.iter().any(|name| name.contains(pod))
}

async fn names(node: &NodeRig) -> BTreeSet<String> {
    node.names().await.words()
}

async fn until(what: &str, systemd: &Systemd<'_>, ask: impl AsyncFnMut() -> bool) {
    assert!(
        crate::rig::eventually(ask).await,
        "not within two minutes: {what}; the journal ends with\n{}",
        systemd.journal()
    );
}

/// One boot for all, because a service that works is the start of each step.
#[tokio::test(flavor = "multi_thread")]
async fn systemd_starts_reloads_watches_and_stops_the_service() {
    let node = NodeRig::start_runtime_alone(Options::default()).await;
    let live = node.pod("default", "live-0", "uid-live").await;
    live.running("app").await;
    deleted_pod(&node, "gone-0").await;
    let systemd = Systemd::boot(&node).await;

    // Start, and a collection under the limits of the unit.
    install_by_hand(&systemd, SETTINGS);
    until("the deleted pod is removed", &systemd, async || !has_pod(&node, "gone-0").await).await;
    assert!(!node.pod_logs().join("default_gone-0_uid-gone-0").exists(), "its logs are deleted too");
    assert!(has_pod(&node, "live-0").await);
    assert_eq!(systemd.property("kubegc", "NRestarts"), "0", "{}", systemd.journal());
    systemd.sh("test -e /var/lib/kubegc/kubegc.db");
    let found = systemd
        .sh("journalctl --unit kubegc --priority info --output=cat KUBEGC_KIND=sandbox KUBEGC_POD=default/gone-0");
    assert!(found.starts_with("removed kind=sandbox id="), "{found}\n{}", systemd.journal());

    // Reload: invalid settings fail it, valid ones are in force afterward.
    write_settings(
        &systemd,
        "conf.d/10-test.toml",
        &format!("mode = \"collect\"\n{SETTINGS}images.all_unused = \"perhaps\"\n"),
    );
    assert!(!systemd.run("systemctl", &["reload", "kubegc"]).status.success());
    write_settings(
        &systemd,
        "conf.d/10-test.toml",
        &format!("mode = \"collect\"\n{SETTINGS}images.all_unused = true\n"),
    );
    node.import(&[Image::new(&["docker.io/library/unused:1"], &[Layer::filled("unused", 1)])]).await;
    systemd.sh("systemctl reload kubegc");
    until("the unused image is removed", &systemd, async || !has_pod(&node, "unused:1").await).await;
    assert!(names(&node).await.iter().any(|name| name == UNUSED), "a running container uses it");

    // Watchdog: a process that does not run is killed and started again, and collects.
    let first = systemd.property("kubegc", "MainPID");
    assert_eq!(systemd.property("kubegc", "WatchdogUSec"), "1min");
    systemd.sh("systemctl kill --signal=STOP kubegc");
    systemd.becomes("kubegc", "NRestarts", |restarts| restarts == "1").await;
    systemd.becomes("kubegc", "ActiveState", |state| state == "active").await;
    assert_ne!(systemd.property("kubegc", "MainPID"), first);
    assert!(systemd.sh("journalctl --unit kubegc --output=cat").contains("Watchdog timeout"), "{}", systemd.journal());
    deleted_pod(&node, "gone-1").await;
    until("the next deleted pod is removed", &systemd, async || !has_pod(&node, "gone-1").await).await;

    // The timer's unit beside the agent is a pass of the agent; without it, it makes the pass itself.
    systemd.sh("systemctl start kubegc-collect.service");
    assert!(systemd.sh("journalctl --unit kubegc --output=cat").contains("pass requested by a command"));
    systemd.sh("systemctl stop kubegc");
    assert_eq!(systemd.property("kubegc", "Result"), "success", "{}", systemd.journal());
    deleted_pod(&node, "gone-2").await;
    // The first pass only learns that the pod is missing.
    systemd.sh("systemctl start kubegc-collect.service; systemctl start kubegc-collect.service");
    assert!(!has_pod(&node, "gone-2").await, "{}", systemd.journal());
    systemd.sh("systemctl enable --now kubegc-collect.timer");
    assert_ne!(systemd.property("kubegc-collect.timer", "NextElapseUSecRealtime"), "");
}
