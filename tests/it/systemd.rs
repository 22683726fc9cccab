//! The service under systemd: its notifications to the manager, and its unit file.

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use kubegc::sim::{Fault, Node, Rpc, Sim, Times};
use nix::sys::signal::Signal;

use crate::agent::Home;

mod on_node;

/// The highest acceptable exposure of `systemd-analyze security`, in tenths. It comes from root, the network and the
/// permission to delete the logs of any user.
const MOST_EXPOSED: u32 = 20;

/// A service manager that records its messages.
struct Manager {
    dir: tempfile::TempDir,
    socket: UnixDatagram,
    received: Vec<String>,
}

// === impl Manager ===

impl Manager {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let socket = UnixDatagram::bind(dir.path().join("notify")).unwrap();
        socket.set_read_timeout(Some(Duration::from_mins(3))).unwrap();
        Self { dir, socket, received: Vec::new() }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("notify")
    }

    /// Waits for a datagram with this prefix, and returns it.
    fn hears(&mut self, beginning: &str) -> String {
        loop {
            let mut buffer = [0; 4096];
            let length = self.socket.recv(&mut buffer).unwrap_or_else(|error| {
                panic!("no {beginning:?}: {error}; received {:#?}", self.received);
            });
            self.received.push(String::from_utf8_lossy(&buffer[..length]).into_owned());
            if let Some(last) = self.received.last().filter(|last| last.starts_with(beginning)) {
                return last.clone();
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn systemd_is_notified_of_start_passes_reload_and_stop() {
    let sim =
        Sim::start(Node::new().pod("default", "web-0", "web-0").running("app", "docker.io/library/web:1")).unwrap();
    let home = Home::new(&sim, "containers.interval = \"1s\"");
    let mut manager = Manager::new();
    let mut service = home.start_with(&["run"], &[("NOTIFY_SOCKET", manager.path().as_os_str())]);

    assert_eq!(manager.hears("READY"), "READY=1\nSTATUS=watching");
    let status = manager.hears("STATUS=containers");
    assert!(status.contains("removed 0, failed 0, kept 4"), "{status}");

    service.signal(Signal::SIGHUP);
    assert!(manager.hears("RELOADING").contains("\nMONOTONIC_USEC="));
    assert_eq!(manager.hears("READY"), "READY=1\nSTATUS=settings reloaded");
    home.set("containers.interval = \"soon\"");
    service.signal(Signal::SIGHUP);
    manager.hears("RELOADING");
    assert_eq!(manager.hears("READY"), "READY=1\nSTATUS=settings not reloaded; the previous settings remain in force");

    service.signal(Signal::SIGTERM);
    manager.hears("STOPPING=1");
    assert_eq!(service.ended().await.code(), Some(0));
}

/// The manager limits the start to 90 seconds, and a runtime may need longer.
#[tokio::test(flavor = "multi_thread")]
async fn a_service_waiting_for_its_runtime_counts_as_started() {
    let sim = Sim::start(Node::new()).unwrap();
    let home = Home::new(&sim, "");
    let mut manager = Manager::new();
    let mut service = home.start_with(
        &["run", "-r", "unix:///nonexistent/runtime.sock"],
        &[("NOTIFY_SOCKET", manager.path().as_os_str())],
    );
    assert_eq!(manager.hears("READY"), "READY=1\nSTATUS=waiting for the runtime");
    service.signal(Signal::SIGTERM);
    manager.hears("STOPPING=1");
    assert_eq!(service.ended().await.code(), Some(0));
}

/// Starts the service with a watchdog of two seconds.
fn watched(home: &Home, manager: &Manager, arguments: &[&str]) -> crate::agent::Running {
    let manager = manager.path();
    home.start_with(arguments, &[("NOTIFY_SOCKET", manager.as_os_str()), ("WATCHDOG_USEC", "2000000".as_ref())])
}

/// The watchdog is answered twice within its limit, so five answers take at least four seconds.
fn answers_five_times(manager: &mut Manager) {
    let start = Instant::now();
    (0..5).for_each(|_| drop(manager.hears("WATCHDOG=1")));
    assert!(start.elapsed() > Duration::from_secs(3), "{:?}", start.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_watchdog_is_answered_despite_runtime_faults() {
    let node = Node::new().now(kubegc::daemon::now()).ago(Duration::from_hours(5));
    let sim = Sim::start(node.pod("default", "gone-0", "gone-0").exited("app", "web:1").stopped()).unwrap();
    let (home, mut manager) = (Home::new(&sim, "containers.interval = \"1s\""), Manager::new());
    let mut service = watched(&home, &manager, &["run", "-r", "unix:///nonexistent/runtime.sock"]);
    manager.hears("READY=1\nSTATUS=waiting for the runtime");
    answers_five_times(&mut manager);
    service.signal(Signal::SIGTERM);
    assert_eq!(service.ended().await.code(), Some(0));

    for (call, wait) in [(Rpc::ListContainers, "observes"), (Rpc::RemoveContainer, "removes")] {
        sim.fault(call, Fault::Hang, Times::Forever);
        let mut manager = Manager::new();
        let mut service = watched(&home, &manager, &["run"]);
        sim.await_call(call).await.unwrap();
        answers_five_times(&mut manager);
        assert!(!manager.received.iter().any(|received| received.starts_with("STATUS=containers")), "it {wait} still");
        // One signal lets the call end, which takes long, and the second one aborts.
        service.signal(Signal::SIGTERM);
        manager.hears("STOPPING=1");
        service.signal(Signal::SIGTERM);
        assert_eq!(service.ended().await.code(), Some(143));
        sim.heal();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_watchdog_of_another_process_is_not_answered() {
    let sim = Sim::start(Node::new()).unwrap();
    let (home, mut manager) = (Home::new(&sim, "containers.interval = \"1s\""), Manager::new());
    let path = manager.path();
    let mut service = home.start_with(
        &["run"],
        &[("NOTIFY_SOCKET", path.as_os_str()), ("WATCHDOG_USEC", "100000".as_ref()), ("WATCHDOG_PID", "1".as_ref())],
    );
    (0..3).for_each(|_| drop(manager.hears("STATUS=containers")));
    assert!(!manager.received.iter().any(|received| received.starts_with("WATCHDOG")), "{:#?}", manager.received);
    service.signal(Signal::SIGTERM);
    assert_eq!(service.ended().await.code(), Some(0));
}

/// The services among the units.
const SERVICES: [&str; 2] = ["kubegc.service", "kubegc-collect.service"];

/// Returns a unit of the repository.
fn unit(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("systemd").join(name)).unwrap()
}

#[test]
fn the_units_preserve_the_directory_of_the_node_lock() {
    let settings = kubegc::config::Settings::default();
    let name = settings.state.lock.parent().unwrap().strip_prefix("/run").unwrap().display();
    for unit in SERVICES.map(unit) {
        assert!(unit.contains(&format!("\nRuntimeDirectory={name}\n")), "the one directory of /run that it can write");
        assert!(
            unit.contains("\nRuntimeDirectoryPreserve=yes\n"),
            "a pod's or a shell's agent may hold the lock in it"
        );
    }
}

#[test]
fn both_services_have_the_same_permissions() {
    let [service, collect] = SERVICES.map(|name| {
        let unit = unit(name);
        let permissions = unit[unit.find("# The store").unwrap()..].split("\n[Install]").next().unwrap();
        permissions.trim_end().to_owned()
    });
    assert_eq!(service, collect);
}

/// Checks the units with systemd's tools. They come with Debian's `systemd`, which root installs.
mod as_root {
    use super::*;

    #[test]
    fn systemd_analyze_verifies_the_units() {
        let dir = units();
        let names = SERVICES.into_iter().chain(["kubegc-collect.timer"]);
        let verified = analyze(&["verify"], names.map(|name| dir.path().join(name)).collect());
        let shown = String::from_utf8_lossy(&verified.stderr);
        // The tool also loads the units that these refer to, and those belong to the machine.
        let shown: Vec<_> = shown.lines().filter(|line| line.contains("kubegc")).collect();
        assert!(verified.status.success() && shown.is_empty(), "{shown:#?}");
    }

    #[test]
    fn the_services_have_exactly_the_permissions_that_they_need() {
        let dir = units();
        let threshold = format!("--threshold={MOST_EXPOSED}");
        for name in SERVICES {
            let options = ["security", "--offline=true", "--no-pager", &threshold];
            let judged = analyze(&options, vec![dir.path().join(name)]);
            assert!(judged.status.success(), "{name}: {}", String::from_utf8_lossy(&judged.stdout));
        }
    }

    /// Returns the units with the path of the tested binary, so that the check needs no installation.
    fn units() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for name in SERVICES {
            let unit = unit(name);
            assert!(unit.contains("\nExecStart=kubegc "), "{name}");
            let unit = unit.replace("=kubegc ", &format!("={} ", env!("CARGO_BIN_EXE_kubegc")));
            std::fs::write(dir.path().join(name), unit).unwrap();
        }
        std::fs::write(dir.path().join("kubegc-collect.timer"), unit("kubegc-collect.timer")).unwrap();
        dir
    }

    fn analyze(arguments: &[&str], units: Vec<PathBuf>) -> Output {
        let analyzed = Command::new("systemd-analyze").args(arguments).args(units).output();
        analyzed.expect("systemd-analyze runs (scripts/setup.sh installs it with Debian's systemd)")
    }

    /// Runs `config check` in mounts of its own: the kubelet's directory is read-only, as in the units, and the pod log root is on a
    /// volume, by a link or by a bind mount.
    fn checked_with(pod_logs: &str) -> (PathBuf, String) {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().canonicalize().unwrap();
        let config = format!(
            "kubelet_root = '{0}/kubelet'\nlogs.pods_root = '{0}/log/pods'\nlogs.containers_root = '{0}/log/links'\nlogs.archive = ['keep 1h']\n",
            at.display()
        );
        std::fs::write(at.join("kubegc.toml"), config).unwrap();
        let script = format!(
            "set -e; cd {}; mount --make-rprivate /; mkdir -p kubelet/pods log/links volume; \
             mount --bind kubelet kubelet; mount -o remount,bind,ro kubelet; mount -t tmpfs t volume; mkdir volume/pods; {pod_logs}; \
             exec {} config check --config kubegc.toml",
            at.display(),
            env!("CARGO_BIN_EXE_kubegc")
        );
        let output = Command::new("unshare").args(["-m", "sh", "-c", &script]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        (at, String::from_utf8(output.stdout).unwrap())
    }

    #[test]
    fn config_check_says_what_the_mounts_do_not_permit_and_what_to_set() {
        for pod_logs in ["ln -s ../volume/pods log/pods", "mkdir log/pods; mount --bind volume/pods log/pods"] {
            let (at, shown) = checked_with(pod_logs);
            let at = at.display();
            let expected = [
                format!("warning: leftovers.remove: {at}/kubelet/pods is read-only for this process"),
                format!("warning: logs.archive: {at}/log/pods is on another mount than {at}/log"),
                format!("set logs.pods_root = \"{at}/volume/pods\""),
            ];
            assert!(expected.iter().all(|text| shown.contains(text)), "{pod_logs}: {shown}");
            assert!(shown.ends_with("with 2 warnings\n"), "{shown}");
        }
        let (_, shown) = checked_with("mkdir log/pods");
        assert!(shown.ends_with("with 1 warning\n") && shown.contains("leftovers.remove"), "{shown}");
    }
}
