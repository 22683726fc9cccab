//! The scenarios that an API server of a few hundred lines plays (`fake_api.py`), on a port that the system chooses.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use super::{DATA, data};
use crate::manifests::kubectl;
use crate::shell::Shell;

/// The server of one scenario.
pub struct Fake {
    process: Child,
    output: BufReader<ChildStdout>,
    shell: Shell,
    pub(super) address: String,
}

/// A command that runs until it is stopped.
pub struct Service {
    process: Child,
    log: BufReader<ChildStderr>,
}

// === impl Fake ===

impl Fake {
    /// Starts the server of a scenario.
    pub fn play(scenario: &Value) -> Self {
        Self::of(&scenario.to_string())
    }

    pub(super) fn start(scenario: &str) -> Self {
        Self::of(&data(scenario))
    }

    fn of(scenario: &str) -> Self {
        let shell = Shell::new().with("scenario.json", scenario);
        let mut server = Command::new("python3");
        server.arg("fake_api.py").arg(shell.path("scenario.json")).args(["--port", "0"]).current_dir(DATA);
        let mut process = server.stdout(Stdio::piped()).spawn().unwrap();
        let (mut output, mut first) = (BufReader::new(process.stdout.take().unwrap()), String::new());
        output.read_line(&mut first).unwrap();
        let address = first.trim_end().rsplit(' ').next().unwrap().to_owned();
        let prefix = serde_json::from_str::<Value>(scenario).unwrap()["prefix"].as_str().unwrap_or_default().to_owned();
        let kubeconfig = data("fake.kubeconfig").replace("http://127.0.0.1:18080", &format!("{address}{prefix}"));
        Self { process, output, shell: shell.with("kubeconfig", &kubeconfig), address }
    }

