//! Errors of the controller.

use crate::kubernetes::KubernetesError;

/// A failure that leaves no snapshot at all.
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    /// What the API server serves is unknown.
    #[error("cannot observe the cluster")]
    Discover {
        /// Why.
        source: KubernetesError,
    },
    /// The pods or nodes cannot be listed completely.
    #[error("cannot observe the pods and nodes of the cluster")]
    Pods {
        /// Why.
        source: KubernetesError,
    },
}
