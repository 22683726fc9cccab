//! How to reach the API server: which credentials there are, and which count.
//!
//! All paths are the host's and are looked up beneath `host_root`, those inside a kubeconfig too. A file that is mounted
//! for the agent alone, under its own path, counts where the host has none.

use std::io;
use std::path::{Path, PathBuf};

use kube::config::{AuthInfo, Config, Kubeconfig};

use super::KubernetesError;
use super::error::whole;
use crate::host_path::{self, Resolved};

/// Where the kubelet's own credentials lie on a node that kubeadm made.
const KUBEADM: &str = "/etc/kubernetes/kubelet.conf";

/// Where to look for credentials, the first that exists counts.
#[derive(Clone, Debug, PartialEq)]
pub struct CredentialCandidates {
    /// The kubeconfig that was set. If there is one, nothing else is looked at.
    pub kubeconfig: Option<PathBuf>,
    /// The directory of a pod's service account, as this process sees it. Default
    /// `/var/run/secrets/kubernetes.io/serviceaccount`.
    pub account: PathBuf,
    /// Where the host's root is mounted. Default `/`.
    pub host_root: PathBuf,
    /// The kubelet's directory, on the host. Default `/var/lib/kubelet`.
    pub kubelet_root: PathBuf,
}

/// The credentials that count.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Access {
    /// Which they are.
    pub credentials: Credentials,
    /// Why these, for people.
    pub chosen_by: String,
    /// Where the host's root is mounted.
    pub host_root: PathBuf,
}

/// Who we are for the API server.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Credentials {
    /// What this file says; its path as the host names it.
    Kubeconfig(PathBuf),
    /// The service account of the pod that this process runs in.
    Account,
}

// === impl CredentialCandidates ===

impl Default for CredentialCandidates {
    fn default() -> Self {
        Self {
            kubeconfig: None,
            account: "/var/run/secrets/kubernetes.io/serviceaccount".into(),
            host_root: "/".into(),
            kubelet_root: "/var/lib/kubelet".into(),
        }
    }
}

impl CredentialCandidates {
    /// Finds the credentials that count: the kubeconfig that was set, the pod's service account, the kubelet's own. Looks
    /// at files only; nobody is asked.
    ///
    /// # Errors
    ///
    /// There are none, or the kubeconfig that was set is not there.
    pub fn find(&self) -> Result<Access, KubernetesError> {
        if let Some(path) = &self.kubeconfig {
            if seen(&self.host_root, path).is_none() {
                return Err(KubernetesError::NoKubeconfig { path: path.clone() });
            }
            return Ok(self.access(Credentials::Kubeconfig(path.clone()), format!("kubeconfig {}", path.display())));
        }
        if self.account.join("token").exists() {
            return Ok(self.access(Credentials::Account, "the pod's service account".to_owned()));
        }
        let tried = vec![PathBuf::from(KUBEADM), self.kubelet_root.join("kubeconfig")];
        match tried.iter().find(|path| seen(&self.host_root, path).is_some()) {
            Some(path) => {
                let why = format!("the kubelet's kubeconfig {}", path.display());
                Ok(self.access(Credentials::Kubeconfig(path.clone()), why))
            }
            None => Err(KubernetesError::NoAccess { tried }),
        }
    }

    fn access(&self, credentials: Credentials, chosen_by: String) -> Access {
        Access { credentials, chosen_by, host_root: self.host_root.clone() }
    }
}

// === impl Access ===

impl Access {
    /// Reads the credentials as they are now. Certificates and tokens are replaced while we run, so this is done again
    /// whenever the server does not take them any longer.
    pub fn config(&self) -> Result<Config, KubernetesError> {
        match &self.credentials {
            Credentials::Kubeconfig(path) => self.of_kubeconfig(path),
            Credentials::Account => {
                Config::incluster_env().map_err(|error| KubernetesError::UseAccount { cause: whole(&error) })
            }
        }
    }

    fn of_kubeconfig(&self, path: &Path) -> Result<Config, KubernetesError> {
        let unusable = |cause| KubernetesError::ParseKubeconfig { path: path.to_owned(), cause };
        let file =
            seen(&self.host_root, path).ok_or_else(|| KubernetesError::NoKubeconfig { path: path.to_owned() })?;
        let text = std::fs::read_to_string(file).map_err(|source| unread(path, source))?;
        let mut kubeconfig = Kubeconfig::from_yaml(&text).map_err(|error| unusable(whole(&error)))?;
        let users = kubeconfig.auth_infos.iter_mut().filter_map(|named| named.auth_info.as_mut());
        for user in users {
            // Whoever is not in use may run what it likes; the one in use is looked at below.
            self.place_user(path, user);
        }
        let mut wants_proxy = false;
        for cluster in kubeconfig.clusters.iter_mut().filter_map(|named| named.cluster.as_mut()) {
            self.place(path, &mut cluster.certificate_authority);
            wants_proxy |= cluster.proxy_url.as_ref().is_some_and(|url| !url.is_empty());
        }
        let mut config = Config::try_from(kubeconfig).map_err(|error| unusable(whole(&error)))?;
        if !wants_proxy {
            // What the environment names is meant for others: a node speaks to its API server directly.
            config.proxy_url = None;
        }
        if config.auth_info.exec.is_some() || config.auth_info.auth_provider.is_some() {
            return Err(KubernetesError::RunsProgram { path: path.to_owned() });
        }
        Ok(config)
    }

    fn place_user(&self, kubeconfig: &Path, user: &mut AuthInfo) {
        for path in [&mut user.client_certificate, &mut user.client_key, &mut user.token_file] {
            self.place(kubeconfig, path);
        }
    }

    /// Puts in place of a path inside a kubeconfig the one by which this process reaches it. A relative one starts where
    /// the kubeconfig lies.
    fn place(&self, kubeconfig: &Path, path: &mut Option<String>) {
        let Some(text) = path.as_mut().filter(|text| !text.is_empty()) else { return };
        let absolute = kubeconfig.parent().unwrap_or(Path::new("/")).join(&*text);
        let place = seen(&self.host_root, &absolute).unwrap_or(absolute);
        *text = place.display().to_string();
    }
}

/// Where a file of the host is for this process, if it is anywhere.
pub(super) fn seen(host_root: &Path, path: &Path) -> Option<PathBuf> {
    let own = || path.exists().then(|| path.to_owned());
    if path.is_relative() {
        return own();
    }
    match host_path::resolve(host_root, path) {
        Ok(Resolved::Exists(beneath)) => Some(beneath),
        _ => own(),
    }
}

fn unread(path: &Path, source: io::Error) -> KubernetesError {
    KubernetesError::ReadFile { path: path.to_owned(), source }
}
