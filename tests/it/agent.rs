//! Runs the real binary on a simulated node: hermetic, with its own state.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Duration;

use kubegc::sim::Sim;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// The longest wait here: every machine, however busy, is faster.
const PATIENCE: Duration = Duration::from_mins(3);

/// The directory with the agent's configuration and state.
pub struct Home {
    dir: tempfile::TempDir,
    /// The start of every configuration here.
    basis: String,
}

/// A running agent. It ends with the test, whatever the result is.
pub struct Running {
    pub pid: u32,
    lines: mpsc::UnboundedReceiver<String>,
    ended: JoinHandle<ExitStatus>,
}

// === impl Home ===

impl Home {
    /// Creates an agent on a host without a kubelet, with no durations to wait for. `settings` are lines of TOML, such
    /// as `images.min_age = "0s"`.
    pub fn new(sim: &Sim, settings: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let roots = sim.log_roots();
        let paths = [
            ("runtime.endpoint", sim.endpoint()),
            ("kubelet_root", sim.dir().join("kubelet").display().to_string()),
            ("leftovers.networks_root", sim.dir().join("networks").display().to_string()),
            ("logs.pods_root", roots.pods.display().to_string()),
            ("logs.containers_root", roots.containers.display().to_string()),
            ("state.path", dir.path().join("state/kubegc.db").display().to_string()),
            ("state.lock", dir.path().join("run/kubegc.lock").display().to_string()),
        ];
        let paths = paths.map(|(key, value)| format!("{key} = \"{value}\"\n")).concat();
        // The disk that is measured is that of this machine, whatever its usage is.
        let rules = "pods.source = \"runtime\"\nimages.min_age = \"0s\"\nguards.settle = \"0s\"\n\
                     images.high_threshold_percent = 100\nguards.gone_after = \"0s\"\n\
                     metrics.address = \"\"\n";
        std::fs::write(dir.path().join("crictl.yaml"), "").unwrap();
        let home = Self { dir, basis: paths + rules };
        home.set(settings);
        home
    }

    /// Rewrites the configuration.
    pub fn set(&self, settings: &str) {
        fs::write(self.config(), format!("{}{settings}\n", self.basis)).unwrap();
    }

    /// Rewrites the configuration as the kubelet does for a `ConfigMap`: the file is a link to a link to a directory, and
    /// that link is exchanged.
    pub fn set_as_config_map(&self, settings: &str) {
        let at = |name: &str| self.dir.path().join(name);
        let version = tempfile::Builder::new().prefix("..").tempdir_in(self.dir.path()).unwrap().keep();
        fs::write(version.join("kubegc.toml"), format!("{}{settings}\n", self.basis)).unwrap();
        symlink(version, at("..data_tmp")).unwrap();
        fs::rename(at("..data_tmp"), at("..data")).unwrap();
        if !self.config().is_symlink() {
            fs::remove_file(self.config()).unwrap();
            symlink("..data/kubegc.toml", self.config()).unwrap();
        }
    }

    /// Replaces a line of the configuration.
    pub fn replace(&self, line: &str, by: &str) {
        let text = fs::read_to_string(self.config()).unwrap();
        assert!(text.contains(line), "{text}");
        fs::write(self.config(), text.replace(line, by)).unwrap();
    }

    /// Reads a file of the home.
    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.dir.path().join(name)).unwrap()
    }

    /// Returns whether the home has a file.
    pub fn exists(&self, name: &str) -> bool {
        self.dir.path().join(name).exists()
    }

    pub fn store(&self) -> PathBuf {
        self.dir.path().join("state/kubegc.db")
    }

    pub fn lock(&self) -> PathBuf {
        self.dir.path().join("run/kubegc.lock")
    }

    fn config(&self) -> PathBuf {
        self.dir.path().join("kubegc.toml")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kubegc"));
        command.args(arguments).current_dir(self.dir.path()).env_clear().env("KUBEGC_CONFIG", self.config());
        command.env("CRI_CONFIG_FILE", self.dir.path().join("crictl.yaml")).stdin(Stdio::null());
        command
    }

    /// Starts a command with its output in pipes.
    pub fn spawn(&self, arguments: &[&str]) -> Child {
        self.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Runs a command to its end. The runtime has a thread of its own, so this may block.
    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Runs a command with these variables in an otherwise empty environment.
    pub fn run_with(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
        self.command(arguments).envs(variables.iter().copied()).output().unwrap()
    }

    pub fn start(&self, arguments: &[&str]) -> Running {
        self.start_with(arguments, &[])
    }

    /// Starts the same with these variables in an otherwise empty environment.
    pub fn start_with(&self, arguments: &[&str], variables: &[(&str, &OsStr)]) -> Running {
        let mut command = self.command(arguments);
        command.envs(variables.iter().copied());
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        Running {
            pid: child.id(),
            lines: lines(&mut child),
            ended: tokio::task::spawn_blocking(move || child.wait().unwrap()),
        }
    }
}

// === impl Running ===

impl Running {
    pub fn signal(&self, signal: Signal) {
        // The process may have exited by itself.
        let _ = kill(Pid::from_raw(self.pid.cast_signed()), signal);
    }

    /// Waits for a text on standard error. Returns all lines up to it.
    pub async fn says(&mut self, text: &str) -> Vec<String> {
        let mut said = Vec::new();
        let wait = async {
            while let Some(line) = self.lines.recv().await {
                said.push(line);
                if said.last().is_some_and(|line| line.contains(text)) {
                    return true;
                }
            }
            false
        };
        let found = tokio::time::timeout(PATIENCE, wait).await.unwrap_or(false);
        assert!(found, "no {text:?}; the log ends with\n{}", said[said.len().saturating_sub(20)..].join("\n"));
        said
    }

    /// Waits until both loops have ended their first pass.
    pub async fn first_passes(&mut self) {
        for _ in 0..2 {
            self.says("pass done").await;
        }
    }

    /// Returns the lines after the last one that was waited for, after the end of the process.
    pub async fn rest(&mut self) -> Vec<String> {
        let mut rest = Vec::new();
        while let Some(line) = self.lines.recv().await {
            rest.push(line);
        }
        rest
    }

    pub async fn ended(&mut self) -> ExitStatus {
        tokio::time::timeout(PATIENCE, &mut self.ended).await.expect("the agent ends in time").unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.ended.is_finished() {
            self.signal(Signal::SIGKILL);
        }
    }
}

/// Returns the memory of a process that is no file's and not shared, in KiB.
pub fn private_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn lines(child: &mut Child) -> mpsc::UnboundedReceiver<String> {
    let (to, lines) = mpsc::unbounded_channel();
    let errors = BufReader::new(child.stderr.take().unwrap());
    std::thread::spawn(move || errors.lines().map_while(Result::ok).try_for_each(|line| to.send(line)));
    lines
}
