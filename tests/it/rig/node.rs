//! A real node: etcd, kube-apiserver, containerd and kubelet in one cell (`scripts/node-files.sh` has the command
//! lines).
//!
//! A node is a [`Rig`] with more programs: everything that reads a rig's runtime and logs works on it. Inside the cell
//! the paths are those of a real node, so kubegc runs there with its defaults. There is no controller-manager unless a test
//! starts its garbage collector: pods are bound by their `nodeName`, service accounts have no tokens, and only the kubelet
//! garbage-collects pods.

mod api;
mod cgroups;
mod kubegc;
mod manifest;
mod pod_objects;

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use kube::Client;

use super::cell::Order;
use super::disk::{self, run};
use super::{Rig, Version, becomes_true_within, unique_cgroup};

pub use manifest::Manifest;

/// The longest wait for an action of a kubelet: it does some things only every ten seconds, and machines are slow.
const PATIENCE: Duration = Duration::from_mins(4);

/// The configuration of a node.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its containerd. A kubelet before 1.23 speaks CRI v1alpha2 only, which containerd 2 does not.
    pub version: Version,
    /// What the kubelet removes on its own.
    pub kubelet: Collection,
    /// The size of the image file system; `None` = the disk of the temporary directory.
    pub disk_mib: Option<u64>,
    /// Added to the kubelet's command line.
    pub kubelet_flags: Vec<String>,
    /// Whether each pod has a cgroup of its own. Without it the kubelet ends with a panic when a pod is resized.
    pub pod_cgroups: bool,
}

/// The kubelet's own garbage collection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Collection {
    /// `--maximum-dead-containers-per-container=1000 --image-gc-high-threshold=100`. With -1, which should mean no
    /// limit, this kubelet removes all but the newest dead container of a name whenever one exits. No flag turns off
    /// the rest: once a minute it removes sandboxes that are not needed, and all objects of pods that it has recorded
    /// as deleted.
    Off,
    /// Its defaults: one dead container each, images between 85 and 80 %.
    On,
}

/// A program of a node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Program {
    /// The store of the API server.
    Etcd,
    /// The API server.
    ApiServer,
    /// kube-controller-manager with the garbage collector of objects alone.
    ControllerManager,
    /// The runtime.
    Containerd,
    /// The kubelet.
    Kubelet,
    /// `kubegc run`, after [`NodeRig::prepare_service`], or another command, after [`NodeRig::prepare_command`].
    Kubegc,
}

/// A node with a kubelet and an API server of its own.
pub struct NodeRig {
    rig: Rig,
    address: String,
    admin: Client,
}

// === impl Options ===

impl Default for Options {
    fn default() -> Self {
        Self {
            version: node_containerd(),
            kubelet: Collection::Off,
            disk_mib: None,
            kubelet_flags: Vec::new(),
            pod_cgroups: false,
        }
    }
}

// === impl Program ===

impl Program {
    /// Returns the name in the cell.
    fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Containerd => "containerd",
            Self::Kubelet => "kubelet",
            Self::Kubegc => "kubegc",
        }
    }
}

// === impl NodeRig ===

impl NodeRig {
    /// Starts a node and waits until it is Ready, with the sandbox image and [`super::APP`].
    pub async fn start(options: Options) -> Self {
        let node = Self::lay_out(&options).await;
        // All start at the same time: they wait for each other, and the kubelet needs 5 s to detect that there is no
        // Docker.
        node.launch(Program::Etcd);
        node.launch(Program::ApiServer);
        node.rig.begin().await;
        node.launch(Program::Kubelet);
        node.import_basics().await;
        node.await_api().await;
        node.await_ready().await;
        node
    }

    /// Starts a node on which only containerd runs, with its images.
    pub async fn start_runtime_alone(options: Options) -> Self {
        let node = Self::lay_out(&options).await;
        node.rig.begin().await;
        node.import_basics().await;
        node
    }

    /// Starts only an API server and its store.
    pub async fn start_api_alone() -> Self {
        let node = Self::lay_out(&Options::default()).await;
        node.launch(Program::Etcd);
        node.launch(Program::ApiServer);
        node.await_api().await;
        node
    }

    async fn lay_out(options: &Options) -> Self {
        let dir = tempfile::Builder::new().prefix("kubegc-node-").tempdir().unwrap();
        let (address, cgroup) = (unique_address(), unique_cgroup());
        if let Some(mib) = options.disk_mib {
            disk::small(&dir.path().join("containerd"), mib);
        }
        if options.pod_cgroups {
            cgroups::create(&cgroup);
        }
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/node-files.sh");
        let version = options.version.name();
        run(Command::new(script).arg(dir.path()).args([&address, &cgroup, version]).args(options.flags()));
        let admin = api::client(&dir.path().join("kubeconfig/admin")).await;
        Self { rig: Rig::with_cell(options.version, dir, cgroup, "run/containerd.sock"), address, admin }
    }

    /// Starts a program and waits until it works: the API server answers, the node is Ready.
    pub async fn begin(&self, program: Program) {
        if program == Program::Containerd {
            return self.rig.begin().await;
        }
        self.order(Order::Start, program);
        match program {
            Program::ApiServer => self.await_api().await,
            Program::Kubelet => self.await_ready().await,
            _ => (),
        }
    }

