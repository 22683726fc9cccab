//! The resolved settings, with their defaults.

use std::path::PathBuf;
use std::time::Duration;

use crate::cri::CriOptions;
use crate::model::PodSourceName;
use crate::plan::Policy;

/// All settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The node's name (`node`). Default: the host name.
    pub node: String,
    /// Where the host's root is mounted if the agent runs in a container (`host_root`). Default `/`.
    pub host_root: PathBuf,
    /// The kubelet's directory (`kubelet_root`). Default `/var/lib/kubelet`.
    pub kubelet_root: PathBuf,
    /// The runtime (`runtime.*`).
    pub runtime: RuntimeSettings,
    /// The pod sources (`pods.*`).
    pub pods: PodSettings,
    /// The rules (`profile`, `containers.*`, `images.*`, `logs.*`, `pressure.*`, `guards.*`).
    pub policy: Policy,
    /// The store (`state.*`).
    pub state: StateSettings,
    /// The intervals of the service.
    pub intervals: Intervals,
    /// Whether passes are reported as events on the Node (`events.enabled`). Default true; needs the API server as a
    /// pod source.
    pub tells_events: bool,
    /// How the service logs (`log.format`).
    pub log_format: LogFormat,
}

/// The runtime's sockets and limits.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RuntimeSettings {
    /// The socket (`runtime.endpoint`); `None` = found in the order of DESIGN: environment, crictl, kubelet, well-known
    /// sockets.
    pub endpoint: Option<String>,
    /// The image service's socket (`runtime.image_endpoint`); `None` = the same.
    pub image_endpoint: Option<String>,
    /// Deadlines and the message limit (`runtime.read_timeout`, `runtime.removal_timeout`, `runtime.max_message_bytes`).
    pub options: CriOptions,
}

/// The pod sources, and how to connect to them.
#[derive(Clone, Debug, PartialEq)]
pub struct PodSettings {
    /// Which sources are used (`pods.source`). Default `auto`.
    pub sources: PodSources,
    /// The kubeconfig for the API server (`pods.kubeconfig`); `None` = the in-cluster account, else the kubelet's
    /// kubeconfig.
    pub kubeconfig: Option<PathBuf>,
    /// Without the kubelet's directory of pods no pod counts as deleted (`pods.require_kubelet_dirs`). Default true.
    pub require_kubelet_dirs: bool,
    /// A watch that is silent for longer is stale and counts as unavailable (`pods.max_silence`). Default 3 min.
    pub max_silence: Duration,
    /// The kubelet's HTTP server (`pods.kubelet_*`).
    pub kubelet: KubeletSettings,
}

/// How to connect to the kubelet. The files are read again for each request, because certificates and tokens are
/// renewed.
#[derive(Clone, Debug, PartialEq)]
pub struct KubeletSettings {
    /// The address (`pods.kubelet_endpoint`). Default `https://127.0.0.1:10250`; `http://` = the read-only port.
    pub endpoint: String,
    /// The CA certificates, or the certificate itself, to verify the kubelet's certificate (`pods.kubelet_ca`). `None`
    /// = the kubelet's own certificates below its root, and the in-cluster CA.
    pub ca: Option<PathBuf>,
    /// The bearer token (`pods.kubelet_token_file`). `None` = that of the in-cluster account, if there is one.
    pub token_file: Option<PathBuf>,
    /// The client certificate (`pods.kubelet_client_certificate`).
    pub client_certificate: Option<PathBuf>,
    /// The key of the client certificate (`pods.kubelet_client_key`).
    pub client_key: Option<PathBuf>,
}

/// The pod sources in use: `auto` alone, `none` alone, or one or more others in the given order, each once.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PodSources(Vec<PodSourceName>);

/// The store.
#[derive(Clone, Debug, PartialEq)]
pub struct StateSettings {
    /// The SQLite file (`state.path`). Default `/var/lib/kubegc/kubegc.db`.
    pub path: PathBuf,
    /// The lock that only one agent of the node holds (`state.lock`). Default `/run/kubegc/kubegc.lock`.
    pub lock: PathBuf,
    /// History older than this is deleted (`state.history_max_age`). Default 30 days.
    pub history_max_age: Duration,
    /// The most removals kept in the history (`state.history_max_rows`). Default 10,000.
    pub history_max_rows: u64,
}

/// The intervals of the loops, from the end of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Intervals {
    /// Containers, sandboxes and logs (`containers.interval`). Default 1 min, as the kubelet.
    pub containers: Duration,
    /// Images (`images.interval`). Default 5 min, as the kubelet.
    pub images: Duration,
    /// Checks for disk pressure (`pressure.interval`). Default 10 s.
    pub pressure: Duration,
    /// The longest back-off after failed passes (`daemon.max_backoff`). Default 15 min.
    pub max_backoff: Duration,
}

/// The format of the service's log.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum LogFormat {
    /// Text lines for people and the journal.
    #[default]
    Text,
    /// One JSON object per line.
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
            pods: PodSettings::default(),
            policy: Policy::default(),
            state: StateSettings::default(),
            intervals: Intervals::default(),
            tells_events: true,
            log_format: LogFormat::Text,
        }
    }
}

// === impl PodSettings ===

impl Default for PodSettings {
    fn default() -> Self {
        Self {
            sources: PodSources::default(),
            require_kubelet_dirs: true,
            kubeconfig: None,
            max_silence: Duration::from_mins(3),
            kubelet: KubeletSettings::default(),
        }
    }
}

// === impl KubeletSettings ===

impl Default for KubeletSettings {
    fn default() -> Self {
        Self {
            endpoint: "https://127.0.0.1:10250".to_owned(),
            ca: None,
            token_file: None,
            client_certificate: None,
            client_key: None,
        }
    }
}

impl KubeletSettings {
    /// Returns whether the address is the read-only port, which has no authentication in either direction.
    pub fn is_plain(&self) -> bool {
        self.endpoint.starts_with("http://")
    }
}

// === impl PodSources ===

impl PodSources {
    /// Creates the list of sources; `None` if they cannot be combined.
    pub fn of(sources: Vec<PodSourceName>) -> Option<Self> {
        let stands_alone = |source: &PodSourceName| matches!(source, PodSourceName::Auto | PodSourceName::None);
        let is_alone = sources.len() == 1 || !sources.iter().any(stands_alone);
        let is_new = |(at, source)| !sources.iter().take(at).any(|before| before == source);
        let fits = !sources.is_empty() && is_alone && sources.iter().enumerate().all(is_new);
        fits.then_some(Self(sources))
    }

    /// Lists the sources.
    pub fn iter(&self) -> impl Iterator<Item = PodSourceName> {
        self.0.iter().copied()
    }

    /// Returns whether this source is in use.
    pub fn contains(&self, source: PodSourceName) -> bool {
        self.0.contains(&source)
    }
}

impl Default for PodSources {
    fn default() -> Self {
        Self(vec![PodSourceName::Auto])
    }
}

// === impl StateSettings ===

impl Default for StateSettings {
    fn default() -> Self {
        Self {
            path: "/var/lib/kubegc/kubegc.db".into(),
            lock: "/run/kubegc/kubegc.lock".into(),
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
