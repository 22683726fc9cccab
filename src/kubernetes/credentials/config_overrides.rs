//! What a command line sets beside the kubeconfig, and the cluster and the user that result.

use kube::config::{AuthInfo, Cluster, Kubeconfig};
use secrecy::SecretString;

/// Flags beside the kubeconfig, with the meaning of kubectl's flags of these names.
#[derive(Clone, Debug, Default)]
pub struct ConfigOverrides {
    /// `--context`: the context to use, not the current one.
    pub context: Option<String>,
    /// `--cluster`: the cluster to use, not that of the context.
    pub cluster: Option<String>,
    /// `--user`: the user to use, not that of the context.
    pub user: Option<String>,
    /// `--server`: the address of the API server, not that of the cluster.
    pub server: Option<String>,
    /// `--token`: the bearer token. A token file of the user has precedence, as in kubectl.
    pub token: Option<SecretString>,
    /// `--as`: the user to impersonate.
    pub impersonate: Option<String>,
    /// `--as-group`: the groups to impersonate.
    pub impersonate_groups: Vec<String>,
}

// === impl ConfigOverrides ===

impl ConfigOverrides {
    /// Returns the cluster and the user that the kubeconfig and these flags select.
    ///
    /// # Errors
    /// The name of an object that does not exist, or there is no server.
    pub(super) fn select(&self, kubeconfig: &Kubeconfig) -> Result<(Cluster, AuthInfo), String> {
        let context = self.context.as_ref().or(kubeconfig.current_context.as_ref());
        let contexts = kubeconfig.contexts.iter().map(|named| (&named.name, &named.context));
        let context = find("context", context, contexts)?.unwrap_or_default();
        let clusters = kubeconfig.clusters.iter().map(|named| (&named.name, &named.cluster));
        let cluster = match find("cluster", self.cluster.as_ref().or(Some(&context.cluster)), clusters) {
            Err(_) if self.cluster.is_none() && self.server.is_some() => None,
            cluster => cluster?,
        };
        let mut cluster = cluster.unwrap_or_default();
        let users = kubeconfig.auth_infos.iter().map(|named| (&named.name, &named.auth_info));
        let user = match find("user", self.user.as_ref().or(context.user.as_ref()), users) {
            // Without a user requests are anonymous.
            Err(_) if self.user.is_none() => None,
            user => user?,
        };
        let mut user = user.unwrap_or_default();
        if let Some(server) = &self.server {
            // The name in the certificate belongs to the server of the file.
            (cluster.server, cluster.tls_server_name) = (Some(server.clone()), None);
        }
        self.apply(&mut user);
        Ok((cluster, user))
    }

    /// Applies what does not depend on a kubeconfig.
    pub(super) fn apply(&self, user: &mut AuthInfo) {
        if let Some(token) = &self.token {
            user.token = Some(token.clone());
        }
        if let Some(name) = &self.impersonate {
            user.impersonate = Some(name.clone());
        }
        if !self.impersonate_groups.is_empty() {
            user.impersonate_groups = Some(self.impersonate_groups.clone());
        }
    }
}

/// Returns the object with this name; `None` = no name is given.
fn find<'a, T: Clone + Default + 'a>(
    kind: &str,
    name: Option<&String>,
    all: impl Iterator<Item = (&'a String, &'a Option<T>)> + Clone,
) -> Result<Option<T>, String> {
    let Some(name) = name.filter(|name| !name.is_empty()) else { return Ok(None) };
    let found = all.clone().find(|(other, _)| *other == name);
    let names = || match all.map(|(name, _)| name.as_str()).collect::<Vec<_>>() {
        names if names.is_empty() => String::new(),
        names => format!("; there are: {}", names.join(", ")),
    };
    found
        .map(|(_, found)| Some(found.clone().unwrap_or_default()))
        .ok_or_else(|| format!("no {kind} {name:?}{}", names()))
}
