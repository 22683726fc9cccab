//! Access to the API server: the candidates for credentials, and which of them is used.
//!
//! All paths are paths of the host, also those inside a kubeconfig. [`HostFs::locate`] finds the files.

use std::path::{Path, PathBuf};

use kube::config::{AuthInfo, Config, Kubeconfig};

use super::proxies::Proxies;
use super::target::Target;
use super::{id_token, kubeconfig};
use crate::host_path::HostFs;
use crate::kubernetes::kubernetes_error::with_causes;
use crate::kubernetes::{Cause, Clock, ConfigOverrides};

/// The kubelet's own credentials on a node that kubeadm set up.
const KUBEADM: &str = "/etc/kubernetes/kubelet.conf";

/// The places that may contain credentials. The first one that exists is used.
#[derive(Clone, Debug)]
pub struct CredentialCandidates {
    /// The configured kubeconfigs, which count as one. If there is any, no other place is checked.
    pub kubeconfigs: Vec<PathBuf>,
    /// The kubeconfig of the person who runs a command, as `~/.kube/config`. It may be missing.
    pub own_kubeconfig: Option<PathBuf>,
    /// What the command line sets beside the kubeconfig.
    pub overrides: ConfigOverrides,
    /// Which exec plugins may run. Default: none.
    pub plugins: ExecPlugins,
    /// The proxies of the environment, for a person. A service connects to its API server directly.
    pub proxies: Option<Proxies>,
    /// The clock, for credentials that expire. Default: none, then only the server says that they expired.
    pub clock: Option<Clock>,
    /// The directory of a pod's service account, as this process sees it. Default
    /// `/var/run/secrets/kubernetes.io/serviceaccount`.
    pub account: PathBuf,
    /// The host. Default: the agent's own root is the host's.
    pub host: HostFs,
    /// The kubelet's directory, on the host. Default `/var/lib/kubelet`.
    pub kubelet_root: PathBuf,
    /// The kubelet's credentials are none: they are those of a node, not of a cluster.
    pub without_kubelets: bool,
}

/// Which exec plugins, the programs that kubeconfigs name, may run.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ExecPlugins {
    /// None.
    #[default]
    Never,
    /// That of a kubeconfig that a person names. It may ask the person at the terminal.
    ByPerson,
    /// Any, the kubelet's too.
    Always,
}

/// The credentials in use.
#[derive(Clone, Debug)]
pub struct Access {
    /// Why these were chosen, as text for users.
    pub chosen_by: String,
    pub(in crate::kubernetes) credentials: Credentials,
    pub(in crate::kubernetes) from: CredentialCandidates,
}

/// The identity that kubegc uses at the API server.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(in crate::kubernetes) enum Credentials {
    /// The user of these kubeconfigs. The paths are paths of the host.
    Kubeconfigs(Vec<PathBuf>),
    /// The service account of the pod that this process runs in.
    Account,
}

// === impl CredentialCandidates ===

impl Default for CredentialCandidates {
    fn default() -> Self {
        Self {
            kubeconfigs: Vec::new(),
            own_kubeconfig: None,
            overrides: ConfigOverrides::default(),
            plugins: ExecPlugins::Never,
            proxies: None,
            clock: None,
            account: "/var/run/secrets/kubernetes.io/serviceaccount".into(),
            host: HostFs::default(),
            kubelet_root: "/var/lib/kubelet".into(),
            without_kubelets: false,
        }
    }
}

impl CredentialCandidates {
    /// Finds the credentials to use: the configured kubeconfigs, the person's own, a server of the command line, the pod's
    /// service account, or the kubelet's own, unless these come from a program. Checks files only and sends no request.
    ///
    /// # Errors
    ///
    /// There are no credentials, those that there are come from a program, or no configured kubeconfig exists.
    pub fn find(&self) -> Result<Access, Cause> {
        // The person's own file counts only if it is there.
        let own = self.own_kubeconfig.iter().filter(|path| self.existing(path).is_some());
        let named = if self.kubeconfigs.is_empty() { own.cloned().collect() } else { self.kubeconfigs.clone() };
        if !named.is_empty() {
            if named.iter().all(|path| self.existing(path).is_none()) {
                return Err(Cause::NoKubeconfig { path: joined(&named) });
            }
            let why = chosen(&named);
            return Ok(self.access(Credentials::Kubeconfigs(named), why));
        }
        if self.overrides.server.is_some() {
            return Ok(self.access(Credentials::Kubeconfigs(Vec::new()), "the command line".to_owned()));
        }
        if self.account.join("token").exists() {
            return Ok(self.access(Credentials::Account, "the pod's service account".to_owned()));
        }
        if self.without_kubelets { Err(Cause::NoAccess { tried: Vec::new() }) } else { self.find_kubelets() }
    }

    /// Returns the reason for the configured kubeconfigs, if there are any.
    pub fn configured(&self) -> Option<String> {
        (!self.kubeconfigs.is_empty()).then(|| chosen(&self.kubeconfigs))
    }

    fn find_kubelets(&self) -> Result<Access, Cause> {
        let tried = vec![PathBuf::from(KUBEADM), self.kubelet_root.join("kubeconfig")];
        let plugins = if self.plugins == ExecPlugins::Always { self.plugins } else { ExecPlugins::Never };
        let existing = tried.iter().filter(|path| self.existing(path).is_some() && !self.is_of_other_kind(path));
        let existing = existing.map(|path| {
            let why = format!("the kubelet's kubeconfig {}", path.display());
            let from = Self { plugins, ..self.clone() };
            from.access(Credentials::Kubeconfigs(vec![path.clone()]), why)
        });
        let mut program = None;
        for access in existing {
            match access.target() {
                Err(error @ Cause::RunsProgram { .. }) => program = program.or(Some(error)),
                // Other faults may be repaired while kubegc runs.
                _ => return Ok(access),
            }
        }
        Err(program.unwrap_or(Cause::NoAccess { tried }))
    }

