//! The log and the messages: their levels, their words, and nothing twice.

use std::collections::BTreeSet;

use kubegc::sim::{MIB, Node, Sim};
use serde_json::Value;

use crate::agent::Home;
use crate::cli_on_sim::Host;

/// Returns a node on which every kind of object is removed.
fn sim() -> Sim {
    let node = Node::new().now(kubegc::daemon::now()).ago(std::time::Duration::from_hours(5));
    let node = node.image("docker.io/library/old:1", &[("old", MIB)]).image("docker.io/library/web:1", &[("web", MIB)]);
    let node = node.pod("default", "gone", "gone").exited("app", "docker.io/library/web:1").logging(100).stopped();
    Sim::start(node.pod("default", "live", "live").running("app", "docker.io/library/web:1")).unwrap()
}

/// Collects, and returns the log.
fn log(flags: &[&str], variables: &[(&str, &str)]) -> Vec<String> {
    let sim = sim();
    let home = Home::new(&sim, "images.all_unused = true");
    let ran = home.run_with(&[&["collect"], flags].concat(), variables);
    assert!(ran.status.success(), "{ran:?}");
    let messages = String::from_utf8(ran.stderr).unwrap();
    // The warning about missing history and the progress are no log messages.
    messages
        .lines()
        .filter(|line| !line.starts_with("warning: ") && !line.starts_with("removed: "))
        .map(str::to_owned)
        .collect()
}

fn removals(log: &[String]) -> usize {
    log.iter().filter(|line| line.contains(" removed kind=")).count()
}

#[test]
fn the_log_level_flag_overrides_rust_log() {
    assert_eq!(log(&[], &[]), Vec::<String>::new(), "the table shows the removals");
    for (flags, variables) in [
        (&["--log-level=info"][..], &[][..]),
        (&["-v"], &[]),
        (&[], &[("RUST_LOG", "info")]),
        (&[], &[("RUST_LOG", "kubegc=info")]),
        (&["--log-level=info"], &[("RUST_LOG", "off")]),
    ] {
        let log = log(flags, variables);
        assert!(removals(&log) >= 4, "{flags:?} {variables:?}: {log:#?}");
        assert!(!log.iter().any(|line| line.contains("DEBUG")), "{log:#?}");
    }
    let is_of_library = |line: &String| line.contains("DEBUG");
    assert!(!log(&["--log-level=trace"], &[]).iter().any(is_of_library), "no flag shows the frames of HTTP/2");
    assert!(log(&[], &[("RUST_LOG", "debug")]).iter().any(is_of_library), "the variable does");
    assert_eq!(log(&["--log-level=error"], &[("RUST_LOG", "debug")]), Vec::<String>::new());
}

/// A word has one spelling, and a field without a value is missing.
#[test]
fn the_text_log_has_plain_fields() {
    let log = log(&["--log-level=info"], &[]);
    let kinds: BTreeSet<_> = log
        .iter()
        .filter_map(|line| line.split(" removed kind=").nth(1))
        .map(|rest| rest.split(' ').next().unwrap().trim_matches('"').to_owned())
        .collect();
    assert_eq!(kinds, ["container", "image", "log_directory", "sandbox"].map(str::to_owned).into(), "{log:#?}");
    for line in &log {
        for wrong in ["values={}", "values=\"\"", "=None", "Some(", "\\\"", "\"\""] {
            assert!(!line.contains(wrong), "{wrong} in {line}");
        }
    }
}

#[test]
fn the_json_log_has_one_object_per_line() {
    let log = log(&["--log-level=info", "--set=log.format=json"], &[]);
    let mut words = BTreeSet::new();
    for line in &log {
        let event: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let fields = event["fields"].as_object().unwrap();
        for (name, value) in fields {
            let text = value.as_str().unwrap_or_default();
            assert!(!text.starts_with('"') && text != "{}" && !text.contains("Some("), "{name} in {line}");
        }
        words.extend(fields.get("kind").and_then(Value::as_str).map(str::to_owned));
    }
    assert_eq!(words, ["container", "image", "log_directory", "sandbox"].map(str::to_owned).into(), "{log:#?}");
}

/// A message on standard error that is a line of standard output already shows the same fault twice on a terminal.
#[test]
fn no_command_says_the_same_on_both_streams() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let endpoint = format!("--set=pods.kubelet_endpoint=http://127.0.0.1:{port}");
    let mut host = Host::new();
    for faults in [&[][..], &["--pod-source=kubelet", &endpoint], &["--pod-source=auto"]] {
        no_line_twice(&host, faults);
    }
    host.sim.stop_listening();
    no_line_twice(&host, &[]);
}

fn no_line_twice(host: &Host, flags: &[&str]) {
    for command in [
        &["plan"][..],
        &["plan", "-o", "wide"],
        &["why", "web"],
        &["images"],
        &["status"],
        &["snapshot"],
        &["history"],
        &["history", "--sums"],
        &["version"],
        &["config", "check"],
        &["collect", "--dry-run"],
        &["collect"],
    ] {
        let text = host.run(&[command, flags].concat());
        let (errors, shown): (Vec<_>, Vec<_>) = text.lines().partition(|line| line.starts_with("! "));
        for error in errors {
            let message = error.trim_start_matches("! ").trim_start_matches("error: ").trim_start_matches("warning: ");
            assert!(!shown.iter().any(|line| line.contains(message)), "{command:?} {flags:?}: {message}\n{text}");
        }
    }
}
