//! Runs the real binary in the cell of a node, where all paths are those of a real node.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;

use super::NodeRig;
use crate::rig::PATIENCE;
use crate::rig::cell::Cell;
use crate::rig::{Daemon, Ran, binary};

// === impl NodeRig ===

impl NodeRig {
    /// Runs a command with an empty environment, and waits for its end.
    pub fn kubegc(&self, args: &[&str]) -> Ran {
        let output = assert_cmd::Command::from(self.kubegc_command(args)).timeout(PATIENCE).output().unwrap();
        Ran::from(output)
    }

    /// Starts `kubegc controller run` for the administrator, beside the cell, with an empty environment. `name` distinguishes
    /// several.
    pub fn controller(&self, name: &str, args: &[&str]) -> Daemon {
        let mut command = Command::new(binary());
        command
            .args(["controller", "run", "--set", "controller.address="])
            .args(args)
            .arg("--kubeconfig")
            .arg(self.kubeconfig("admin"))
            .env_clear();
        Daemon::start(command, self.dir().join(format!("controller-{name}.log")))
    }

    /// Makes [`super::Program::Kubegc`] the service of the node with these arguments.
    pub fn prepare_service(&self, args: &[&str]) {
        self.prepare_command(&[&["run"], args].concat());
    }

    /// Makes [`super::Program::Kubegc`] this command.
    pub fn prepare_command(&self, args: &[&str]) {
        let args = args.iter().fold(String::new(), |mut all, arg| {
            write!(all, " '{arg}'").unwrap();
            all
        });
        let home = self.dir().display();
        Cell::program(self.dir(), "kubegc", &format!("cd {home}\nexec env -i {}{args}", binary()));
    }

    /// Writes a configuration and returns its path, for `--config`.
    pub fn write_config(&self, name: &str, toml: &str) -> String {
        let path: PathBuf = self.dir().join(name).with_extension("toml");
        std::fs::write(&path, toml).unwrap();
        path.display().to_string()
    }

    /// Returns a command that runs in the cell.
    pub fn in_cell(&self, program: &str) -> Command {
        self.cell.command(program)
    }

    fn kubegc_command(&self, args: &[&str]) -> Command {
        let mut command = self.cell.command(&binary());
        command.env_clear().args(args);
        command
    }
}
