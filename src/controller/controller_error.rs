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
    /// A kube-controller-manager may delete namespaces itself.
    #[error("cannot see whether a kube-controller-manager deletes namespaces")]
    Upstream { source: KubernetesError },
    /// A kube-controller-manager deletes namespaces itself.
    #[error("kube-controller-manager {leader} has its Lease, and deletes namespaces itself")]
    Beside { leader: String },
}

// === impl ControllerError ===

impl ControllerError {
    /// Returns whether the credentials are missing or invalid, so that no request was sent to the API server.
    pub fn is_of_credentials(&self) -> bool {
        match self {
            Self::Discover { source } | Self::Pods { source } | Self::Upstream { source } => {
                source.cause.is_of_credentials()
            }
            Self::Beside { .. } => false,
        }
    }
}
