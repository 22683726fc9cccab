//! An API server, and all that a connection to it needs: its address, its authorities, a proxy and the credentials.

use std::path::PathBuf;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::{HeaderValue, Uri};
use hyper_util::client::proxy::matcher::Intercept;
use kube::config::{AuthInfo, Cluster, Config, ExecAuthCluster};
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::CertificateDer;
use rustls::sign::CertifiedKey;
use secrecy::{ExposeSecret as _, SecretString};

use super::exec_plugin::{ExecCredential, ExecPlugin};
use super::proxies::{self, Proxies};
use super::tls::{self, Authorities};
use crate::kubernetes::kubernetes_error::with_causes;

/// An API server with the credentials for it.
pub(in crate::kubernetes) struct Target {
    /// The address, the authorities, and the user without its client certificate.
    pub(in crate::kubernetes) config: Config,
    /// The client certificate of the user.
    pub(in crate::kubernetes) identity: Option<Arc<CertifiedKey>>,
    /// Verifies the server's certificate in place of the authorities.
    pub(in crate::kubernetes) verifier: Option<Arc<dyn ServerCertVerifier>>,
    /// The proxy to the server.
    pub(in crate::kubernetes) proxy: Option<Intercept>,
    /// The program that provides the credentials.
    pub(in crate::kubernetes) plugin: Option<ExecPlugin>,
    /// The context of the kubeconfig.
    pub(in crate::kubernetes) context: Option<String>,
}

// === impl Target ===

impl Target {
    /// Creates a target from what a kubeconfig says. `proxies` are those of the environment; a proxy of the cluster has
    /// precedence.
    ///
    /// # Errors
    /// A value that cannot be used, or a file that cannot be read. The error names it.
    pub(super) fn new(cluster: &Cluster, user: AuthInfo, proxies: Option<&Proxies>) -> Result<Self, String> {
        let url = url(cluster)?;
        let verifier = authorities(cluster)?;
        let proxy = match &cluster.proxy_url {
            Some(proxy) => Some(proxies::named(proxy)?),
            None => proxies.and_then(|proxies| proxies.of(&url)),
        };
        let mut config = Config::new(url);
        config.root_cert = verifier.as_ref().map(|_| Vec::new());
        config.accept_invalid_certs = cluster.insecure_skip_tls_verify.unwrap_or(false);
        config.tls_server_name.clone_from(&cluster.tls_server_name);
        check(&user)?;
        let mut user = if config.cluster_url.scheme_str() == Some("https") { user } else { without_credentials(user) };
        let identity = identity_of(&user)?;
        read_token(&mut user)?;
        let plugin = user.exec.take().map(|plugin| ExecPlugin::new(plugin, cluster)).transpose()?;
        // Other credentials have precedence, as in client-go.
        let plugin = plugin.filter(|_| user.token.is_none() && user.username.is_none() && identity.is_none());
        (user.client_certificate, user.client_certificate_data) = (None, None);
        (user.client_key, user.client_key_data) = (None, None);
        config.auth_info = user;
        Ok(Self { config, identity, verifier, proxy, plugin, context: None })
    }

    /// Creates a target that has its credentials in `config`.
    pub(in crate::kubernetes) fn of(mut config: Config) -> Self {
        let authorities = config.root_cert.iter().flatten().cloned().map(CertificateDer::from).collect();
        let verifier = Authorities::new(authorities).map(|it| Arc::new(it) as Arc<dyn ServerCertVerifier>);
        if verifier.is_some() {
            (config.root_cert, config.root_cert_file) = (Some(Vec::new()), None);
        }
        Self { config, identity: None, verifier, proxy: None, plugin: None, context: None }
    }

    /// Uses the credentials that a plugin printed.
    pub(in crate::kubernetes) fn add(&mut self, credential: ExecCredential) -> Result<(), String> {
        self.config.auth_info.token = credential.token.map(Into::into);
        let identity_of = |(certificate, key): (String, String)| identity(certificate.as_bytes(), key.as_bytes());
        self.identity = credential.certificate.map(identity_of).transpose()?;
        Ok(())
    }
}

/// Returns the address of a server. One without a scheme has no TLS, as in kubectl.
fn url(cluster: &Cluster) -> Result<Uri, String> {
    let server =
        cluster.server.as_deref().ok_or("no server: the kubeconfig has no current context; --context selects one")?;
    let text = if server.contains("://") { server.to_owned() } else { format!("http://{server}") };
    let url: Uri = text.parse().map_err(|error| format!("server {server:?}: {error}"))?;
    match url.scheme_str() {
        Some("http" | "https") if url.host().is_some_and(|host| !host.is_empty()) => Ok(url),
        _ => Err(format!("server {server:?}: expected http:// or https:// and a host")),
    }
}

