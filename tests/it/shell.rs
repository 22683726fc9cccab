//! Runs the binary isolated from the machine: a directory, an environment of two variables, and a transcript.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A directory in which to run the binary, isolated from the machine.
pub struct Shell {
    directory: tempfile::TempDir,
}

impl Shell {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        for name in ["kubegc.toml", "crictl.yaml"] {
            std::fs::write(directory.path().join(name), "").unwrap();
        }
        Self { directory }
    }

    pub fn with(self, name: &str, text: &str) -> Self {
        self.write(name, text);
        self
    }

    pub fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("kubegc"));
        command
            .args(arguments)
            .current_dir(self.directory.path())
            .env_clear()
            .env("KUBEGC_CONFIG", self.path("kubegc.toml"))
            .env("CRI_CONFIG_FILE", self.path("crictl.yaml"))
            .stdin(Stdio::null());
        command
    }

    /// Runs the binary and returns a transcript.
    pub fn run(&self, arguments: &[&str]) -> String {
        self.run_on("", arguments)
    }

    pub fn run_on(&self, input: &str, arguments: &[&str]) -> String {
        let output = assert_cmd::Command::from_std(self.command(arguments)).write_stdin(input).output().unwrap();
        let mut text = String::new();
        match output.status.code() {
            Some(0) => {}
            code => writeln!(text, "exit {code:?}").unwrap(),
        }
        text += &String::from_utf8(output.stdout).unwrap();
        // Objects that are removed side by side end in any order.
        let is_progress = |line: &&str| line.starts_with("removed: ");
        for line in String::from_utf8(output.stderr).unwrap().lines().filter(|line| !is_progress(line)) {
            writeln!(text, "! {line}").unwrap();
        }
        text.replace(&format!("{}/", self.directory.path().display()), "")
    }
}
