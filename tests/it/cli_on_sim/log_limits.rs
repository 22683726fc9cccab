//! Limits on the log files of pods, in each command.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, SystemTime};

use kubegc::sim::Node;

use super::{Host, node};

const ROTATED: [&str; 3] = ["0.log.20261121-100000.gz", "0.log.20261121-110000.gz", "0.log.20261121-120000"];
const LIMIT: &str = "--set=logs.limits=pod 250KiB";

/// Writes a log file of a container named `app` that was last modified so many hours ago.
fn write(host: &Host, pod: &str, name: &str, (bytes, hours): (usize, u64)) {
    let path = host.sim.log_roots().pods.join(format!("default_{pod}_u-{pod}/app/{name}"));
    fs::write(&path, vec![b'x'; bytes]).unwrap();
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_hours(hours)).unwrap();
    // The blocks of the file may not be known before.
    file.sync_all().unwrap();
}

/// Returns the log files of a pod, the current one left out.
fn rotated(host: &Host, pod: &str) -> BTreeSet<String> {
    let files = fs::read_dir(host.sim.log_roots().pods.join(format!("default_{pod}_u-{pod}/app"))).unwrap();
    files.map(|file| file.unwrap().file_name().into_string().unwrap()).filter(|name| name != "0.log").collect()
}

/// A node with the rotated logs of the pod `web`: 100 KiB in each of three files, and in the current one.
fn host() -> Host {
    let host = Host::with(node());
    for (hours, name) in (1..).zip(ROTATED.into_iter().rev()) {
        write(&host, "web", name, (100 << 10, hours));
    }
    write(&host, "web", "0.log", (100 << 10, 0));
    host
}

#[test]
fn rotated_logs_over_a_limit_are_shown_and_removed() {
    let host = host();
    assert!(host.run(&["plan", "--kind=log-file"]).contains("Nothing to remove"), "there is no limit");
    let plan = host.run(&["plan", "--kind=log-file", LIMIT]);
    for name in &ROTATED[..2] {
        assert!(plan.contains(name) && plan.contains("over logs.limits (pod 250KiB)"), "{plan}");
    }
    assert!(plan.contains("To remove: 2 log files"), "{plan}");
    let path = host.sim.log_roots().pods.join("default_web_u-web/app").join(ROTATED[0]);
    let done = host.run(&["collect", "--dry-run", LIMIT]);
    assert!(rotated(&host, "web").len() == 3 && done.contains("2 log files"), "{done}");
    let done = host.run(&["collect", LIMIT]);
    assert!(done.contains("2 log files"), "{done}");
    assert_eq!(rotated(&host, "web"), [ROTATED[2].to_owned()].into());
    let again = host.run(&["collect", LIMIT]);
    assert!(!again.contains("log file"), "{again}");
    let history: serde_json::Value =
        serde_json::from_str(host.run(&["history", path.to_str().unwrap(), "-o=json"]).trim()).unwrap();
    assert_eq!((&history["reason"], &history["outcome"]), (&"over_log_limit".into(), &"removed".into()));
}

#[test]
fn a_current_log_over_a_limit_is_said() {
    let host = host();
    write(&host, "web", "0.log", (400 << 10, 0));
    let text =
        "log files of pod default/web have 400.0KiB, over logs.limits (pod 250KiB): what is left: 1 current file";
    assert!(host.run(&["collect", LIMIT]).contains(text));
    assert_eq!(rotated(&host, "web"), BTreeSet::new());
    assert!(host.run(&["plan", LIMIT]).contains(text));
    assert!(host.run(&["status", LIMIT]).contains(text));
    assert!(!host.run(&["status"]).contains("log files"));
}

#[test]
fn a_saved_plan_removes_what_it_shows_and_nothing_else() {
    let host = host();
    let saved = host.shell.run(&["plan", LIMIT, "-o=json"]);
    fs::write(host.shell.path("plan.json"), saved).unwrap();
    write(&host, "web", ROTATED[0], (100 << 10, 0));
    host.run(&["collect", "--plan=plan.json"]);
    assert_eq!(rotated(&host, "web"), [ROTATED[0], ROTATED[2]].map(str::to_owned).into(), "one was written since");
}

/// What a pod with a hostPath can put beneath the log root counts for no limit, and stays.
#[test]
fn what_is_no_log_of_the_kubelet_stays() {
    let host = host();
    let dir = host.sim.log_roots().pods.join("default_web_u-web/app");
    fs::create_dir_all(host.sim.log_roots().pods.join("default_fake_u-web/app")).unwrap();
    fs::write(host.sim.log_roots().pods.join("default_fake_u-web/app").join(ROTATED[0]), vec![0; 900 << 10]).unwrap();
    fs::write(host.sim.dir().join("secret"), vec![0; 900 << 10]).unwrap();
    std::os::unix::fs::symlink(host.sim.dir().join("secret"), dir.join("0.log.20261121-130000")).unwrap();
    fs::hard_link(host.sim.dir().join("secret"), dir.join("0.log.20261121-140000")).unwrap();
    nix::unistd::mkfifo(&dir.join("0.log.20261121-150000"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    fs::write(dir.join("0.log.20261121-160000.tmp"), "").unwrap();
    fs::write(dir.join("notes"), vec![0; 900 << 10]).unwrap();
    assert!(host.run(&["plan", "--kind=log-file", "--set=logs.limits=pod 400KiB"]).contains("Nothing to remove"));
    let done = host.run(&["collect", "--set=logs.limits=pod 100KiB"]);
    assert!(done.contains("3 log files"), "{done}");
    let left = rotated(&host, "web");
    let expected = [
        "0.log.20261121-130000",
        "0.log.20261121-140000",
        "0.log.20261121-150000",
        "0.log.20261121-160000.tmp",
        "notes",
    ];
    assert_eq!(left, expected.map(str::to_owned).into());
    assert!(host.sim.log_roots().pods.join("default_fake_u-web/app").join(ROTATED[0]).exists());
}

/// One pass frees down to the limit, with default settings besides it.
#[test]
fn thousands_of_log_files_are_within_the_limit_after_a_pass() {
    let count = std::env::var("KUBEGC_LOG_PODS").map_or(100, |pods| pods.parse().unwrap());
    let pods = (0..count).map(|n: usize| format!("p{n}"));
    let add = |node: Node, pod: String| {
        let node = node.id(&format!("s-{pod}")).pod("default", &pod, &format!("u-{pod}"));
        node.id(&format!("c-{pod}")).running("app", "r.example/web:2")
    };
    let host = Host::with(pods.clone().fold(node(), add));
    let dir = |pod: &str| host.sim.log_roots().pods.join(format!("default_{pod}_u-{pod}/app"));
    for pod in pods.clone() {
        for second in 10..30 {
            fs::write(dir(&pod).join(format!("0.log.20261121-1000{second}")), [b'x'; 4096]).unwrap();
        }
    }
    // A current file has a block of 4 KiB and stays; each pod may have one more file, and some a third.
    let limit = format!("node {}KiB", count * 10);
    let done = host.run(&["collect", &format!("--set=logs.limits={limit}")]);
    let files = pods.flat_map(|pod| fs::read_dir(dir(&pod)).unwrap());
    let left: u64 = files.map(|file| file.unwrap().metadata().unwrap().blocks() * 512).sum();
    // The other pods of the node have logs too.
    let most = count as u64 * 10 * 1024;
    assert!((most - 20_000..=most).contains(&left), "{left} of {most}");
    assert!(done.contains(&format!("over logs.limits ({limit})")), "{done}");
}
