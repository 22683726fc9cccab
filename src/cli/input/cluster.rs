//! The cluster that a command is about.

use std::time::Duration;

use tokio::time::Instant;

use crate::cli::args::kubectl_args::KubectlArgs;
use crate::cli::cli_error::note;
use crate::cli::verb::Start;
use crate::config::{Loaded, Settings};
use crate::daemon::node::credential_candidates;
use crate::kubernetes::{Connection, CredentialCandidates};

/// The cluster that the settings and the flags select.
#[derive(Clone, Copy)]
pub(in crate::cli) struct Source<'a> {
    pub(in crate::cli) loaded: &'a Loaded,
    pub(in crate::cli) kubectl: &'a KubectlArgs,
    /// A collector of a cluster has no credentials of a node.
    is_collector: bool,
    /// When the command ends, if it has a limit.
    until: Option<Instant>,
}

// === impl Source ===

impl<'a> Source<'a> {
    pub(in crate::cli) fn new(loaded: &'a Loaded, start: &Start<'a>) -> Self {
        let is_collector = start.facts.name.starts_with("controller ");
        Self { loaded, kubectl: start.kubectl, is_collector, until: None }
    }

    /// Returns the same, for a command that ends after this time, whatever it waits for.
    pub(in crate::cli) fn within(self, limit: Duration) -> Self {
        Self { until: Instant::now().checked_add(limit), ..self }
    }

    /// Returns the time that is left.
    pub(in crate::cli) fn left(self) -> Duration {
        self.until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()))
    }
}

// === impl Source: what a command reads ===

impl Source<'_> {
    pub(in crate::cli) fn settings(&self) -> &Settings {
        &self.loaded.settings
    }

    /// Returns the connection to the API server, for a service.
    pub(in crate::cli) fn connection(self) -> Connection {
        let settings = self.settings();
        let candidates = CredentialCandidates {
            own_kubeconfig: settings.pods.own_kubeconfig.clone(),
            overrides: self.kubectl.overrides(),
            without_kubelets: self.is_collector,
            ..credential_candidates(settings)
        };
        Connection::multiplexed(candidates).with_limit(self.kubectl.request_timeout())
    }

    /// Returns that connection for a command, which ends after one look and says what it waits for.
    pub(in crate::cli) fn patient_connection(self) -> Connection {
        self.connection().repeating().until(self.until).noting(note)
    }
}
