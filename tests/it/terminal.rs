//! The output on a terminal of 60 to 200 columns: a real pseudo-terminal, and a simulated node of 60 objects with
//! long names. `tests/data/screens.md` shows the screens, and is checked here.

mod full_disk;

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use jiff::Timestamp;
use kubegc::sim::{Fault, GIB, MIB, Node, Rpc, Sim, Times};
use nix::pty::{Winsize, openpty};

use crate::shell::Shell;

const NAMESPACES: [&str; 3] = ["payments-production", "platform-observability", "search"];
const SERVICES: [&str; 8] = [
    "checkout-service-frontend",
    "recommendation-engine",
    "invoice-pdf-renderer",
    "customer-notification-worker",
    "metrics-aggregator",
    "fulltext-indexer",
    "session-store",
    "fraud-detection-batch",
];

/// Returns the name of a pod as a Deployment gives it.
fn pod(service: &str, number: usize) -> String {
    format!("{service}-7d9f8c6b5d-x2x{number}z")
}

fn image(service: &str, release: usize) -> String {
    format!("registry.eu-central-1.example.com/teams/{service}:2026.11.{release}-1a2b3c4d5e6f")
}

/// Returns a node of 60 objects: 8 pods that crash, 4 jobs with two sandboxes, 24 images.
fn node() -> Node {
    let hour = Duration::from_hours(1);
    let mut node = Node::new().now(Timestamp::now()).disk(100 * GIB, 50 * GIB).ago(480 * hour);
    // kubegc measures this file system, and nothing else on this machine changes how full it is.
    node = node.image_mountpoint("/dev");
    for (number, service) in SERVICES.iter().enumerate() {
        for release in 1..=3 {
            let size = (number as u64 * 37 + release as u64 * 11 + 20) * MIB;
            node = node.image(&image(service, release), &[(&format!("{service}{release}"), size)]);
        }
    }
    for (number, service) in SERVICES.iter().enumerate() {
        let (name, uid) = (pod(service, number), format!("5e2c1d0{number}-9f7a-4c1b-8d3e-0a1b2c3d4e5f"));
        node = node.ago(72 * hour).pod(NAMESPACES[number % 3], &name, &uid);
        if number % 2 == 0 {
            node = node.ago(70 * hour).exited("istio-proxy-sidecar", &image(service, 2)).logging(20_000);
            node = node.ago(60 * hour).exited("istio-proxy-sidecar", &image(service, 2)).logging(3_000);
        }
        node = node.ago(50 * hour).running("istio-proxy-sidecar", &image(service, 2)).logging(50_000);
    }
    for number in 0..4_u64 {
        let (name, uid) = (format!("nightly-database-export-2919{number}-vw7q{number}"), format!("job-{number}"));
        node = node.ago(Duration::from_hours(30 + number));
        node = node.pod("batch-processing", &name, &uid).stopped();
        node = node.ago(29 * hour).pod("batch-processing", &name, &uid).exited("export", &image(SERVICES[7], 3));
        node = node.logging(9_000).stopped();
    }
    node
}

/// A shell on that node.
struct Host {
    shell: Shell,
    sim: Sim,
}

impl Host {
    fn new() -> Self {
        let sim = Sim::start(node()).unwrap();
        let dir = sim.dir().display().to_string();
        // The agent of the test measures this machine's disk, so images are removed whatever the disk usage is.
        let config = format!(
            "pods.source = \"none\"\nnode = \"worker-7\"\nruntime.endpoint = \"{}\"\nlogs.pods_root = \"{}\"\n\
             logs.containers_root = \"{}\"\nstate.path = \"{dir}/state/kubegc.db\"\nstate.lock = \"{dir}/run/lock\"\n\
             kubelet_root = \"{dir}/kubelet\"\nleftovers.networks_root = \"{dir}/networks\"\nguards.settle = \"0s\"\n[images]\nall_unused = true\nmin_age = \"0s\"\n",
            sim.endpoint(),
            sim.log_roots().pods.display(),
            sim.log_roots().containers.display(),
        );
        Self { shell: Shell::new().with("kubegc.toml", &config), sim }
    }

