//! A systemd of its own in the cell of a node (`scripts/systemd.sh`): it sees the node's runtime and log roots at the
//! paths of a real node.

use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

use super::{NodeRig, becomes_true_within};

/// The longest wait for a unit: systemd gives a service 90 s to start, and the watchdog of kubegc has 60 s.
const PATIENCE: Duration = Duration::from_mins(3);

/// The paths that systemd shares with its cell: those of the node, then what the tests install, wherever it is.
const SHARED: [&str; 7] = [
    "/run/containerd",
    "/var/lib/containerd",
    "/var/lib/kubelet",
    "/var/log/pods",
    "/var/log/containers",
    env!("CARGO_MANIFEST_DIR"),
    env!("CARGO_TARGET_TMPDIR"),
];

/// A running systemd. It ends when this is dropped, and everything in it.
pub struct Systemd<'a> {
    node: &'a NodeRig,
    script: Child,
    pid: String,
}

// === impl Systemd ===

impl<'a> Systemd<'a> {
    /// Boots systemd in the cell of a node and waits until all its units have started.
    pub async fn boot(node: &'a NodeRig) -> Self {
        let mut command = node.enter(concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/systemd.sh"));
        let binary = Path::new(env!("CARGO_BIN_EXE_kubegc")).parent().unwrap();
        let script = command.arg(node.dir()).args(SHARED).arg(binary).stdin(Stdio::piped()).spawn().unwrap();
        let mut booted = Self { node, script, pid: String::new() };
        let has_started = async || {
            let pid = std::fs::read_to_string(booted.path("systemd.pid")).unwrap_or_default();
            pid.trim().clone_into(&mut booted.pid);
            let state = booted.out("systemctl", &["is-system-running"]);
            assert_ne!(state, "degraded", "{}", booted.out("systemctl", &["--failed", "--no-pager"]));
            state == "running"
        };
        let is_up = becomes_true_within(PATIENCE, has_started).await;
        assert!(is_up, "systemd does not start: {}", booted.log());
        booted
    }

    /// Runs a program in it.
    pub fn run(&self, program: &str, args: &[&str]) -> Output {
        let mut command = self.node.enter("nsenter");
        command.args(["--mount", "--uts", "--ipc", "--pid", "--cgroup", "--root", "--wd=/", "--target", &self.pid]);
        command.args(["--", "/usr/bin/env", "-i", "PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]);
        command.arg("DEBIAN_FRONTEND=noninteractive").arg(program).args(args).output().unwrap()
    }

    /// Returns the standard output of a program, whatever its exit status is.
    pub fn out(&self, program: &str, args: &[&str]) -> String {
        String::from_utf8_lossy(&self.run(program, args).stdout).trim().to_owned()
    }

    /// Runs a shell script that must succeed, and returns its output.
    pub fn sh(&self, script: &str) -> String {
        let output = self.run("sh", &["-euc", script]);
        let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).trim().to_owned());
        assert!(output.status.success(), "{script}: {}\n{out}\n{err}\n{}", output.status, self.journal());
        out
    }

    /// Returns a property of a unit.
    pub fn property(&self, unit: &str, name: &str) -> String {
        self.out("systemctl", &["show", "--value", "--property", name, unit])
    }

    /// Waits until a property of a unit satisfies `test`. Returns its value.
    pub async fn becomes(&self, unit: &str, name: &str, test: impl Fn(&str) -> bool) -> String {
        let since = Instant::now();
        loop {
            let value = self.property(unit, name);
            if test(&value) {
                return value;
            }
            assert!(
                since.elapsed() < PATIENCE,
                "{name} of {unit} is {value:?}; the journal ends with\n{}",
                self.journal()
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Returns the end of the journal.
    pub fn journal(&self) -> String {
        self.out("journalctl", &["--no-pager", "--lines=40", "--output=cat"])
    }

    /// Returns the path of a file of the root of this systemd, for the host.
    fn path(&self, file: &str) -> PathBuf {
        self.node.dir().join(file)
    }

    /// Returns what the script printed.
    fn log(&self) -> String {
        std::fs::read_to_string(self.path("systemd.log")).unwrap_or_default()
    }
}

impl Drop for Systemd<'_> {
    fn drop(&mut self) {
        drop(self.script.stdin.take());
        let _ = self.script.wait();
    }
}
