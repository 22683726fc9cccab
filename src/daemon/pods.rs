//! Selects the pod sources: those in the settings, or those that `auto` finds.

use std::sync::Arc;

use super::clock;
use crate::config::{KubeletSettings, PodSourceName, Settings};
use crate::host_path::{self, Resolved};
use crate::kubernetes::{Connection, CredentialCandidates, Kubelet, KubeletAccess, KubernetesError, Timing};
use crate::observe::{
    self, AutoPodSource, CombinedPods, KubeApi, KubeletDirPods, KubeletSource, NoPods, OtherSources, RuntimePods,
    SourceEntry,
};

/// What selected a source, as `plan` shows it.
const SET: &str = "pods.source";
const AUTO: &str = "auto";

/// Returns the pod sources that the settings select, for the node of this name. Sends no request and reads no file yet.
pub(super) fn pod_source(settings: &Settings, node: &str) -> Arc<dyn observe::PodSource> {
    let place = PlaceOfPods { settings: settings.clone(), node: node.to_owned() };
    if settings.pods.sources.contains(PodSourceName::Auto) {
        return Arc::new(AutoPodSource::new(move || place.found().map(|parts| CombinedPods::new(parts, clock::now))));
    }
    let parts = settings.pods.sources.iter().map(|source| place.part(source, SET, String::new())).collect();
    let combined = CombinedPods::new(parts, clock::now);
    combined.log_sources();
    Arc::new(combined)
}

/// A node and the settings of its pod sources.
struct PlaceOfPods {
    settings: Settings,
    node: String,
}

// === impl PlaceOfPods ===

impl PlaceOfPods {
    /// Returns the sources that `auto` finds: by existing files and by settings, without any request. The runtime is
    /// never one of them: next to a kubelet it would report terminated pods as deleted.
    fn found(&self) -> Result<Vec<SourceEntry>, String> {
        let api = self.way_to_api_server();
        let mut found = Vec::new();
        if let Ok(why) = &api {
            found.push(self.part(PodSourceName::KubeApi, AUTO, why.clone()));
        }
        if let Some(key) = told_of(&self.settings.pods.kubelet) {
            found.push(self.part(PodSourceName::Kubelet, AUTO, format!("{key} is set")));
        }
        if found.is_empty() {
            let cause = api.err().map_or_else(String::new, |error| error.to_string());
            return Err(format!(
                "no pod source available: {cause}; no pods.kubelet_* is set; a host without a kubelet wants \
                 pods.source = \"runtime\""
            ));
        }
        let directory = self.settings.kubelet_root.join("pods");
        if matches!(host_path::resolve(&self.settings.host_root, &directory), Ok(Resolved::Exists(_))) {
            found.push(self.part(PodSourceName::KubeletDir, AUTO, format!("{} exists", directory.display())));
        }
        Ok(found)
    }

    /// Returns why the API server is available as a source. A configured kubeconfig counts before the file exists.
    fn way_to_api_server(&self) -> Result<String, KubernetesError> {
        match &self.settings.pods.kubeconfig {
            Some(path) => Ok(format!("kubeconfig {}", path.display())),
            None => ways_to_api_server(&self.settings).find().map(|access| access.chosen_by),
        }
    }

    fn part(&self, source: PodSourceName, wanted_by: &'static str, why: String) -> SourceEntry {
        let settings = &self.settings;
        let source: Arc<dyn observe::PodSource> = match source {
            PodSourceName::Auto | PodSourceName::None => Arc::new(NoPods),
            PodSourceName::Runtime => Arc::new(RuntimePods),
            PodSourceName::KubeApi => {
                let connection = Arc::new(Connection::new(ways_to_api_server(&self.settings)));
                let timing = Timing { max_silence: settings.pods.max_silence, ..Timing::default() };
                let source = KubeApi::new(connection, &self.node, clock::now).with_timing(timing);
                Arc::new(source.with_host_root(&settings.host_root))
            }
            PodSourceName::Kubelet => Arc::new(KubeletSource::new(Kubelet::new(self.kubelet()), clock::now)),
            PodSourceName::KubeletDir => {
                let is_alone = settings.pods.sources.iter().all(|source| source == PodSourceName::KubeletDir);
                let beside = if is_alone { OtherSources::None } else { OtherSources::Some };
                Arc::new(KubeletDirPods::new(&settings.host_root, &settings.kubelet_root, beside))
            }
        };
        SourceEntry { source, wanted_by, why }
    }

    fn kubelet(&self) -> KubeletAccess {
        let KubeletSettings { endpoint, ca, token_file, client_certificate, client_key } =
            self.settings.pods.kubelet.clone();
        KubeletAccess {
            endpoint,
            // The kubelet derives its node name from the host name in the same way.
            node: self.node.trim().to_lowercase(),
            ca,
            token_file,
            client: client_certificate.zip(client_key),
            account: CredentialCandidates::default().account,
            host_root: self.settings.host_root.clone(),
            kubelet_root: self.settings.kubelet_root.clone(),
        }
    }
}

/// Returns the credentials for the API server, according to the settings.
pub(super) fn ways_to_api_server(settings: &Settings) -> CredentialCandidates {
    CredentialCandidates {
        kubeconfig: settings.pods.kubeconfig.clone(),
        host_root: settings.host_root.clone(),
        kubelet_root: settings.kubelet_root.clone(),
        ..CredentialCandidates::default()
    }
}

/// Returns the key of a setting that configures access to the kubelet, if one is set.
fn told_of(kubelet: &KubeletSettings) -> Option<&'static str> {
    let unset = KubeletSettings::default();
    let keys = [
        (kubelet.token_file != unset.token_file, "pods.kubelet_token_file"),
        (kubelet.client_certificate != unset.client_certificate, "pods.kubelet_client_certificate"),
        (kubelet.ca != unset.ca, "pods.kubelet_ca"),
        (kubelet.endpoint != unset.endpoint, "pods.kubelet_endpoint"),
    ];
    keys.into_iter().find(|(is_set, _)| *is_set).map(|(_, key)| key)
}

#[cfg(test)]
mod tests;
