//! Access to the API server: the candidates for credentials, and which of them is used.
//!
//! All paths are paths of the host, also those inside a kubeconfig. [`HostFs::locate`] finds the files.

use std::io;
use std::path::{Path, PathBuf};

use kube::config::{AuthInfo, Config};

use super::error::with_causes;
use super::{KubernetesError, kubeconfig};
use crate::host_path::HostFs;

/// The kubelet's own credentials on a node that kubeadm set up.
const KUBEADM: &str = "/etc/kubernetes/kubelet.conf";

/// The places that may contain credentials. The first one that exists is used.
#[derive(Clone, Debug, PartialEq)]
pub struct CredentialCandidates {
    /// The configured kubeconfig. If it is set, no other place is checked.
    pub kubeconfig: Option<PathBuf>,
    /// The directory of a pod's service account, as this process sees it. Default
    /// `/var/run/secrets/kubernetes.io/serviceaccount`.
    pub account: PathBuf,
    /// The host. Default: the agent's own root is the host's.
    pub host: HostFs,
    /// The kubelet's directory, on the host. Default `/var/lib/kubelet`.
    pub kubelet_root: PathBuf,
}

/// The credentials in use.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Access {
    /// The kind of credentials.
    pub credentials: Credentials,
    /// Why these were chosen, as text for users.
    pub chosen_by: String,
    /// The host.
    pub host: HostFs,
}

/// The identity that kubegc uses at the API server.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Credentials {
    /// The user of this kubeconfig. The path is a path of the host.
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
            host: HostFs::default(),
            kubelet_root: "/var/lib/kubelet".into(),
        }
    }
}

impl CredentialCandidates {
    /// Finds the credentials to use: the configured kubeconfig, the pod's service account, or the kubelet's own, unless these
    /// come from a program. Checks files only and sends no request.
    ///
    /// # Errors
    ///
    /// There are no credentials, those that there are come from a program, or the configured kubeconfig does not exist.
    pub fn find(&self) -> Result<Access, KubernetesError> {
        if let Some(path) = &self.kubeconfig {
            if self.existing(path).is_none() {
                return Err(KubernetesError::NoKubeconfig { path: path.clone() });
            }
            return Ok(self.access(Credentials::Kubeconfig(path.clone()), format!("kubeconfig {}", path.display())));
        }
        if self.account.join("token").exists() {
            return Ok(self.access(Credentials::Account, "the pod's service account".to_owned()));
        }
        let tried = vec![PathBuf::from(KUBEADM), self.kubelet_root.join("kubeconfig")];
        let existing = tried.iter().filter(|path| self.existing(path).is_some()).map(|path| {
            let why = format!("the kubelet's kubeconfig {}", path.display());
            self.access(Credentials::Kubeconfig(path.clone()), why)
        });
        let mut program = None;
        for access in existing {
            match access.config() {
                Err(error @ KubernetesError::RunsProgram { .. }) => program = program.or(Some(error)),
                // Other faults may be repaired while kubegc runs.
                _ => return Ok(access),
            }
        }
        Err(program.unwrap_or(KubernetesError::NoAccess { tried }))
    }

    fn existing(&self, path: &Path) -> Option<PathBuf> {
        self.host.locate(path).existing()
    }

    fn access(&self, credentials: Credentials, chosen_by: String) -> Access {
        Access { credentials, chosen_by, host: self.host.clone() }
    }
}

// === impl Access ===

impl Access {
    /// Reads the current credentials. Certificates and tokens are replaced while kubegc runs, so they are read again
    /// whenever the server no longer accepts them.
    pub fn config(&self) -> Result<Config, KubernetesError> {
        match &self.credentials {
            Credentials::Kubeconfig(path) => self.of_kubeconfig(path),
            Credentials::Account => {
                Config::incluster_env().map_err(|error| KubernetesError::UseAccount { cause: with_causes(&error) })
            }
        }
    }

    fn of_kubeconfig(&self, path: &Path) -> Result<Config, KubernetesError> {
        let unusable = |cause| KubernetesError::ParseKubeconfig { path: path.to_owned(), cause };
        let file = self.host.locate(path).existing();
        let file = file.ok_or_else(|| KubernetesError::NoKubeconfig { path: path.to_owned() })?;
        let text = std::fs::read_to_string(file).map_err(|source| unread(path, source))?;
        let mut kubeconfig = kubeconfig::read(&text).map_err(unusable)?;
        let users = kubeconfig.auth_infos.iter_mut().filter_map(|named| named.auth_info.as_mut());
        for user in users {
            // Users that are not in use may run a program. The user in use is checked below.
            self.resolve_user(path, user);
        }
        for cluster in kubeconfig.clusters.iter_mut().filter_map(|named| named.cluster.as_mut()) {
            self.resolve(path, &mut cluster.certificate_authority);
        }
        let wants_proxy = kubeconfig::has_proxy(&kubeconfig);
        let mut config = Config::try_from(kubeconfig).map_err(|error| unusable(with_causes(&error)))?;
        if !wants_proxy {
            // The proxy of the environment is ignored: a node connects to its API server directly.
            config.proxy_url = None;
        }
        if config.auth_info.exec.is_some() || config.auth_info.auth_provider.is_some() {
            return Err(KubernetesError::RunsProgram { path: path.to_owned() });
        }
        Ok(config)
    }

    fn resolve_user(&self, kubeconfig: &Path, user: &mut AuthInfo) {
        for path in [&mut user.client_certificate, &mut user.client_key, &mut user.token_file] {
            self.resolve(kubeconfig, path);
        }
    }

    /// Replaces a path inside a kubeconfig by the path under which this process reaches the file. A relative path
    /// starts at the directory of the kubeconfig.
    fn resolve(&self, kubeconfig: &Path, path: &mut Option<String>) {
        let Some(text) = path.as_mut().filter(|text| !text.is_empty()) else { return };
        let absolute = kubeconfig.parent().unwrap_or(Path::new("/")).join(&*text);
        let path_here = self.host.locate(&absolute).existing().unwrap_or(absolute);
        *text = path_here.display().to_string();
    }
}

fn unread(path: &Path, source: io::Error) -> KubernetesError {
    KubernetesError::ReadFile { path: path.to_owned(), source }
}
