//! Runs the real binary on a rig.

use std::fmt::{self, Debug, Formatter};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{PATIENCE, Rig};

/// The result of a run.
pub struct Ran {
    /// The exit code; -1 after a signal.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// A running service. Killed when dropped.
pub struct Daemon {
    child: Child,
    log: PathBuf,
}

// === impl Rig ===

impl Rig {
    /// Runs a command on this rig, with the rig's own roots and store, and an empty environment.
    pub fn kubegc(&self, args: &[&str]) -> Ran {
        self.kubegc_within(PATIENCE, args)
    }

    /// Does the same with another limit.
    pub fn kubegc_within(&self, patience: Duration, args: &[&str]) -> Ran {
        let output = assert_cmd::Command::from(self.command(args)).timeout(patience).output().unwrap();
        Ran::from(output)
    }

    /// Runs the service on this rig.
    pub fn daemon(&self, args: &[&str]) -> Daemon {
        Daemon::start(self.command(&[&["run"], args].concat()), self.dir().join("kubegc.log"))
    }

    /// Returns settings that put the directories of the kubelet and of logs on the disk of the runtime, so that an account walks
    /// over no other disk.
    pub fn roots_on_its_disk(&self) -> [String; 3] {
        let roots =
            [("kubelet_root", "kubelet"), ("logs.pods_root", "logs/pods"), ("logs.containers_root", "logs/links")];
        roots.map(|(key, dir)| {
            let path = self.home().join(dir);
            std::fs::create_dir_all(&path).unwrap();
            format!("--set={key}={}", path.display())
        })
    }

    /// Returns the command line. The rig's settings precede those of the test, so that the test can override them. They
    /// follow the command, because a flag before the command is lost if the same flag follows it. The disk usage of the
    /// machine must not matter, so no image is removed for space unless a test enables it.
    pub fn command(&self, args: &[&str]) -> Command {
        let (verb, args) = args.split_first().unwrap();
        let mut command = Command::new(binary());
        command.env_clear().current_dir(self.dir()).args([verb, "-r", &self.endpoint()]);
        for (key, value) in [
            ("state.path", self.dir().join("state/kubegc.db")),
            ("state.lock", self.dir().join("run/kubegc.lock")),
            ("kubelet_root", self.dir().join("kubelet")),
            ("leftovers.networks_root", self.dir().join("networks")),
            ("logs.pods_root", self.pod_logs()),
            ("logs.containers_root", self.container_logs()),
            ("images.high_threshold_percent", "100".into()),
            // Tests run at the same time.
            ("metrics.address", "".into()),
        ] {
            command.arg("--set").arg(format!("{key}={}", value.display()));
        }
        command.args(args);
        command
    }
}

/// Returns the program under test: that of this build, or another one that the variable `KUBEGC_BINARY` names.
pub fn binary() -> String {
    std::env::var("KUBEGC_BINARY").unwrap_or_else(|_| env!("CARGO_BIN_EXE_kubegc").to_owned())
}

// === impl Ran ===

impl Ran {
    /// Returns the same, after asserting success.
    pub fn ok(self) -> Self {
        assert_eq!(self.code, 0, "{self:#?}");
        self
    }

    /// Returns standard output as one JSON document.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }

    /// Returns standard output as JSON documents, one a line.
    pub fn lines(&self) -> impl Iterator<Item = serde_json::Value> {
        self.stdout.lines().map(|line| serde_json::from_str(line).unwrap())
    }
}

/// The texts as they were printed.
impl Debug for Ran {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "exit code {}\nstandard error:\n{}\nstandard output:\n{}", self.code, self.stderr, self.stdout)
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

// === impl Daemon ===

impl Daemon {
    /// Starts a service that writes to the file `log`.
    pub fn start(mut command: Command, log: PathBuf) -> Self {
        let file = std::fs::File::create(&log).unwrap();
        command.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file);
        Self { child: command.spawn().unwrap(), log }
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).unwrap();
    }

    /// Sends SIGTERM and waits for the end. Returns the exit code; -1 after a signal.
    pub fn terminate(mut self) -> i32 {
        self.signal(Signal::SIGTERM);
        let since = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().unwrap_or(-1);
            }
            assert!(since.elapsed() < PATIENCE, "the service does not end; its log is\n{}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Returns the processor time used so far, in hundredths of a second.
    pub fn cpu_time(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.id())).unwrap();
        // After the name in parentheses, which may have blanks: utime and stime are the 12th and 13th.
        let fields = stat.rsplit_once(") ").unwrap().1.split(' ').skip(11).take(2);
        Duration::from_millis(fields.map(|ticks| ticks.parse::<u64>().unwrap() * 10).sum())
    }

    /// Returns the number of the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the output so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).unwrap())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill(); // it may have exited
        let _ = self.child.wait();
    }
}
