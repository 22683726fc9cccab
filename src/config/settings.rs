//! The resolved settings. The `Default` impls here and in `plan` and `cri` are the only place of the defaults. The table
//! of keys, `declarations.rs`, says which key sets which field.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use strum::{EnumString, IntoStaticStr, VariantNames};

use crate::controller::{ControllerSettings, PodGcSettings};
use crate::cri::CriOptions;
use crate::fleet::{FleetPart, QuietHours};
use crate::kubernetes::Proxies;
use crate::model::PodSourceName;
use crate::plan::Policy;
use crate::pod_gc::PodGcPolicy;

#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    pub mode: Mode,
    pub quiet: Vec<QuietHours>,
    pub fleet: BTreeSet<FleetPart>,
    pub node: String,
    pub host_root: PathBuf,
    pub kubelet_root: PathBuf,
    pub networks_root: PathBuf,
    pub runtime: RuntimeSettings,
    pub pods: PodSettings,
    /// `profile`, `rule`, `containers.*`, `images.*`, `logs.*`, `pressure.*`, `guards.*`
    pub policy: Policy,
    pub state: StateSettings,
    /// The intervals of the service.
    pub intervals: Intervals,
    pub writes_events: bool,
    pub metrics: MetricsSettings,
    pub log_format: LogFormat,
    pub log_level: LogLevel,
    pub controller_address: Option<SocketAddr>,
    pub controller_history: Option<PathBuf>,
    /// `controller.*`, and the guards of the controller in `guards.*`
    pub controller: ControllerSettings,
    /// `pod_gc.*`, and the guards for pods in `guards.*`
    pub pod_gc: PodGcPolicy,
}

/// The runtime's sockets and limits.
#[derive(Clone, Debug, PartialEq)]
pub struct RuntimeSettings {
    pub endpoint: Option<String>,
    pub image_endpoint: Option<String>,
    /// `runtime.removal_timeout`, and limits that no key sets.
    pub options: CriOptions,
}

/// The pod sources, and how to connect to them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodSettings {
    /// `pods.source`: `auto` alone, `none` alone, or one or more others in the given order, each once.
    pub sources: Vec<PodSourceName>,
    /// `pods.kubeconfig`. Several count as one.
    pub kubeconfigs: Vec<PathBuf>,
    pub exec_plugins: bool,
    /// `~/.kube/config`, which no key sets.
    pub own_kubeconfig: Option<PathBuf>,
    /// For a command, which a person runs: the proxies of the environment. No key sets it. `None` = a service.
    pub by_person: Option<Proxies>,
    pub kubelet: KubeletSettings,
}

/// How to connect to the kubelet. The files are read again for each request, because certificates and tokens are
/// renewed.
#[derive(Clone, Debug, PartialEq)]
pub struct KubeletSettings {
    pub endpoint: String,
    pub ca: Option<PathBuf>,
    pub token_file: Option<PathBuf>,
    pub client_certificate: Option<PathBuf>,
    pub client_key: Option<PathBuf>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct StateSettings {
    pub path: PathBuf,
    pub lock: PathBuf,
    pub history_max_age: Duration,
}

#[derive(Clone, Debug, PartialEq)]
pub struct MetricsSettings {
    pub address: Option<SocketAddr>,
    pub file: Option<PathBuf>,
}

/// The intervals of the loops, from the end of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Intervals {
    pub containers: Duration,
    pub images: Duration,
    /// Between two checks for disk pressure, which cost a few statvfs calls. Always 1 s: a disk can fill up between two
    /// checks of the kubelet's eviction, which are 10 s apart.
    pub pressure: Duration,
    /// The longest back-off after failed passes. Always 15 min: a node that was repaired is collected soon.
    pub max_backoff: Duration,
}

/// Whether passes remove objects.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "lowercase")]
pub enum Mode {
    /// They do.
    #[default]
    Collect,
    /// They record and log what they would remove.
    Observe,
}

