//! Connects the modules for one node, according to the settings.

use std::sync::Arc;
use std::time::Duration;

use super::clock;
use super::cycle::pauses::ReceivedPolicies;
use crate::config::{KubeletSettings, Loaded, Settings};
use crate::cri::{self, CriError, CriOptions, Endpoint, InProgress, RuntimeReader};
use crate::host_path::HostFs;
use crate::kubernetes::{Connection, CredentialCandidates, ExecPlugins, KubeletAccess};
use crate::metrics::CriCalls;
use crate::model::{Image, PodSourceName};
use crate::observe::{ClockJumps, Disks, HostDisks, Observer, Places, PodSource, PodSourceOptions, has_pull_record};

/// The parts of a node that are not in the settings.
#[derive(Clone)]
pub struct LocalNode {
    /// The sockets of its runtime.
    pub endpoint: Endpoint,
    /// Measures its disks.
    pub disks: Arc<dyn Disks>,
    pub pods: Arc<dyn PodSource>,
    /// How long to wait for free space before the next image is removed.
    pub space_settle: Duration,
    /// Counts the calls to its runtime.
    pub calls: CriCalls,
    /// The removals without an answer yet. They may outlive a reload of the settings.
    pub removals: InProgress,
    /// The jumps of the clock. They may outlive a reload too.
    pub jumps: Arc<ClockJumps>,
    /// The policies that the API server sent. They may outlive a reload too.
    pub received: ReceivedPolicies,
    /// Why its runtime is not asked; `None` = it is.
    pub without_runtime: Option<String>,
}

// === impl LocalNode ===

impl LocalNode {
    /// Creates a node from its parts, whose space is free at once.
    pub fn new(endpoint: Endpoint, disks: Arc<dyn Disks>, pods: Arc<dyn PodSource>) -> Self {
        let (calls, removals, jumps, received) = Default::default();
        let (space_settle, without_runtime) = (Duration::ZERO, None);
        Self { endpoint, disks, pods, space_settle, calls, removals, jumps, received, without_runtime }
    }

    /// Finds the runtime of this host and checks whether it answers.
    ///
    /// # Errors
    /// No usable runtime was found, or it does not answer. There is no wait for one that starts.
    pub async fn find(loaded: &Loaded) -> Result<Self, CriError> {
        let (settings, candidates) = (&loaded.settings, loaded.candidates());
        let endpoint = cri::resolve(&candidates, &settings.runtime.options).await;
        let endpoint = endpoint.map_err(|error| loaded.explain(error))?;
        let chosen_by = candidates.runtime.as_ref().map_or("well-known sockets", |named| &named.named_by);
        let options = CriOptions { patience: Duration::ZERO, ..settings.runtime.options.clone() };
        let answers = RuntimeReader::new(&endpoint.runtime, &endpoint.images, options).check().await;
        answers.map_err(|error| loaded.explain(error))?;
        tracing::info!(endpoint = endpoint.runtime, chosen_by, "runtime found");
        Ok(Self::of_host(settings, endpoint))
    }

    /// Returns the node for this host.
    pub fn of_host(settings: &Settings, endpoint: Endpoint) -> Self {
        let disks = Arc::new(HostDisks::new(&settings.host_root));
        let node = Self::new(endpoint, disks, pod_source_options(settings).select());
        Self { space_settle: Duration::from_secs(1), ..node }
    }

    /// Returns the node for this host, for a look at the rest of it after this error of its runtime.
    pub fn without_runtime(settings: &Settings, error: &CriError) -> Self {
        let endpoint = Endpoint { runtime: String::new(), images: String::new(), others: Vec::new() };
        Self { without_runtime: Some(error.to_string()), ..Self::of_host(settings, endpoint) }
    }

    /// Returns the same node, with the calls to its runtime counted there.
    #[must_use]
    pub fn counted(self, calls: &CriCalls) -> Self {
        Self { calls: calls.clone(), ..self }
    }

    /// Returns whether the kubelet of this host certainly has a record of the pull of an image (I21).
    pub async fn has_pull_record(settings: &Settings, image: &Image) -> bool {
        let Places { host, kubelet_root, .. } = places(settings);
        has_pull_record(&host, &kubelet_root, image).await == Some(true)
    }

    pub fn reader(&self, settings: &Settings) -> RuntimeReader {
        let Endpoint { runtime, images, .. } = &self.endpoint;
        RuntimeReader::new(runtime, images, settings.runtime.options.clone()).with_calls(&self.calls)
    }

    /// Creates an observer for it.
    pub fn observer(&self, settings: &Settings) -> Observer {
        let (pods, disks) = (Arc::clone(&self.pods), Arc::clone(&self.disks));
        let places = Places { other_sockets: self.endpoint.others.clone(), ..places(settings) };
        let observer = Observer::new(self.reader(settings), places, settings.node.clone(), pods, disks);
        observer.with_jumps(&self.jumps).without_runtime(self.without_runtime.clone())
    }
}