    /// Runs the binary on a terminal of this width, and returns what it prints to standard output.
    fn on_terminal(&self, columns: u16, arguments: &[&str]) -> String {
        let size = Winsize { ws_row: 50, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(Some(&size), None).unwrap();
        let mut command = self.shell.command(arguments);
        command.env("TERM", "xterm").env("NO_COLOR", "1").stdout(pty.slave).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        drop(command);
        let mut bytes = Vec::new();
        // The terminal ends with an error as soon as no process has it open.
        let _ = File::from(pty.master).read_to_end(&mut bytes);
        let mut errors = String::new();
        child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        // `status` exits with 1, because no agent runs.
        let expected = i32::from(arguments == ["status"]);
        assert_eq!(child.wait().unwrap().code(), Some(expected), "{arguments:?}\n{errors}");
        String::from_utf8(bytes).unwrap().replace("\r\n", "\n")
    }

    /// Runs the binary with standard error on a terminal of this width, and returns what it draws there.
    fn draws(&self, columns: u16, arguments: &[&str]) -> String {
        let size = Winsize { ws_row: 50, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(Some(&size), None).unwrap();
        let mut command = self.shell.command(arguments);
        let mut child = command.env("TERM", "xterm").stdout(Stdio::null()).stderr(pty.slave).spawn().unwrap();
        drop(command);
        let mut bytes = Vec::new();
        let _ = File::from(pty.master).read_to_end(&mut bytes);
        let text = String::from_utf8(bytes).unwrap();
        assert!(child.wait().unwrap().success(), "{arguments:?}\n{text}");
        text
    }
}

/// The screens of the file, in this order. Of the history only the images: these are removed one at a time, the others side
/// by side and end in any order.
const SCREENS: [&[&str]; 9] = [
    &["demo"],
    &["plan"],
    &["plan", "-o", "wide"],
    &["why", "teams/checkout-service-frontend:2026.11.2-1a2b3c4d5e6f"],
    &["images"],
    &["images", "-o", "wide"],
    &["status"],
    &["collect"],
    &["history", "--limit", "15"],
];

/// Leaves out and replaces what differs from one run to the next: the disk is that of this machine, and the age of a log
/// directory is that of the test.
fn stable(text: &str, dir: &str) -> String {
    let mut is_left_out = false;
    let mut is_stable = |line: &&str| {
        // A line that begins with a space continues the one before it.
        let continues = line.starts_with(' ') && is_left_out;
        is_left_out = continues || line.contains("isk:") || line.starts_with("log dir ");
        !is_left_out
    };
    let lines: Vec<_> = text.lines().filter(|line| is_stable(line)).map(without_times).collect();
    lines.join("\n").replace(dir, "DIR")
}

/// Replaces each time, as `2026-11-21T12:00:00Z` or `11-21T12:00`, by one time.
fn without_times(line: &str) -> String {
    let mut line = line.to_owned();
    let is_time =
        |part: &str| part.parse::<Timestamp>().is_ok() || format!("2026-{part}:00Z").parse::<Timestamp>().is_ok();
    for time in ["2026-11-22T12:00:00Z", "11-22T12:00"] {
        for start in 0..=line.len().saturating_sub(time.len()) {
            if line.get(start..start + time.len()).is_some_and(is_time) {
                line.replace_range(start..start + time.len(), time);
            }
        }
    }
    line
}

const COMMANDS: [&[&str]; 9] = [
    &["demo"],
    &["plan"],
    &["plan", "-o", "wide"],
    &["why", "checkout-service-frontend-7d9f8c6b5d-x2x0z"],
    &["images"],
    &["images", "--sort-by", "last-used", "-o", "wide"],
    &["status"],
    &["collect"],
    &["history"],
];

/// Returns the rows of tables: the lines with a kind of object that belongs to a pod.
fn rows(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .filter(|line| ["container  ", "sandbox    ", "log dir    "].iter().any(|kind| line.starts_with(kind)))
        .filter(|line| line.contains('/'))
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for columns in [60, 80, 100, 120, 200] {
        let host = Host::new();
        for command in COMMANDS {
            let text = host.on_terminal(columns, command);
            let longest = text.lines().map(|line| line.chars().count()).max().unwrap();
            assert!(longest <= usize::from(columns), "{command:?}: {longest}\n{text}");
            if command[0] == "demo" || columns < 80 {
                continue;
            }
            for row in rows(&text) {
                let starts: &[&str] = &["payments", "platform", "search/", "batch-pr"];
                let starts: Vec<_> = starts.iter().map(|start| &start[..if columns < 200 { 4 } else { 7 }]).collect();
                assert!(starts.iter().any(|start| row.contains(start)), "{command:?}\n{row}\n{text}");
            }
        }
    }
}

#[test]
fn at_80_columns_the_repository_and_the_tag_of_an_image_can_be_read() {
    let host = Host::new();
    for command in [&["plan"][..], &["images"], &["collect", "--dry-run"]] {
        let text = host.on_terminal(80, command);
        let row = text
            .lines()
            .find(|line| line.contains("session-store:2026."))
            .unwrap_or_else(|| panic!("{command:?}\n{text}"));
        assert!(!row.contains("regis"), "{command:?}\n{text}");
    }
}

#[test]
fn at_200_columns_nothing_is_cut_that_fits() {
    let host = Host::new();
    let text = host.on_terminal(200, &["plan"]);
    assert!(!text.contains('…') && text.contains(&image(SERVICES[0], 1)), "{text}");
}

#[test]
fn a_bar_takes_one_line_and_names_objects() {
    let host = Host::new();
    // Each removal takes long enough to be drawn.
    host.sim.fault(Rpc::RemoveImage, Fault::Late(Duration::from_millis(60)), Times::Forever);
    let text = host.draws(80, &["collect", "--wait=5s", "--set", "images.min_age=1s"]);
    assert!(!text.contains("\x1b[1A"), "a bar of several lines\n{text:?}");
    let drawn: Vec<_> = text.split(['\r', '\n']).map(|line| line.replace("\x1b[2K", "")).collect();
    let bars: Vec<_> = drawn.iter().filter(|line| line.contains(['█', '░'])).collect();
    assert!(bars.iter().all(|bar| bar.chars().count() <= 80), "{bars:?}");
    assert!(bars.iter().any(|bar| bar.contains("for the ages of images and missing pods")), "{bars:?}");
    assert!(bars.iter().any(|bar| bar.contains("image …") && bar.contains(":2026.11")), "{bars:?}");
}

/// `scripts/generate.sh` writes the file instead.
#[test]
fn the_recorded_screens_are_current() {
    let mut page = "# Screens\n\nThe output on a terminal, of a node of 60 objects with long names. \
                    A test prints these screens and compares them with this file.\n"
        .to_owned();
    for columns in [80, 200] {
        // A node of its own, because `collect` changes it.
        let host = Host::new();
        for command in SCREENS {
            let text = stable(&host.on_terminal(columns, command), &host.sim.dir().display().to_string());
            write!(page, "\n## `kubegc {}`, {columns} columns\n\n```\n{text}\n```\n", command.join(" ")).unwrap();
        }
    }
    page += &full_disk::screens();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/screens.md");
    if std::env::var_os("KUBEGC_GENERATE").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let current = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(current == page, "tests/data/screens.md is not current: run scripts/generate.sh\n{page}");
}
