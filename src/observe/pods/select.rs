//! Selects the pod sources: those in the settings, or those that `auto` finds.
//!
//! `auto` checks files and sends no request, so a command on a host without Kubernetes is not slower.

use std::sync::Arc;

use super::{CombinedPods, KubeApi, KubeletSource, NoPods, PodSource, RuntimePods, SourceEntry};
use crate::kubernetes::{Clock, Connection, CredentialCandidates, Kubelet, KubeletAccess};
use crate::model::PodSourceName;

/// What selected a source, as `plan` shows it.
const SET: &str = "pods.source";
const AUTO: &str = "auto";

/// The settings of the pod sources of a node.
#[derive(Clone)]
pub struct PodSourceOptions {
    /// The sources in use.
    pub sources: Vec<PodSourceName>,
    /// The name of the node.
    pub node: String,
    /// The candidates for the credentials at the API server.
    pub credentials: CredentialCandidates,
    /// The access to the kubelet.
    pub kubelet: KubeletAccess,
    /// The key of a setting that configures the access to the kubelet, if one is set. Then `auto` uses the kubelet.
    pub kubelet_key: Option<&'static str>,
    /// The clock of the sources.
    pub clock: Clock,
}

// === impl PodSourceOptions ===

impl PodSourceOptions {
    /// Returns the pod source that these options select. Sends no request and reads no file yet.
    pub fn select(self) -> Arc<dyn PodSource> {
        if self.sources.contains(&PodSourceName::Auto) {
            return Arc::new(CombinedPods::searching(self));
        }
        let entries = self.sources.iter().map(|source| self.entry(*source, SET, String::new())).collect();
        let combined = CombinedPods::new(entries, self.clock);
        combined.log_sources();
        Arc::new(combined)
    }

    /// Returns the sources that `auto` finds: by existing files and by settings, without any request. The runtime is
    /// never one of them: next to a kubelet it would report terminated pods as deleted.
    ///
    /// # Errors
    /// There is no source. The error lists what was checked.
    pub(super) fn search(&self) -> Result<Vec<SourceEntry>, String> {
        let mut entries = Vec::new();
        let api = self.api_reason();
        if let Ok(why) = &api {
            entries.push(self.entry(PodSourceName::KubeApi, AUTO, why.clone()));
        }
        if let Some(key) = self.kubelet_key {
            entries.push(self.entry(PodSourceName::Kubelet, AUTO, format!("{key} is set")));
        }
        if entries.is_empty() {
            let cause = api.err().unwrap_or_default();
            return Err(format!(
                "no pod source available: {cause}; no pods.kubelet_* is set; on a host without a kubelet set \
                 pods.source = \"runtime\""
            ));
        }
        Ok(entries)
    }

    /// Returns why `auto` uses the API server, or why it cannot. A configured kubeconfig counts before the file exists.
    fn api_reason(&self) -> Result<String, String> {
        match self.credentials.configured() {
            Some(why) => Ok(why),
            None => self.credentials.find().map(|access| access.chosen_by).map_err(|error| error.to_string()),
        }
    }

    fn entry(&self, source: PodSourceName, wanted_by: &'static str, why: String) -> SourceEntry {
        SourceEntry { source: self.source(source), wanted_by, why }
    }

    fn source(&self, source: PodSourceName) -> Arc<dyn PodSource> {
        match source {
            PodSourceName::Auto | PodSourceName::None => Arc::new(NoPods),
            PodSourceName::Runtime => Arc::new(RuntimePods),
            PodSourceName::KubeApi => {
                let connection = Arc::new(Connection::new(self.credentials.clone()));
                let source = KubeApi::new(connection, &self.node, self.clock);
                Arc::new(source.with_host(self.credentials.host.clone()))
            }
            PodSourceName::Kubelet => Arc::new(KubeletSource::new(Kubelet::new(self.kubelet.clone()), self.clock)),
        }
    }
}

#[cfg(test)]
mod tests;
