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
    /// Where the knowledge of pods comes from (`pods.*`).
    pub pods: PodSettings,
    /// The rules (`profile`, `containers.*`, `images.*`, `logs.*`, `pressure.*`, `guards.*`).
    pub policy: Policy,
    /// The store (`state.*`).
    pub state: StateSettings,
    /// The loops of the service.
    pub intervals: Intervals,
    /// Passes are told as events on the Node (`events.enabled`). Default true; needs the API server as a source of pods.
    pub tells_events: bool,
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

/// Who says which pods should be here, and how they are reached.
#[derive(Clone, Debug, PartialEq)]
pub struct PodSettings {
    /// Who is asked (`pods.source`). Default `auto`.
    pub sources: PodSources,
    /// How the API server is reached (`pods.kubeconfig`); `None` = the in-cluster account, else the kubelet's kubeconfig.
    pub kubeconfig: Option<PathBuf>,
    /// A watch that is silent for longer counts as not seen (`pods.max_silence`). Default 3 min.
    pub max_silence: Duration,
    /// The kubelet's door (`pods.kubelet_*`).
    pub kubelet: KubeletSettings,
}

/// How the kubelet is reached. Files are read anew each time it is asked: certificates and tokens are renewed.
#[derive(Clone, Debug, PartialEq)]
pub struct KubeletSettings {
    /// Its address (`pods.kubelet_endpoint`). Default `https://127.0.0.1:10250`; `http://` = the read-only port.
    pub endpoint: String,
    /// What its certificate is checked against (`pods.kubelet_ca`): authorities, or the certificate itself. `None` = its
    /// own certificates beneath its root, and the in-cluster authority.
    pub ca: Option<PathBuf>,
    /// The token to show (`pods.kubelet_token_file`). `None` = the in-cluster account's, where there is one.
    pub token_file: Option<PathBuf>,
    /// The certificate to show (`pods.kubelet_client_certificate`).
    pub client_certificate: Option<PathBuf>,
    /// Its key (`pods.kubelet_client_key`).
    pub client_key: Option<PathBuf>,
}

/// The sources of pods that are asked: `auto` alone, `none` alone, or one or several others in the order written, each
/// once.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PodSources(Vec<PodSourceName>);

/// Who says which pods should be here.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum PodSourceName {
    /// Whoever can be found.
    #[default]
    Auto,
    /// Nobody: no pod is ever gone.
    None,
    /// The runtime: a pod with nothing running and no ready sandbox is gone. For hosts without a kubelet.
    Runtime,
    /// The API server, watched.
    KubeApi,
    /// The kubelet, asked.
    Kubelet,
    /// The kubelet's directories of pods: a veto that must be readable, and no list.
    KubeletDir,
}

/// The store.
#[derive(Clone, Debug, PartialEq)]
pub struct StateSettings {
    /// The SQLite file (`state.path`). Default `/var/lib/kubegc/kubegc.db`.
    pub path: PathBuf,
    /// The lock that only one agent of the node holds (`state.lock`). Default `/run/kubegc/kubegc.lock`.
    pub lock: PathBuf,
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
    /// Says whether the read-only port is meant, which takes and proves nothing.
    pub fn is_plain(&self) -> bool {
        self.endpoint.starts_with("http://")
    }
}

// === impl PodSources ===

impl PodSources {
    /// These sources; `None` if they do not go together.
    pub fn of(sources: Vec<PodSourceName>) -> Option<Self> {
        let stands_alone = |source: &PodSourceName| matches!(source, PodSourceName::Auto | PodSourceName::None);
        let is_alone = sources.len() == 1 || !sources.iter().any(stands_alone);
        let is_new = |(at, source)| !sources.iter().take(at).any(|before| before == source);
        let fits = !sources.is_empty() && is_alone && sources.iter().enumerate().all(is_new);
        fits.then_some(Self(sources))
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = PodSourceName> {
        self.0.iter().copied()
    }

    /// Says whether this one is among them.
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
