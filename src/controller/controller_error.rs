//! Errors of the controller.

use crate::kubernetes::KubernetesError;

/// A failure that leaves no snapshot at all.
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    /// What the API server serves is unknown.
    #[error("cannot observe the cluster")]
    Discover { source: KubernetesError },
    /// The pods or nodes cannot be listed completely.
    #[error("cannot observe the pods and nodes of the cluster")]
    Pods { source: KubernetesError },
}

// === impl ControllerError ===

impl ControllerError {
    /// Returns whether the credentials are missing or invalid, so that no request was sent to the API server.
    pub fn is_of_credentials(&self) -> bool {
        let (Self::Discover { source } | Self::Pods { source }) = self;
        source.cause.is_of_credentials()
    }
}
