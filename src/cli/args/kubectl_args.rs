//! The flags of kubectl that select an API server, an identity and namespaces.

use std::time::Duration;

use crate::kubernetes::ConfigOverrides;
use crate::model::PodRef;

#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Access to the API server, as with kubectl")]
pub struct KubectlArgs {
    /// Context of the kubeconfig to use
    #[arg(long, global = true, value_name = "NAME")]
    context: Option<String>,
    /// Cluster of the kubeconfig to use
    #[arg(long, global = true, value_name = "NAME")]
    cluster: Option<String>,
    /// User of the kubeconfig to use
    #[arg(long, global = true, value_name = "NAME")]
    user: Option<String>,
    /// Address of the API server
    #[arg(short, long, global = true, value_name = "URL")]
    server: Option<String>,
    /// Bearer token for the API server
    #[arg(long, global = true, value_name = "TOKEN")]
    token: Option<String>,
    /// User to impersonate
    #[arg(long = "as", global = true, value_name = "USER")]
    impersonate: Option<String>,
    /// Group to impersonate (repeatable)
    #[arg(long = "as-group", global = true, value_name = "GROUP", requires = "impersonate")]
    impersonate_groups: Vec<String>,
    /// Longest wait for one answer, as 30s or 2m [default: depends on the request]
    #[arg(long, global = true, value_name = "DURATION", value_parser = request_timeout)]
    request_timeout: Option<Duration>,
}

// === impl KubectlArgs ===

impl KubectlArgs {
    pub(in crate::cli) fn overrides(&self) -> ConfigOverrides {
        ConfigOverrides {
            context: self.context.clone(),
            cluster: self.cluster.clone(),
            user: self.user.clone(),
            server: self.server.clone(),
            token: self.token.clone().map(Into::into),
            impersonate: self.impersonate.clone(),
            impersonate_groups: self.impersonate_groups.clone(),
        }
    }

    /// Returns whether the kubeconfig alone says which cluster it is.
    pub(in crate::cli) fn names_no_cluster(&self) -> bool {
        self.context.is_none() && self.cluster.is_none() && self.server.is_none()
    }

    /// Returns the limit of each call; `None` = that of the request. kubectl means no limit by 0.
    pub(in crate::cli) fn request_timeout(&self) -> Option<Duration> {
        self.request_timeout.map(|limit| if limit.is_zero() { NO_LIMIT } else { limit })
    }
}

/// A wait that no command lasts.
const NO_LIMIT: Duration = Duration::from_hours(24 * 365);

/// Reads a duration. A number without a unit is one of seconds, as in kubectl.
fn request_timeout(text: &str) -> Result<Duration, humantime::DurationError> {
    match text.parse() {
        Ok(seconds) => Ok(Duration::from_secs(seconds)),
        Err(_) => humantime::parse_duration(text),
    }
}

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