    /// Returns the kubeconfig of this server.
    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.shell.path("kubeconfig")
    }

    /// Uses another kubeconfig, which has the address of the example.
    pub(super) fn with_kubeconfig(self, text: &str) -> Self {
        self.shell.write("kubeconfig", &text.replace("https://127.0.0.1:18080", &self.address));
        self
    }

    /// Runs kubectl at this server, and returns whether it succeeded.
    pub(super) fn accepts_kubectl(&self, arguments: &[&str]) -> bool {
        let mut command = Command::new(kubectl());
        command.args(arguments).args(["--kubeconfig", "kubeconfig"]).current_dir(self.shell.path("")).env_clear();
        command.output().unwrap().status.success()
    }

    /// Runs `kubegc controller` at this server.
    pub fn run(&self, arguments: &[&str]) -> String {
        self.run_verb("controller", arguments)
    }

    /// Runs a command at this server.
    pub fn run_verb(&self, verb: &str, arguments: &[&str]) -> String {
        self.shell.run(&[&[verb], arguments, &["--kubeconfig", "kubeconfig"]].concat())
    }

    /// Begins `kubegc controller` at this server.
    pub fn begin(&self, arguments: &[&str]) -> Service {
        let arguments = [&["controller"], arguments, &["--kubeconfig", "kubeconfig"]].concat();
        let mut command = self.shell.command(&arguments);
        let mut process = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let log = BufReader::new(process.stderr.take().unwrap());
        Service { process, log }
    }

    /// Waits for a line of the server.
    pub fn wait_for(&mut self, wanted: &str) {
        let mut line = String::new();
        while line.trim_end() != wanted {
            line.clear();
            let read = self.output.read_line(&mut line).unwrap();
            assert!(read > 0, "the server ended before the line {wanted:?}");
        }
    }

    /// Ends the server, and returns what it has seen.
    pub fn end(mut self) -> String {
        terminate(&self.process);
        let mut seen = String::new();
        self.output.read_to_string(&mut seen).unwrap();
        seen
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

// === impl Service ===

impl Service {
    /// Waits for a line of its log with all these words.
    pub fn says(&mut self, words: &[&str]) {
        let mut line = String::new();
        while line.is_empty() || !words.iter().all(|word| line.contains(word)) {
            line.clear();
            let read = self.log.read_line(&mut line).unwrap();
            assert!(read > 0, "the service ended before it logged {words:?}");
        }
    }

    /// Stops it in order, and returns the rest of its log.
    pub fn stop(mut self) -> String {
        terminate(&self.process);
        let mut log = String::new();
        self.log.read_to_string(&mut log).unwrap();
        assert!(self.process.wait().unwrap().success(), "{log}");
        log
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn terminate(process: &Child) {
    kill(Pid::from_raw(process.id().try_into().unwrap()), Signal::SIGTERM).unwrap();
}

/// The content of the namespace holds it, so its owner waits.
#[test]
fn c1_a_terminating_namespace_still_exists() {
    let fake = Fake::start("C1-fake.json");
    let text = fake.run(&["collect"]);
    assert!(text.contains("its content"), "it is listed as being deleted: {text}");
    let seen = fake.end();
    assert!(seen.contains("DELETE Namespace/oil-00") && seen.contains("Tenant/oil (deleting)"), "{seen}");
    assert!(seen.contains("violations: 0"), "{seen}");
    let why = ["controller", "plan", "--snapshot", &format!("{DATA}/C1-tenant-foreground.json")];
    let plan = Shell::new().run(&why);
    assert!(plan.contains("oil-00") && !plan.contains("end foreground deletion"), "{plan}");
}

#[test]
fn c2_a_throttling_server_is_queried_again() {
    for scenario in ["C2-fake.json", "C2a-status429.json"] {
        for command in [&["plan"][..], &["collect"]] {
            let text = Fake::start(scenario).run(command);
            assert!(!text.starts_with("exit") && text.contains("delete"), "{scenario}: {text}");
        }
    }
}

#[test]
fn c2r_an_unreadable_owner_is_a_plan_error() {
    let text = Fake::start("C2r-403.json").run(&["plan", "--fail-on", "dangling"]);
    assert!(text.starts_with("exit Some(1)\n"), "{text}");
    assert!(text.contains("Error: may not read configmaps") && !text.contains("Nothing to delete."), "{text}");
}

#[test]
fn c5a_a_dangling_object_sharing_its_uid_is_found() {
    let text = Fake::start("C5a-fake.json").run(&["plan"]);
    assert!(text.contains("delete  ServiceAccount  default    mysa-child"), "{text}");
}

#[test]
fn c9_a_list_without_a_version_is_read() {
    for command in [&["plan"][..], &["collect"]] {
        let text = Fake::start("C9-fake.json").run(command);
        assert!(!text.starts_with("exit"), "{command:?}: {text}");
    }
}

/// The server answers about another resource than the one that was asked for.
#[test]
fn c10_an_answer_that_is_not_believed_is_named() {
    let fake = Fake::start("C10-fake.json");
    let safe = fake.run(&["plan"]);
    assert!(safe.starts_with("exit Some(1)\n") && safe.contains("so it proves nothing"), "{safe}");
    let upstream = fake.run(&["plan", "--profile", "upstream"]);
    assert!(upstream.contains("delete  ClusterResourceQuota"), "{upstream}");
}

/// The proxy of the cluster in use is used, that of another one is not.
#[test]
fn c4_only_the_current_clusters_proxy_is_used() {
    let mut process =
        Command::new("python3").args(["proxy.py", "0"]).current_dir(DATA).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(process.stdout.take().unwrap());
    let mut first = String::new();
    output.read_line(&mut first).unwrap();
    let port = first.trim_end().rsplit(' ').next().unwrap().to_owned();
    let fake = Fake::start("C9-fake.json");
    let at = |kubeconfig: &str| kubeconfig.replace("127.0.0.1:23128", &format!("127.0.0.1:{port}"));
    for (name, uses_proxy) in
        [("C4a-kubeconfig-proxy-url.yaml", true), ("C4b-kubeconfig-other-cluster-has-proxy.yaml", false)]
    {
        let kubeconfig = at(&data(name)).replace("http://127.0.0.1:18080", &fake.address);
        let text =
            Shell::new().with("kubeconfig", &kubeconfig).run(&["controller", "plan", "--kubeconfig", "kubeconfig"]);
        assert!(!text.starts_with("exit"), "{name}: {text}");
        if uses_proxy {
            let mut line = String::new();
            output.read_line(&mut line).unwrap();
            assert!(line.contains(fake.address.trim_start_matches("http://")), "{line}");
        }
    }
    process.kill().unwrap();
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    process.wait().unwrap();
}
