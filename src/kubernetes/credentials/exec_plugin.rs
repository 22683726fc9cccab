//! Credentials of an exec plugin: a program that a kubeconfig names, as those of EKS, GKE and AKS do.
//!
//! It runs as in client-go 1.36. kube runs such programs too, but assumes a terminal, has no limit, and its errors contain
//! what the program printed: a token.

use std::io::{ErrorKind, IsTerminal as _, stdin};
use std::process::{Output, Stdio};
use std::time::Duration;

use jiff::Timestamp;
use kube::config::{Cluster, ExecAuthCluster, ExecConfig, ExecInteractiveMode};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::process::Command;
use tokio::time::timeout;

use crate::kubernetes::kubernetes_error::with_causes;

/// The variable with the input of a plugin.
const INPUT: &str = "KUBERNETES_EXEC_INFO";
const V1: &str = "client.authentication.k8s.io/v1";
const V1BETA1: &str = "client.authentication.k8s.io/v1beta1";
/// How long a plugin may run if no person answers its questions.
const LIMIT: Duration = Duration::from_mins(1);

/// A program that prints credentials.
#[derive(Clone, Debug)]
pub(in crate::kubernetes) struct ExecPlugin {
    command: String,
    version: &'static str,
    interactive: ExecInteractiveMode,
    config: ExecConfig,
    cluster: Option<ExecAuthCluster>,
}

/// The credentials that a plugin printed.
pub(in crate::kubernetes) struct ExecCredential {
    pub(super) token: Option<String>,
    /// A client certificate and its key, as PEM.
    pub(super) certificate: Option<(String, String)>,
    /// When they expire.
    pub(in crate::kubernetes) expires: Option<Timestamp>,
}

/// The input of a plugin.
#[derive(Serialize)]
struct PluginSpec<'a> {
    interactive: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<PluginCluster<'a>>,
}

/// As client-go writes it, `config` is there even if there is nothing in it.
#[derive(Serialize)]
struct PluginCluster<'a> {
    #[serde(flatten)]
    cluster: ExecAuthCluster,
    config: &'a Option<serde_json::Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Printed {
    kind: Option<String>,
    api_version: Option<String>,
    status: Option<PrintedStatus>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PrintedStatus {
    expiration_timestamp: Option<Timestamp>,
    token: String,
    client_certificate_data: String,
    client_key_data: String,
}

// === impl PluginCluster ===

impl<'a> PluginCluster<'a> {
    fn of(cluster: &'a ExecAuthCluster) -> Self {
        Self { cluster: ExecAuthCluster { config: None, ..cluster.clone() }, config: &cluster.config }
    }
}

// === impl ExecPlugin ===

impl ExecPlugin {
    /// Checks what a kubeconfig says of a plugin.
    ///
    /// # Errors
    /// The field that is missing or has a wrong value.
    pub(super) fn new(config: ExecConfig, cluster: &Cluster) -> Result<Self, String> {
        let command =
            config.command.clone().filter(|command| !command.is_empty()).ok_or("exec: there is no command")?;
        let version = match config.api_version.as_deref() {
            Some(V1) => V1,
            Some(V1BETA1) => V1BETA1,
            other => {
                return Err(format!("exec: apiVersion {:?}: expected {V1} or {V1BETA1}", other.unwrap_or_default()));
            }
        };
        let interactive = match config.interactive_mode.clone() {
            Some(mode) => mode,
            None if version == V1BETA1 => ExecInteractiveMode::IfAvailable,
            None => return Err("exec: no interactiveMode; expected Never, IfAvailable or Always".to_owned()),
        };
        let cluster = config.provide_cluster_info.then(|| ExecAuthCluster::try_from(cluster)).transpose();
        let cluster = cluster.map_err(|error| with_causes(&error))?;
        Ok(Self { command, version, interactive, config, cluster })
    }

    /// Runs the program. If `by_person`, it may ask the person at the terminal.
    ///
    /// # Errors
    /// It does not run, fails, or prints no credentials. The text contains nothing that it printed.
    pub(in crate::kubernetes) async fn run(&self, by_person: bool) -> Result<ExecCredential, String> {
        let has_terminal = by_person && stdin().is_terminal();
        let interactive = match self.interactive {
            ExecInteractiveMode::Never => false,
            ExecInteractiveMode::IfAvailable => has_terminal,
            ExecInteractiveMode::Always if has_terminal => true,
            ExecInteractiveMode::Always => return Err(self.error("it needs a terminal (interactiveMode: Always)")),
        };
        let child = self.command(interactive).spawn().map_err(|error| match error.kind() {
            ErrorKind::NotFound => self.error(&format!("no such program{}", self.hint())),
            _ => self.error(&error.to_string()),
        })?;
        let ended = child.wait_with_output();
        let output = if interactive { Ok(ended.await) } else { timeout(LIMIT, ended).await };
        let output = output.map_err(|_| self.error(&format!("it did not end within {} s", LIMIT.as_secs())))?;
        self.credential(&output.map_err(|error| self.error(&error.to_string()))?)
    }

    #[expect(clippy::disallowed_methods, reason = "a kubeconfig names this program, and the settings permit it")]
    fn command(&self, interactive: bool) -> Command {
        let mut command = Command::new(&self.command);
        let variables = self.config.env.iter().flatten().filter_map(|it| Some((it.get("name")?, it.get("value")?)));
        command.args(self.config.args.iter().flatten()).envs(variables).env(INPUT, self.input(interactive));
        command.stdin(if interactive { Stdio::inherit() } else { Stdio::null() });
        // Standard error is that of kubegc, as in client-go: the program explains itself there.
        command.stdout(Stdio::piped()).kill_on_drop(true);
        command
    }

    fn input(&self, interactive: bool) -> String {
        let spec = PluginSpec { interactive, cluster: self.cluster.as_ref().map(PluginCluster::of) };
        json!({"kind": "ExecCredential", "apiVersion": self.version, "spec": spec}).to_string()
    }

    fn credential(&self, output: &Output) -> Result<ExecCredential, String> {
        if !output.status.success() {
            return Err(self.error(&format!("it failed: {}", output.status)));
        }
        // client-go reads YAML too. An error of the parser would show the text.
        let printed: Option<Printed> = serde_saphyr::from_slice(&output.stdout).ok();
        let printed = printed.filter(|printed| printed.kind.as_deref() == Some("ExecCredential"));
        let printed = printed.ok_or_else(|| self.error("it printed no ExecCredential"))?;
        let version = printed.api_version.unwrap_or_default();
        if version != self.version {
            return Err(self.error(&format!("the answer has version {version:?}; expected {:?}", self.version)));
        }
        let status = printed.status.ok_or_else(|| self.error("its ExecCredential has no status"))?;
        let filled = |text: String| Some(text).filter(|text| !text.is_empty());
        let (certificate, key) = (filled(status.client_certificate_data), filled(status.client_key_data));
        let (token, has_one) = (filled(status.token), certificate.is_some() != key.is_some());
        if has_one || (token.is_none() && certificate.is_none()) {
            return Err(self.error("it printed neither a token nor a certificate with its key"));
        }
        Ok(ExecCredential { token, certificate: certificate.zip(key), expires: status.expiration_timestamp })
    }

    fn hint(&self) -> String {
        self.config.install_hint.as_deref().map(|hint| format!(": {}", hint.trim())).unwrap_or_default()
    }

    fn error(&self, cause: &str) -> String {
        format!("exec plugin {:?}: {cause}", self.command)
    }
}
