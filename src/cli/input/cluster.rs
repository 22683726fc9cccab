//! The cluster that a command is about.

use crate::cli::args::kubectl_args::KubectlArgs;
use crate::config::{Loaded, Settings};
use crate::daemon::node::credential_candidates;
use crate::kubernetes::{Connection, CredentialCandidates};

/// The cluster that the settings and the flags select.
#[derive(Clone, Copy)]
pub(in crate::cli) struct Source<'a> {
    pub(in crate::cli) loaded: &'a Loaded,
    pub(in crate::cli) kubectl: &'a KubectlArgs,
}

// === impl Source ===

impl Source<'_> {
    /// Returns the settings.
    pub(in crate::cli) fn settings(&self) -> &Settings {
        &self.loaded.settings
    }

    /// Returns the connection to the API server, for a service.
    pub(in crate::cli) fn connection(self) -> Connection {
        let settings = self.settings();
        let candidates = CredentialCandidates {
            own_kubeconfig: settings.pods.own_kubeconfig.clone(),
            overrides: self.kubectl.overrides(),
            ..credential_candidates(settings)
        };
        Connection::multiplexed(candidates).with_limit(self.kubectl.request_timeout())
    }

    /// Returns that connection for a command, which ends after one look.
    pub(in crate::cli) fn patient_connection(self) -> Connection {
        self.connection().repeating()
    }
}