fn places(settings: &Settings) -> Places {
    Places {
        host: HostFs::new(&settings.host_root),
        kubelet_root: settings.kubelet_root.clone(),
        networks: settings.networks_root.clone(),
        archive: settings.policy.logs.archive_root(),
        pod_logs: settings.policy.logs.pods_root.clone(),
        container_logs: settings.policy.logs.containers_root.clone(),
        other_sockets: Vec::new(),
    }
}

fn pod_source_options(settings: &Settings) -> PodSourceOptions {
    PodSourceOptions {
        sources: settings.pods.sources.clone(),
        node: settings.node.clone(),
        credentials: credential_candidates(settings),
        kubelet: kubelet_access(settings),
        kubelet_key: kubelet_key(&settings.pods.kubelet),
        clock: clock::now,
    }
}

/// Returns the candidates for the credentials at the API server.
pub fn credential_candidates(settings: &Settings) -> CredentialCandidates {
    let pods = &settings.pods;
    let plugins = match (pods.exec_plugins, &pods.by_person) {
        (true, _) => ExecPlugins::Always,
        (false, Some(_)) => ExecPlugins::ByPerson,
        (false, None) => ExecPlugins::Never,
    };
    CredentialCandidates {
        kubeconfigs: pods.kubeconfigs.clone(),
        plugins,
        proxies: pods.by_person.clone(),
        clock: Some(clock::now),
        host: HostFs::new(&settings.host_root),
        kubelet_root: settings.kubelet_root.clone(),
        ..CredentialCandidates::default()
    }
}

fn kubelet_access(settings: &Settings) -> KubeletAccess {
    let KubeletSettings { endpoint, ca, token_file, client_certificate, client_key } = settings.pods.kubelet.clone();
    KubeletAccess {
        endpoint,
        // The kubelet derives its node name from the host name in the same way.
        node: settings.node.trim().to_lowercase(),
        ca,
        token_file,
        client: client_certificate.zip(client_key),
        account: CredentialCandidates::default().account,
        host: HostFs::new(&settings.host_root),
        kubelet_root: settings.kubelet_root.clone(),
    }
}

/// Returns the key of a setting that configures the access to the kubelet, if one is set.
fn kubelet_key(kubelet: &KubeletSettings) -> Option<&'static str> {
    let unset = KubeletSettings::default();
    let keys = [
        (kubelet.token_file != unset.token_file, "pods.kubelet_token_file"),
        (kubelet.client_certificate != unset.client_certificate, "pods.kubelet_client_certificate"),
        (kubelet.ca != unset.ca, "pods.kubelet_ca"),
        (kubelet.endpoint != unset.endpoint, "pods.kubelet_endpoint"),
    ];
    keys.into_iter().find(|(is_set, _)| *is_set).map(|(_, key)| key)
}

/// Returns the connection for events. It opens at the first event. `None` = events are off, or the API server is not a
/// pod source.
pub fn connection_for_events(settings: &Settings) -> Option<Connection> {
    let uses = |source| settings.pods.sources.contains(&source);
    let has_server = uses(PodSourceName::Auto) || uses(PodSourceName::KubeApi);
    (settings.writes_events && has_server).then(|| Connection::new(credential_candidates(settings)))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn kubelet(change: impl FnOnce(&mut KubeletSettings)) -> KubeletSettings {
        let mut kubelet = KubeletSettings::default();
        change(&mut kubelet);
        kubelet
    }

    #[test]
    fn a_setting_of_the_kubelet_selects_the_kubelet() {
        for (kubelet, key) in [
            (KubeletSettings::default(), None),
            (kubelet(|kubelet| kubelet.token_file = Some("/t".into())), Some("pods.kubelet_token_file")),
            (kubelet(|kubelet| kubelet.endpoint = "http://127.0.0.1:10255".to_owned()), Some("pods.kubelet_endpoint")),
            (
                kubelet(|kubelet| kubelet.client_certificate = Some("/c".into())),
                Some("pods.kubelet_client_certificate"),
            ),
            (kubelet(|kubelet| kubelet.ca = Some("/c".into())), Some("pods.kubelet_ca")),
        ] {
            assert_eq!(kubelet_key(&kubelet), key, "{kubelet:?}");
        }
    }

    #[test]
    fn the_kubelet_is_queried_as_configured() {
        let mut settings = Settings { node: " Node-1 ".to_owned(), ..Settings::default() };
        settings.pods.kubelet.client_certificate = Some("/c".into());
        settings.pods.kubelet.client_key = Some("/k".into());
        let access = kubelet_access(&settings);
        assert_eq!((access.node.as_str(), access.endpoint.as_str()), ("node-1", "https://127.0.0.1:10250"));
        assert_eq!(access.client, Some(("/c".into(), "/k".into())));
        assert_eq!(access.kubelet_root, Path::new("/var/lib/kubelet"));
    }
}