/// The format of the service's log.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "lowercase")]
pub enum LogFormat {
    /// Text lines for people. In the journal of systemd each value is a field too.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// The least important messages that are logged.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
#[derive(EnumString, IntoStaticStr, VariantNames, clap::ValueEnum)]
#[strum(serialize_all = "lowercase")]
pub enum LogLevel {
    /// Errors
    Error,
    /// Errors and warnings
    Warn,
    /// Also each removal and each change of state
    #[default]
    Info,
    /// Also each kept object
    Debug,
    /// Also the messages of the libraries
    Trace,
}

// === impl Settings ===

impl Default for Settings {
    fn default() -> Self {
        Self {
            mode: Mode::Collect,
            quiet: Vec::new(),
            fleet: BTreeSet::new(),
            node: String::new(),
            host_root: "/".into(),
            kubelet_root: "/var/lib/kubelet".into(),
            networks_root: "/var/lib/cni/networks".into(),
            runtime: RuntimeSettings {
                endpoint: None,
                image_endpoint: None,
                // A restart of the runtime takes seconds.
                options: CriOptions { patience: Duration::from_secs(10), ..CriOptions::default() },
            },
            pods: PodSettings { sources: vec![PodSourceName::Auto], ..PodSettings::default() },
            policy: Policy::default(),
            state: StateSettings {
                path: "/var/lib/kubegc/kubegc.db".into(),
                lock: "/run/kubegc/kubegc.lock".into(),
                history_max_age: Duration::from_hours(30 * 24),
            },
            intervals: Intervals {
                containers: Duration::from_mins(1),
                images: Duration::from_mins(5),
                pressure: Duration::from_secs(1),
                max_backoff: Duration::from_mins(15),
            },
            writes_events: true,
            // Metrics and health show nothing secret, but other hosts reach them only if the user wants that.
            metrics: MetricsSettings { address: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 10273))), file: None },
            log_format: LogFormat::default(),
            log_level: LogLevel::default(),
            controller_address: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 10274))),
            controller_history: None,
            controller: ControllerSettings::default(),
            pod_gc: PodGcPolicy::default(),
        }
    }
}

impl Settings {
    /// Returns the settings of the collection by owner references, with the rules for objects.
    pub fn owners_of_cluster(&self) -> ControllerSettings {
        let mut settings = self.controller.clone();
        settings.rules.rules.clone_from(&self.policy.rules);
        settings
    }

    /// Returns the settings of the collection of pods. It shares limits with the collection by owner references.
    pub fn pods_of_cluster(&self) -> PodGcSettings {
        let ControllerSettings { calls, guards, .. } = self.controller.clone();
        let (policy, strict_not_found) = (self.pod_gc.clone(), guards.strict_not_found);
        PodGcSettings { calls, policy, strict_not_found, ..PodGcSettings::default() }
    }
}

// === impl KubeletSettings ===

impl Default for KubeletSettings {
    fn default() -> Self {
        let endpoint = "https://127.0.0.1:10250".to_owned();
        Self { endpoint, ca: None, token_file: None, client_certificate: None, client_key: None }
    }
}

impl KubeletSettings {
    /// Returns whether the address is the read-only port, which has no authentication in either direction.
    pub fn is_plain(&self) -> bool {
        self.endpoint.starts_with("http://")
    }
}

// === impl StateSettings ===

impl StateSettings {
    /// Returns the socket of the agent, with mode 0600. It is beside the lock, because both are one of the node, and what
    /// allows the one to be written allows the other.
    pub fn socket(&self) -> PathBuf {
        self.lock.with_extension("sock")
    }

    /// Returns the file with the policies that apply to the node.
    pub fn policies_file(&self) -> PathBuf {
        self.path.with_extension("policies")
    }

    /// Returns the file whose existence pauses the node. It is beside the store, so that it outlives a restart of the host.
    pub fn pause_file(&self) -> PathBuf {
        self.path.with_extension("paused")
    }
}
