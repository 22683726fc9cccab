//! `kubegc fleet pause` and `kubegc fleet resume`.

use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize as _;

use crate::cli::args::times;
use crate::cli::cli_error::{CliError, ErrorKind};
use crate::cli::input::session::block_on;
use crate::cli::render::output::Output;
use crate::cli::verbs::controller::source::Source;
use crate::daemon::now;
use crate::fleet::{LabelCondition, LabelOperator, NodeDiskPolicySpec, NodeSelector, PolicyPause};
use crate::kubernetes::{
    ApiResource, Connection, Deletion, KubernetesError, LabeledObject, WriteTarget, apply_policy, delete_object,
    read_object,
};

/// The longest wait for an answer.
const LIMIT: Duration = Duration::from_secs(15);
/// The label of what kubegc wrote.
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// Stop all removals on nodes until `kubegc fleet resume`
///
/// The pause is a NodeDiskPolicy. A pause of the same name is replaced.
#[derive(Debug, clap::Args)]
pub(super) struct PauseArgs {
    /// Labels of the nodes, as key=value,key!=value,key,!key (all nodes if not set)
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = selector)]
    selector: Option<NodeSelector>,
    /// End of the pause: a duration from now, or a time
    #[arg(long, value_name = "WHEN", value_parser = times::from_now)]
    until: Option<Timestamp>,
    /// Why, as status and events on the nodes show it
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Name of the policy
    #[arg(long, value_name = "NAME", default_value = "pause")]
    name: String,
}

/// End a pause of nodes
#[derive(Debug, clap::Args)]
pub(super) struct ResumeArgs {
    /// Name of the policy
    #[arg(long, value_name = "NAME", default_value = "pause")]
    name: String,
}

// === impl PauseArgs ===

impl PauseArgs {
    pub(super) fn run(&self, source: Source<'_>, output: &mut Output) -> Result<(), CliError> {
        if self.until.is_some_and(|until| until <= now()) {
            return Err(CliError::message(ErrorKind::Usage, "cannot pause: --until is in the past".to_owned()));
        }
        let paused = Some(PolicyPause { reason: self.reason.clone(), until: self.until });
        let spec = NodeDiskPolicySpec { node_selector: self.selector.clone(), paused, mode: None };
        let connection = source.patient_connection();
        block_on(async { apply_policy(&connection, &self.name, &spec, LIMIT).await.map_err(explained) })?;
        output.text(&format!("nodediskpolicy.kubegc.dev/{} applied\n", self.name))
    }
}

// === impl ResumeArgs ===

impl ResumeArgs {
    pub(super) fn run(&self, source: Source<'_>, output: &mut Output) -> Result<(), CliError> {
        let connection = source.patient_connection();
        let is_deleted = block_on(self.delete(&connection))?;
        let result = if is_deleted { "deleted" } else { "not found" };
        output.text(&format!("nodediskpolicy.kubegc.dev/{} {result}\n", self.name))
    }

    /// Deletes the policy, and returns whether there was one. A policy that a person wrote stays: it may have more than a pause.
    async fn delete(&self, connection: &Connection) -> Result<bool, CliError> {
        let (resource, name) = (ApiResource::node_disk_policies(), self.name.as_str());
        let read = read_object(connection, &resource, "", name, LIMIT).await.map_err(explained)?;
        let Some(policy) = read.and_then(|policy| LabeledObject::deserialize(policy).ok()) else { return Ok(false) };
        if policy.labels.get(MANAGED_BY).map(String::as_str) != Some("kubegc") {
            let message = format!("cannot delete the NodeDiskPolicy {name:?}: kubegc did not write it");
            return Err(CliError::message(ErrorKind::Usage, message).hint("edit or delete it with kubectl"));
        }
        let target = WriteTarget { resource: &resource, namespace: "", name, uid: &policy.meta.uid };
        delete_object(connection, target, &Deletion::default(), LIMIT).await.map_err(explained)?;
        Ok(true)
    }
}

/// Explains why a policy cannot be written or read.
fn explained(error: KubernetesError) -> CliError {
    let hint = match error.cause.code() {
        Some(404) => "the cluster has no NodeDiskPolicies; docs/fleet.md shows how to install them",
        Some(403) => "the user may not write NodeDiskPolicies (kubegc.dev)",
        _ => "--kubeconfig selects the credentials and the API server",
    };
    CliError::new(ErrorKind::Runtime, error).hint(hint)
}

/// Reads a selector of labels.
fn selector(text: &str) -> Result<NodeSelector, String> {
    let condition = |part: &str| {
        let (key, operator, value) = if let Some((key, value)) = part.split_once("!=") {
            (key, LabelOperator::NotIn, Some(value))
        } else if let Some((key, value)) = part.split_once('=') {
            (key, LabelOperator::In, Some(value.trim_start_matches('=')))
        } else if let Some(key) = part.strip_prefix('!') {
            (key, LabelOperator::DoesNotExist, None)
        } else {
            (part, LabelOperator::Exists, None)
        };
        let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte));
        if key.is_empty() || !is_plain(key) || !value.is_none_or(is_plain) {
            return Err(format!("{part:?} is not of the form key=value, key!=value, key or !key"));
        }
        let values = value.map(|value| vec![value.to_owned()]);
        Ok(LabelCondition { key: key.to_owned(), operator, values })
    };
    let match_expressions = text.split(',').map(str::trim).map(condition).collect::<Result<_, _>>()?;
    Ok(NodeSelector { match_expressions, ..NodeSelector::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_is_that_of_kubectl() {
        let parts = |text: &str| {
            let parts = selector(text).unwrap().match_expressions.into_iter();
            parts.map(|it| format!("{} {:?} {:?}", it.key, it.operator, it.values)).collect::<Vec<_>>()
        };
        assert_eq!(parts("pool=gpu, zone!=a"), ["pool In Some([\"gpu\"])", "zone NotIn Some([\"a\"])"]);
        assert_eq!(
            parts("a==b,!spot,example.com/new"),
            ["a In Some([\"b\"])", "spot DoesNotExist None", "example.com/new Exists None",]
        );
        for wrong in ["", "=a", "a in (b)", "a=b,,c", "a=b c"] {
            assert!(selector(wrong).is_err(), "{wrong:?}");
        }
    }
}
