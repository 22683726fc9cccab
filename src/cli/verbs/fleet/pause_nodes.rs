//! `kubegc fleet pause` and `kubegc fleet resume`.

use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize as _;

use super::explained;
use super::selector::SelectorArgs;
use crate::cli::args::times;
use crate::cli::cli_error::{CliError, ErrorKind};
use crate::cli::input::cluster::Source;
use crate::cli::input::session::block_on;
use crate::cli::render::output::Output;
use crate::daemon::now;
use crate::fleet::{NodeDiskPolicySpec, PolicyPause};
use crate::kubernetes::{
    ApiResource, Connection, Deletion, LabeledObject, WriteTarget, apply_policy, delete_object, read_object,
};

/// The longest wait for an answer.
pub(super) const LIMIT: Duration = Duration::from_secs(15);
/// The label of what kubegc wrote.
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// Stop all removals on nodes until `kubegc fleet resume`
///
/// The pause is a NodeDiskPolicy. A pause of the same name is replaced.
#[derive(Debug, clap::Args)]
pub(super) struct PauseArgs {
    #[command(flatten)]
    nodes: SelectorArgs,
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
        let spec = NodeDiskPolicySpec { node_selector: self.nodes.selector.clone(), paused, ..Default::default() };
        let connection = source.patient_connection();
        block_on(async { apply_policy(&connection, &self.name, &spec, LIMIT).await.map_err(explained) })?;
        output.text(&format!("nodediskpolicy.kubegc.dev/{} applied\n", self.name))
    }
}

// === impl ResumeArgs ===

impl ResumeArgs {
    pub(super) fn run(&self, source: Source<'_>, output: &mut Output) -> Result<(), CliError> {
        let connection = source.patient_connection();
        let is_deleted = block_on(delete_policy(&connection, &self.name))?;
        let result = if is_deleted { "deleted" } else { "not found" };
        output.text(&format!("nodediskpolicy.kubegc.dev/{} {result}\n", self.name))
    }
}

/// Deletes a policy, and returns whether there was one. A policy that a person wrote stays: it may have more than a pause.
pub(super) async fn delete_policy(connection: &Connection, name: &str) -> Result<bool, CliError> {
    let resource = ApiResource::node_disk_policies();
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
