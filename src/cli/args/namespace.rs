//! The flags for namespaces, as kubectl has them.

use crate::model::PodRef;

/// Flags that limit a command to a namespace.
#[derive(Debug, Default, clap::Args)]
pub struct NamespaceArgs {
    /// Include only objects of this namespace; images have none
    #[arg(short, long, value_name = "NAMESPACE")]
    pub(in crate::cli) namespace: Option<String>,
    /// Include objects of all namespaces (default)
    #[arg(short = 'A', long)]
    pub(in crate::cli) all_namespaces: bool,
}

// === impl NamespaceArgs ===

impl NamespaceArgs {
    /// Returns the namespace; `None` = all. As in kubectl, `-A` overrides `-n`.
    pub(in crate::cli) fn get(&self) -> Option<&str> {
        self.namespace.as_deref().filter(|_| !self.all_namespaces)
    }

    /// Returns whether an object of this pod is meant. One without a pod is meant only without a namespace.
    pub(in crate::cli) fn includes(&self, pod: Option<&PodRef>) -> bool {
        self.get().is_none_or(|namespace| pod.is_some_and(|pod| pod.namespace == namespace))
    }
}