    /// Returns whether a file says that it is no kubeconfig: the first one is a `KubeletConfiguration` on OpenShift.
    fn is_of_other_kind(&self, path: &Path) -> bool {
        #[derive(serde::Deserialize)]
        struct Typed {
            kind: String,
        }
        let text = self.existing(path).and_then(|file| std::fs::read_to_string(file).ok());
        let typed = text.and_then(|text| serde_saphyr::from_str::<Typed>(&text).ok());
        typed.is_some_and(|typed| typed.kind != "Config")
    }

    fn existing(&self, path: &Path) -> Option<PathBuf> {
        self.host.locate(path).existing()
    }

    fn access(&self, credentials: Credentials, chosen_by: String) -> Access {
        Access { chosen_by, credentials, from: self.clone() }
    }
}

// === impl Access ===

impl Access {
    /// Reads the current credentials. Certificates and tokens are replaced while kubegc runs, so they are read again
    /// whenever the server no longer accepts them.
    ///
    /// # Errors
    /// A file cannot be read or used, or the credentials come from a program that may not run.
    pub(in crate::kubernetes) fn target(&self) -> Result<Target, Cause> {
        match &self.credentials {
            Credentials::Kubeconfigs(paths) => self.of_kubeconfigs(paths),
            Credentials::Account => {
                let config = Config::incluster_env();
                let mut config = config.map_err(|error| unusable_account(&error))?;
                self.from.overrides.apply(&mut config.auth_info);
                Ok(Target::of(config))
            }
        }
    }

    fn of_kubeconfigs(&self, paths: &[PathBuf]) -> Result<Target, Cause> {
        let unusable = |cause: String| unusable(&joined(paths), &cause);
        let read: Result<Vec<_>, _> = paths.iter().filter_map(|path| self.read(path).transpose()).collect();
        let read = read?;
        if read.is_empty() && !paths.is_empty() {
            return Err(Cause::NoKubeconfig { path: joined(paths) });
        }
        let merged = kubeconfig::merge(read);
        let (cluster, user) = self.from.overrides.select(&merged).map_err(unusable)?;
        let is_by_program = user.exec.is_some() || user.auth_provider.as_ref().is_some_and(|it| it.name != "oidc");
        if is_by_program && (self.from.plugins == ExecPlugins::Never || user.exec.is_none()) {
            return Err(Cause::RunsProgram { path: joined(paths) });
        }
        if let (Some(provider), Some(now)) = (&user.auth_provider, self.from.clock) {
            id_token::check(provider, now()).map_err(unusable)?;
        }
        let context = self.from.overrides.context.clone().or(merged.current_context).filter(|name| !name.is_empty());
        let target = Target::new(&cluster, user, self.from.proxies.as_ref()).map_err(unusable)?;
        Ok(Target { context, ..target })
    }

    /// Reads a kubeconfig. `None` = there is no such file.
    fn read(&self, path: &Path) -> Result<Option<Kubeconfig>, Cause> {
        let Some(file) = self.from.existing(path) else { return Ok(None) };
        let unusable = |cause: String| unusable(path, &cause);
        let unread = |error| Cause::UseCredentials(format!("cannot read {}: {error}", path.display()));
        let text = std::fs::read_to_string(file).map_err(unread)?;
        let mut kubeconfig = kubeconfig::read(&text).map_err(unusable)?;
        for user in kubeconfig.auth_infos.iter_mut().filter_map(|named| named.auth_info.as_mut()) {
            self.resolve_user(path, user);
        }
        for cluster in kubeconfig.clusters.iter_mut().filter_map(|named| named.cluster.as_mut()) {
            self.resolve(path, &mut cluster.certificate_authority);
        }
        Ok(Some(kubeconfig))
    }

    fn resolve_user(&self, kubeconfig: &Path, user: &mut AuthInfo) {
        for path in [&mut user.client_certificate, &mut user.client_key, &mut user.token_file] {
            self.resolve(kubeconfig, path);
        }
        // A command without a slash is looked for in $PATH.
        if let Some(plugin) = user.exec.as_mut().filter(|plugin| plugin.command.iter().any(|it| it.contains('/'))) {
            self.resolve(kubeconfig, &mut plugin.command);
        }
    }

    /// Replaces a path inside a kubeconfig by the path under which this process reaches the file. A relative path
    /// starts at the directory of the kubeconfig.
    fn resolve(&self, kubeconfig: &Path, path: &mut Option<String>) {
        let Some(text) = path.as_mut().filter(|text| !text.is_empty()) else { return };
        let absolute = kubeconfig.parent().unwrap_or(Path::new("/")).join(&*text);
        let path_here = self.from.existing(&absolute).unwrap_or(absolute);
        *text = path_here.display().to_string();
    }
}

fn chosen(kubeconfigs: &[PathBuf]) -> String {
    format!("kubeconfig {}", joined(kubeconfigs).display())
}

/// Returns the paths as `KUBECONFIG` lists them.
fn joined(paths: &[PathBuf]) -> PathBuf {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(":").into()
}

fn unusable(path: &Path, cause: &str) -> Cause {
    Cause::UseCredentials(format!("{}: not a kubeconfig that can be used: {cause}", path.display()))
}

fn unusable_account(error: &dyn std::error::Error) -> Cause {
    Cause::UseCredentials(format!("the service account cannot be used: {}", with_causes(error)))
}