/// Returns the verifier of the server's certificate; `None` = the authorities of the system decide.
fn authorities(cluster: &Cluster) -> Result<Option<Arc<dyn ServerCertVerifier>>, String> {
    let read = ExecAuthCluster::try_from(cluster).map_err(|error| with_causes(&error))?;
    match read.certificate_authority_data {
        Some(_) if cluster.insecure_skip_tls_verify == Some(true) => {
            Err("certificate-authority: not together with insecure-skip-tls-verify".to_owned())
        }
        Some(pem) => {
            let found = Authorities::new(some_certificates("certificate-authority", &pem)?);
            Ok(Some(Arc::new(found.ok_or("certificate-authority: no certificate in it can be read")?)))
        }
        None => Ok(None),
    }
}

/// Checks that the fields of a user fit together, as kubectl does.
fn check(user: &AuthInfo) -> Result<(), String> {
    let has_token = user.token.is_some() || user.token_file.is_some();
    if has_token && (user.username.is_some() || user.password.is_some()) {
        return Err("the user has a token and a password; only one of them is possible".to_owned());
    }
    let others =
        [user.impersonate_uid.is_some(), user.impersonate_groups.is_some(), user.impersonate_user_extra.is_some()];
    if user.impersonate.is_none() && others.contains(&true) {
        return Err("a uid, groups or extra fields are impersonated, and no user (as)".to_owned());
    }
    Ok(())
}

/// Without TLS no credentials are sent, as in kubectl: anyone on the network path could read them.
fn without_credentials(user: AuthInfo) -> AuthInfo {
    AuthInfo {
        impersonate: user.impersonate,
        impersonate_uid: user.impersonate_uid,
        impersonate_groups: user.impersonate_groups,
        impersonate_user_extra: user.impersonate_user_extra,
        ..AuthInfo::default()
    }
}

/// Checks that a token can be sent. kube panics at one that cannot.
pub(in crate::kubernetes) fn check_token(user: &AuthInfo) -> Result<(), String> {
    let Some(token) = &user.token else { return Ok(()) };
    let header = HeaderValue::try_from(format!("Bearer {}", token.expose_secret()));
    header.map(drop).map_err(|_| "token: not the text of a header".to_owned())
}

/// Reads the token file in place of an inline token. A file that cannot be read leaves the inline token, as in client-go.
/// After an answer 401 everything is read again.
fn read_token(user: &mut AuthInfo) -> Result<(), String> {
    let Some(file) = user.token_file.take() else { return Ok(()) };
    match std::fs::read_to_string(&file) {
        Ok(token) if !token.trim().is_empty() => user.token = Some(token.trim().to_owned().into()),
        _ if user.token.is_some() => {}
        Ok(_) => return Err(format!("tokenFile {file}: the file is empty")),
        Err(error) => return Err(format!("tokenFile {file}: {error}")),
    }
    Ok(())
}

fn identity_of(user: &AuthInfo) -> Result<Option<Arc<CertifiedKey>>, String> {
    let key_data = user.client_key_data.as_ref().map(SecretString::expose_secret);
    let certificate =
        data_or_file("client-certificate", user.client_certificate_data.as_deref(), user.client_certificate.as_ref())?;
    match (certificate, data_or_file("client-key", key_data, user.client_key.as_ref())?) {
        (None, None) => Ok(None),
        (Some(certificate), Some(key)) => identity(&certificate, &key).map(Some),
        (Some(_), None) => Err("client-certificate: there is no client-key".to_owned()),
        (None, Some(_)) => Err("client-key: there is no client-certificate".to_owned()),
    }
}

fn data_or_file(name: &str, data: Option<&str>, file: Option<&String>) -> Result<Option<Vec<u8>>, String> {
    if let Some(data) = data {
        return BASE64_STANDARD.decode(data).map(Some).map_err(|error| format!("{name}-data: {error}"));
    }
    let Some(file) = file.map(PathBuf::from) else { return Ok(None) };
    std::fs::read(&file).map(Some).map_err(|error| format!("{name} {}: {error}", file.display()))
}

fn identity(certificate: &[u8], key: &[u8]) -> Result<Arc<CertifiedKey>, String> {
    let chain = some_certificates("client-certificate", certificate)?;
    tls::identity(chain, key).map_err(|cause| format!("client-key: {cause}"))
}

fn some_certificates(name: &str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found = tls::certificates(pem);
    if found.is_empty() { Err(format!("{name}: no certificate in PEM")) } else { Ok(found) }
}
