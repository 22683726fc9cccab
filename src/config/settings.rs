//! The settings as meant, with their defaults.

use std::path::PathBuf;
use std::time::Duration;

use crate::cri::CriOptions;
use crate::plan::Policy;

/// Everything that can be set.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The node's name (`node`). Default: the host name.
    pub node: String,
    /// Where the host's root is mounted, when the agent runs in a container (`host_root`). Default `/`.
    pub host_root: PathBuf,
    /// The kubelet's directory (`kubelet_root`). Default `/var/lib/kubelet`.
    pub kubelet_root: PathBuf,
    /// The runtime (`runtime.*`).
    pub runtime: RuntimeSettings,
    /// Where the knowledge of pods comes from (`pods.source`). Default `none`.
    pub pod_source: PodSource,
    /// How to reach the API server (`pods.kubeconfig`); empty = the pod's service account, then the kubelet's own.
    pub kubeconfig: String,
    /// The rules (`profile`, `containers.*`, `images.*`, `logs.*`, `pressure.*`, `guards.*`).
    pub policy: Policy,
    /// The store (`state.*`).
    pub state: StateSettings,
    /// The loops of the service.
    pub intervals: Intervals,
    /// How the service logs (`log.format`).
    pub log_format: LogFormat,
}

/// The runtime's sockets and limits.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RuntimeSettings {
    /// The socket (`runtime.endpoint`); `None` = found as DESIGN says: environment, crictl, kubelet, well-known sockets.
    pub endpoint: Option<String>,
    /// The image service's socket (`runtime.image_endpoint`); `None` = the same.
    pub image_endpoint: Option<String>,
    /// Deadlines and the message limit (`runtime.read_timeout`, `runtime.removal_timeout`, `runtime.max_message_bytes`).
    pub options: CriOptions,
}

/// Who says which pods should be here.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum PodSource {
    /// Nobody: no pod is ever gone.
    #[default]
    None,
    /// The runtime: a pod with nothing running and no ready sandbox is gone. For hosts without a kubelet.
    Runtime,
    /// The API server.
    KubeApi,
}

/// The store.
#[derive(Clone, Debug, PartialEq)]
pub struct StateSettings {
    /// The SQLite file (`state.path`). Default `/var/lib/kubegc/kubegc.db`. The lock lies beside it.
    pub path: PathBuf,
    /// History older than this goes (`state.history_max_age`). Default 30 days.
    pub history_max_age: Duration,
    /// The most removals kept in the history (`state.history_max_rows`). Default 10,000.
    pub history_max_rows: u64,
}

/// How long each loop waits, from the end of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Intervals {
    /// Containers, sandboxes and logs (`containers.interval`). Default 1 min, as the kubelet.
    pub containers: Duration,
    /// Images (`images.interval`). Default 5 min, as the kubelet.
    pub images: Duration,
    /// Looks at disks that may be short (`pressure.interval`). Default 10 s.
    pub pressure: Duration,
    /// The longest wait after failed passes (`daemon.max_backoff`). Default 15 min.
    pub max_backoff: Duration,
}

/// How the service writes its log.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum LogFormat {
    /// Lines for people and the journal.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

// === impl Settings ===

impl Default for Settings {
    fn default() -> Self {
        Self {
            node: String::new(),
            host_root: "/".into(),
            kubelet_root: "/var/lib/kubelet".into(),
            runtime: RuntimeSettings::default(),
            pod_source: PodSource::None,
            kubeconfig: String::new(),
            policy: Policy::default(),
            state: StateSettings::default(),
            intervals: Intervals::default(),
            log_format: LogFormat::Text,
        }
    }
}

// === impl StateSettings ===

impl Default for StateSettings {
    fn default() -> Self {
        Self {
            path: "/var/lib/kubegc/kubegc.db".into(),
            history_max_age: Duration::from_hours(30 * 24),
            history_max_rows: 10_000,
        }
    }
}

// === impl Intervals ===

impl Default for Intervals {
    fn default() -> Self {
        Self {
            containers: Duration::from_mins(1),
            images: Duration::from_mins(5),
            pressure: Duration::from_secs(10),
            max_backoff: Duration::from_mins(15),
        }
    }
}