    /// Adds a flag to the command line of a program, for its next start.
    pub fn add_flag(&self, program: Program, flag: &str) {
        let path = self.dir().join("start").join(program.name());
        let command = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, format!("{} {flag}\n", command.trim_end())).unwrap();
    }

    /// Starts a program and does not wait.
    pub fn launch(&self, program: Program) {
        self.order(Order::Start, program);
    }

    /// Stops a program gracefully, as a service manager does. Pods continue to run.
    pub fn end(&self, program: Program) {
        self.order(Order::Stop, program);
    }

    /// Kills a program with SIGKILL.
    pub fn kill(&self, program: Program) {
        self.order(Order::Kill, program);
    }

    /// Returns a command that runs a program in the cell.
    pub fn enter(&self, program: &str) -> Command {
        self.rig.cell.command(program)
    }

    /// Pauses a program.
    pub fn pause(&self, program: Program) {
        self.order(Order::Pause, program);
    }

    /// Resumes a paused program.
    pub fn resume(&self, program: Program) {
        self.order(Order::Resume, program);
    }

    /// Returns the node's name, which is its address too.
    pub fn name(&self) -> &str {
        &self.address
    }

    /// Returns the kubeconfig of `admin`, `kubelet`, `kubegc`, `restricted`, or of a shipped service account: `account` for
    /// the agent, `controller` and `audit`. Those from `kubegc` on have the granted permissions only.
    pub fn kubeconfig(&self, user: &str) -> PathBuf {
        self.dir().join("kubeconfig").join(user)
    }

    /// Returns the path of the kubelet's KubeletConfiguration.
    pub fn kubelet_config(&self) -> PathBuf {
        self.dir().join("kubelet.yaml")
    }

    /// Returns the output of a program so far.
    pub fn log_of(&self, program: Program) -> String {
        let path = self.dir().join(program.name()).with_extension("log");
        std::fs::read(path).map(|log| String::from_utf8_lossy(&log).into_owned()).unwrap_or_default()
    }

    fn order(&self, order: Order, program: Program) {
        self.rig.cell.order(order, program.name());
    }

    async fn await_api(&self) {
        let answers = async || self.api_is_ready().await;
        assert!(
            eventually(answers).await,
            "the API server is not ready; its log ends with\n{}",
            self.end_of(Program::ApiServer)
        );
    }

    async fn await_ready(&self) {
        let ready = async || self.node_is_ready().await;
        assert!(
            eventually(ready).await,
            "the node is not Ready; the kubelet's log ends with\n{}",
            self.end_of(Program::Kubelet)
        );
    }

    /// Returns the last lines of a program's log.
    fn end_of(&self, program: Program) -> String {
        let log = self.log_of(program);
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }
}

impl Deref for NodeRig {
    type Target = Rig;

    fn deref(&self) -> &Rig {
        &self.rig
    }
}

impl Options {
    fn flags(&self) -> Vec<String> {
        let on = ["--maximum-dead-containers-per-container=1", "--image-gc-high-threshold=85"];
        let own: &[&str] = if self.kubelet == Collection::On { &on } else { &[] };
        let cgroups = self.pod_cgroups.then(|| "--cgroups-per-qos=true".to_owned());
        own.iter().map(ToString::to_string).chain(cgroups).chain(self.kubelet_flags.iter().cloned()).collect()
    }
}

/// Polls until `ask` is true. Returns false after a time in which every kubelet would have acted.
pub async fn eventually(ask: impl AsyncFnMut() -> bool) -> bool {
    becomes_true_within(PATIENCE, ask).await
}

/// Returns the directories of etcd and kube-apiserver.
pub fn kubernetes_bins() -> Vec<PathBuf> {
    kubernetes_lines().iter().map(|line| Path::new(&line[1]).join("bin")).collect()
}

/// Returns the version of the Kubernetes under test, as `1.20.2`.
pub fn kubernetes_version() -> &'static str {
    &kubernetes_lines()[1][2]
}

/// Returns the minor version of the Kubernetes under test: 20 of 1.20.2.
pub fn kubernetes_minor() -> u32 {
    kubernetes_version().split('.').nth(1).unwrap().parse().unwrap()
}

/// Returns the containerd of a node: the newest one that the kubelet under test supports.
pub fn node_containerd() -> Version {
    if kubernetes_minor() < 23 { Version::V1_7 } else { Version::V2 }
}

/// The lines of etcd and of Kubernetes that the script prints.
fn kubernetes_lines() -> &'static [Vec<String>] {
    static LINES: OnceLock<Vec<Vec<String>>> = OnceLock::new();
    LINES.get_or_init(|| {
        let found = run(&mut Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/kubernetes.sh")));
        found.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
    })
}

/// Returns a loopback address that no other node has, in this process or another.
pub fn unique_address() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = (std::process::id() << 2).wrapping_add(COUNT.fetch_add(1, Ordering::Relaxed));
    let [_, a, b, c] = number.to_be_bytes();
    format!("127.{a}.{b}.{c}")
}
